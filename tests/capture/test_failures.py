"""What goes wrong in the recording is written down, and the job goes on as if nobody watched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

FOLDER = str(Path(__file__).parent)
TRAINED = "start\n", "end of 3 batches\n"

BROKEN = f"""
    import sys
    sys.path.insert(0, {FOLDER!r})
    import torch, job
    from _whyidle import hooks, loader, optimizer, forward, save, scaler

    def fail(*_, **__):
        raise RuntimeError("a mistake of ours")

    loader.number_of = loader.size_of = optimizer._entry = forward.backward = save._argument = scaler._skipped = fail
    hooks.after_step(fail)
    hooks.around("wait").append((fail, fail))
    hooks.after_iterate(fail)
    torch.save(1, "one.pt")
    job.main(3)
"""
HANDLED = f"""
    import functools, signal, sys
    sys.path.insert(0, {FOLDER!r})
    import torch, job
    from _whyidle import backward, forward, hooks, loader, optimizer, record, save, scaler, settings

    class Late(Exception):
        pass

    class Handler:
        def __call__(self, number, frame):
            raise Late("time is up")

    handlers = Handler(), functools.partial(Handler.__call__, None), lambda number, frame: Handler()(number, frame)
    heard = []

    def late(*_, **__):
        signal.raise_signal(signal.SIGALRM)

    def trained():
        try:
            job.main(3)
            torch.save(1, "one.pt")
        except Late:
            return False
        return True

    trained()
    places = (loader, "number_of"), (loader, "size_of"), (optimizer, "_entry"), (save, "_argument"), (save, "_position")
    for number, (owner, name) in enumerate(places):
        signal.signal(signal.SIGALRM, handlers[number % 3])
        before = getattr(owner, name)
        setattr(owner, name, late)
        heard.append(trained())
        setattr(owner, name, before)
    for add in (hooks.after_step, lambda late: hooks.around("wait").append((late, late)), hooks.after_iterate):
        add(late)
        heard.append(trained())
        del hooks._after_step[-1:], hooks.waits[-1:], hooks._after_iterate[-1:]
    assert heard == [False] * 8, heard
    assert record.errors() == 0
"""
CALLBACKS = f"""
    import sys
    sys.path.insert(0, {FOLDER!r})
    import torch, job
    from _whyidle import hooks
    steps, waits, loaders = [], [], []
    hooks.after_step(lambda count, optimizer: (steps.append((count, type(optimizer).__name__)), count < 2)[1])
    hooks.after_iterate(lambda number, loader, frame: loaders.append((number, loader.batch_size, frame.f_code.co_name)))
    hooks.around("wait").append((lambda kind: kind * 10, lambda token, sequence: waits.append((token, sequence >= 0))))
    job.main(3)
    torch.save(1, "one.pt")
    assert steps == [(1, "SGD"), (2, "SGD")], steps
    assert waits == [(10, True)] * 4 + [(50, True)], waits
    assert loaders == [(0, 2, "main")], loaders
"""
OLD_TORCH = f"""
    import sys
    sys.path.insert(0, {FOLDER!r})
    sys.path.insert(0, sys.argv[1])
    import torch, torch.optim.optimizer as module, loops
    del module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook
    from _whyidle import boot
    boot.start(sys.argv[2], {{}})
    loops.own_optimizer()
    loops.lbfgs()
    loops.accumulate()
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    folder = tmp_path / "recorded"
    folder.mkdir()
    return folder


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(dedent(text), "utf-8")
    return path


def train(folder: Path, tmp_path: Path) -> tuple[str, str]:
    env = injecting.environment(folder, trace=False)
    job = injecting.python(Path(FOLDER) / "job.py", "3", env=env, cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    return job.stdout, job.stderr


def test_mistakes_in_our_hooks_are_noted_and_the_job_goes_on(recorded: Path, tmp_path: Path) -> None:
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, BROKEN), env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, *TRAINED)
    assert reading.errors(recorded).count("a mistake of ours") > 5


def test_all_looks_at_once_where_warnings_are_errors(recorded: Path, tmp_path: Path) -> None:
    """Loaders with workers and the look at them, saves, a compiled model, autocast and the profiler's window."""
    code = """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        torch.set_num_threads(1)
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        compiled = torch.compile(model, backend="eager")
        scaler = torch.amp.GradScaler("cpu")
        for batch, in DataLoader(TensorDataset(torch.ones(60, 4)), 2, num_workers=1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = compiled(batch).float().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save(model.state_dict(), "one.pt")
        print("trained")
    """
    path, env = script(tmp_path, code), injecting.environment(recorded, trace_after=10, workers=True)
    job = injecting.python("-W", "error", path, env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, "trained\n", "")
    assert reading.errors(recorded) == ""
    (ring,) = reading.rings(recorded)
    counts = ring.counts("COUNT", "WATCH", "PROFILE")
    assert counts == {
        "ITERATE": 1, "BATCH": 30, "END": 1, "FORWARD": 30, "BACKWARD": 30, "STEP": 30, "SCALE": 30, "SAVE": 1,
    }  # fmt: skip
    (facts,) = recorded.glob("*.facts.json")
    assert json.loads(facts.read_text("utf-8"))["profile"]["state"] == "done"
    assert len(list(recorded.glob("trace-rank0-*.json.gz"))) == 1
    (worker,) = recorded.glob("*.worker-0-0.json")
    assert json.loads(worker.read_text("utf-8"))["fetches"] == 30


def test_what_a_signal_handler_of_the_job_raises_in_our_hooks_is_the_jobs(recorded: Path, tmp_path: Path) -> None:
    """As PyTorch's own does, which tells of a worker that has died: to swallow that would hang the job."""
    job = injecting.python(script(tmp_path, HANDLED), env=injecting.environment(recorded, trace=False), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    assert reading.errors(recorded) == ""


def test_callbacks_hear_of_steps_waits_and_loaders(recorded: Path, tmp_path: Path) -> None:
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, CALLBACKS), env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, *TRAINED)
    assert reading.errors(recorded) == ""


def test_a_torch_without_hooks_for_all_optimizers_is_recorded_too(recorded: Path, tmp_path: Path) -> None:
    arguments = (injecting.CAPTURE, recorded)
    job = injecting.python(script(tmp_path, OLD_TORCH), *arguments, env=injecting.bare_environment(), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    assert reading.errors(recorded) == ""
    (ring,) = reading.rings(recorded)
    assert ring.counts("COUNT", "WATCH", "PROFILE") == {
        "ITERATE": 3, "BATCH": 30, "END": 3, "FORWARD": 60, "BACKWARD": 60, "STEP": 22,
    }  # fmt: skip


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert train(tmp_path / "nowhere", tmp_path) == TRAINED
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(recorded: Path, tmp_path: Path) -> None:
    recorded.chmod(0o500)
    assert train(recorded, tmp_path) == TRAINED
    assert list(recorded.iterdir()) == []


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert train(tmp_path / "file", tmp_path) == TRAINED


def test_no_room_for_a_ring(recorded: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: the blocks are refused when the ring is made."""
    code = f"""
        import resource, sys
        sys.path.insert(0, {FOLDER!r})
        import job
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        job.main(3)
    """
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, code), env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, *TRAINED)
    assert [path.name for path in recorded.iterdir()] == ["errors.txt"]
    assert "this process is not recorded" in reading.errors(recorded)


GYMNASIUM = """
class Env:
    def step(self, action):
        raise NotImplementedError

class Wrapper(Env):
    def __init__(self, env):
        self.env = env
    def step(self, action):
        return self.env.step(action)
"""
ENVIRONMENTS = """
    import torch
    from gymnasium.core import Env, Wrapper

    class Game(Env):
        num_envs = 3
        def step(self, action):
            return action + 1

    class Harder(Wrapper):
        num_envs = 3
        def step(self, action):
            return super().step(action) + 10

    torch.nn.Linear(1, 1)(torch.ones(1)).backward()  # a job that trains
    env = Harder(Wrapper(Game()))
    assert [env.step(number) for number in range(5)] == [11, 12, 13, 14, 15]
    assert Game().step(1) == 2
    from _whyidle import boot
    boot.stop()
    assert env.step(1) == 12
"""


def test_only_the_outermost_environment_counts(recorded: Path, tmp_path: Path) -> None:
    package = tmp_path / "gymnasium"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(GYMNASIUM, "utf-8")
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, ENVIRONMENTS), env=env, cwd=tmp_path)
    assert (job.returncode, job.stderr) == (0, "")
    (ring,) = reading.rings(recorded)
    assert [record.value for record in ring.records if record.kind == "ENVIRONMENT"] == [3] * 6
    assert reading.errors(recorded) == ""


PICKLED_BY_VALUE = """
    import pickle, sys, torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
        def forward(self, x):
            return self.layer(x)

    net = Net()
    net(torch.ones(2))
    call = vars(Net)["__call__"]
    parts = [cell.cell_contents for cell in call.__closure__] + [call.__wrapped__]
    parts += [call.__globals__[name] for name in call.__code__.co_names if name in call.__globals__]
    with open("parts.pickle", "wb") as file:  # what cloudpickle and dill have to pickle of such a function
        pickle.dump([part for part in parts if part is not Net], file)
    with open("net.pickle", "wb") as file:
        pickle.dump(net, file)
"""


def test_what_pickles_a_class_by_value_takes_nothing_of_ours_along(recorded: Path, tmp_path: Path) -> None:
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, PICKLED_BY_VALUE), env=env, cwd=tmp_path)
    assert (job.returncode, job.stderr) == (0, "")
    assert b"whyidle" not in (tmp_path / "parts.pickle").read_bytes()
    assert b"whyidle" not in (tmp_path / "net.pickle").read_bytes()


def test_warnings_are_of_the_lines_that_they_were_of(recorded: Path, tmp_path: Path) -> None:
    """A wrapper is one frame more between who warns and whom it is about: `stacklevel` must not count it."""
    watched, bare = injecting.environment(recorded, trace=False), injecting.bare_environment()
    with_us, without = (injecting.python(Path(FOLDER) / "warned.py", env=env, cwd=tmp_path) for env in (watched, bare))
    assert without.stderr.count("Warning: ") >= 4
    assert (with_us.returncode, with_us.stderr) == (without.returncode, without.stderr)
    assert reading.errors(recorded) == ""


SCRIPTED = """
import torch

@torch.jit.script
def double(x: torch.Tensor):
    torch.autograd.backward([(x * 2).sum()])

x = torch.ones(3, requires_grad=True)
double(x)
print(x.grad.tolist())
"""


def test_torchscript_still_knows_what_we_wrap(recorded: Path, tmp_path: Path) -> None:
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, SCRIPTED), env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout) == (0, "[2.0, 2.0, 2.0]\n"), job.stderr
    assert reading.errors(recorded) == ""
