"""How the recording gets into a job's processes: into those that train, in every way to start one, and in no other."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent
from typing import Any

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

JOB = Path(__file__).with_name("job.py")
ONE = {"ITERATE": 1, "BATCH": 3, "END": 1, "FORWARD": 3, "BACKWARD": 3, "STEP": 3}
OURS = ("COUNT", "WATCH", "PROFILE")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    folder = tmp_path / "recorded"
    folder.mkdir()
    return folder


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(dedent(text), "utf-8")
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> CompletedProcess[str]:
    """Return what a job says that nobody watches."""
    return injecting.python(JOB, "3", env=injecting.bare_environment(), cwd=tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize(
    "command",
    [
        (str(JOB), "3"),
        ("-m", "job", "3"),
        ("-c", "import job; job.main(3)"),
        ("-s", str(JOB), "3"),
        ("-W", "error", str(JOB), "3"),
        ("-OO", str(JOB), "3"),
    ],
    ids=["script", "module", "code", "no user site", "warnings are errors", "no docstrings"],
)
def test_a_job_is_recorded_and_nothing_shows(
    command: tuple[str, ...], bare: CompletedProcess[str], recorded: Path, tmp_path: Path
) -> None:
    user = str(JOB.parent)
    job = injecting.python(*command, env=injecting.environment(recorded, user, trace=False), cwd=tmp_path)
    assert bare.returncode == 0
    assert (job.returncode, job.stdout, job.stderr) == (0, bare.stdout, bare.stderr)
    (ring,) = reading.rings(recorded)
    assert ring.counts(*OURS) == ONE
    assert reading.errors(recorded) == ""
    assert not list(recorded.glob("*.new"))


def test_the_header_says_who_and_when(recorded: Path, tmp_path: Path) -> None:
    ranks = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "2"}
    env = {**injecting.environment(recorded, trace=False), **ranks}
    assert injecting.python(JOB, "3", "x" * 9000, env=env, cwd=tmp_path).returncode == 1  # there is no such end
    (ring,) = reading.rings(recorded)
    header = ring.header
    assert ring.path.name.startswith(f"{header['pid']}-")
    assert [header[name] for name in ("version", "rank", "local_rank", "world_size", "restart")] == [1, 3, 1, 4, 2]
    assert header["start_ns"] <= ring.records[1].start
    assert header["wall_ns"] > 1.7e18
    assert header["python"] == ".".join(map(str, sys.version_info[:3]))
    assert str(JOB) in header["argv"]


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_where_python_ignores_us_there_is_no_ring(option: str, recorded: Path, tmp_path: Path) -> None:
    job = injecting.python(option, "-c", "print(1)", env=injecting.environment(recorded), cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, "1\n", "")
    assert list(recorded.iterdir()) == []


@pytest.mark.parametrize("asked", [{}, {"losses": True}, {"loader_trial": {"workers": [0]}}])
def test_what_no_option_asks_for_is_not_imported(asked: dict[str, Any], recorded: Path, tmp_path: Path) -> None:
    code = """
        import sys
        import torch
        print([name for name in ("loader_trial", "losses") if "_whyidle." + name in sys.modules])
    """
    env = injecting.environment(recorded, trace=False, **asked)
    job = injecting.python(script(tmp_path, code), env=env, cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, f"{list(asked)}\n", "")


def test_a_job_without_torch_is_untouched(recorded: Path, tmp_path: Path) -> None:
    code = """
        import sys
        print(sorted(name for name in sys.modules if "whyidle" in name))
        print([entry for entry in sys.path if "whyidle" in entry and entry.endswith("capture")])
        import json, subprocess
        print(json.loads("[1]"), subprocess.run([sys.executable, "-c", "pass"]).returncode)
    """
    path = script(tmp_path, code)
    job = injecting.python(path, env=injecting.environment(recorded), cwd=tmp_path)
    assert (job.returncode, job.stderr) == (0, "")
    assert job.stdout.splitlines() == ["['_whyidle', '_whyidle.boot']", "[]", "[1] 0"]
    assert list(recorded.iterdir()) == []


def test_without_a_folder_nothing_starts(tmp_path: Path) -> None:
    env = injecting.environment(tmp_path)
    del env["WHYIDLE_CAPTURE"]
    code = "import sys; print([name for name in sys.modules if 'whyidle' in name])"
    assert injecting.python("-c", code, env=env, cwd=tmp_path).stdout == "[]\n"


def test_the_users_sitecustomize_runs_as_if_ours_were_not_there(recorded: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    script(own, "import sys\nprint('hello', __name__)\nseen = sys.modules[__name__].__file__\n", "sitecustomize.py")
    code = "import sitecustomize; print(sitecustomize.seen, sitecustomize.__spec__.origin)"
    bare = injecting.python("-c", code, env={**injecting.bare_environment(), "PYTHONPATH": str(own)}, cwd=tmp_path)
    job = injecting.python("-c", code, env=injecting.environment(recorded, str(own)), cwd=tmp_path)
    assert bare.stdout.startswith("hello sitecustomize\n")
    assert (job.returncode, job.stdout, job.stderr) == (0, bare.stdout, bare.stderr)


@pytest.mark.parametrize(
    "mistake", ["raise ValueError('theirs')", "import nothing_of_this_name", "raise SystemExit(5)"]
)
def test_a_mistake_in_the_users_sitecustomize_is_reported_as_ever(mistake: str, recorded: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    script(own, mistake, "sitecustomize.py")
    code = "import sys; print('on', 'sitecustomize' in sys.modules)"
    bare = injecting.python("-c", code, env={**injecting.bare_environment(), "PYTHONPATH": str(own)}, cwd=tmp_path)
    job = injecting.python("-c", code, env=injecting.environment(recorded, str(own)), cwd=tmp_path)
    if "SystemExit" in mistake:  # its traceback shows who imported whom
        assert job.returncode == bare.returncode
    else:
        assert (job.returncode, job.stdout, job.stderr) == (bare.returncode, bare.stdout, bare.stderr)


def test_nothing_shows_when_python_ends(recorded: Path, tmp_path: Path) -> None:
    """Globals of the script die after those of everything that it imported."""
    code = """
        import gc, torch
        from torch.utils.data import DataLoader

        class Reference(torch.nn.Linear):
            def __del__(self):
                gc.collect()

        model = Reference(4, 4)
        model.itself = [model]
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader = DataLoader(torch.ones(6, 4), 2, num_workers=1, persistent_workers=True)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
    """
    job = injecting.python(script(tmp_path, code), env=injecting.environment(recorded), cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, "", "")
    assert [ring.counts(*OURS) for ring in reading.rings(recorded)] == [ONE]


def test_booting_twice_records_once(recorded: Path, tmp_path: Path) -> None:
    code = """
        import runpy, sys
        from _whyidle import boot
        boot.start()
        import torch
        boot.start()
        sys.path.insert(0, sys.argv[1])
        import job
        boot.start()
        job.main(3)
    """
    path = script(tmp_path, code)
    job = injecting.python(path, JOB.parent, env=injecting.environment(recorded), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    (ring,) = reading.rings(recorded)
    assert ring.counts(*OURS) == ONE


def test_it_starts_and_stops_where_torch_is_imported_already(recorded: Path, tmp_path: Path) -> None:
    code = """
        import sys
        sys.path[:0] = sys.argv[1:3]
        import torch, job
        from torch.utils.data import DataLoader
        def functions():
            return torch.save, torch.autograd.backward, DataLoader.__iter__, torch.nn.Module.__call__

        before = functions()
        job.main(3)
        from _whyidle import boot
        for _ in range(2):
            boot.start(sys.argv[3], {"trace": False})
            job.main(3)
            boot.stop()
            job.main(3)
        assert functions() == before
        assert "__call__" not in vars(torch.nn.Linear)
    """
    arguments = (JOB.parent, injecting.CAPTURE, recorded)
    job = injecting.python(script(tmp_path, code), *arguments, env=injecting.bare_environment(), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    assert [ring.counts(*OURS) for ring in reading.rings(recorded)] == [ONE, ONE]
    assert reading.errors(recorded) == ""


RANKS = """
    import multiprocessing, os, sys
    sys.path.insert(0, {folder!r})
    import job

    def rank(number):
        os.environ["RANK"] = str(number)
        job.main(3)

    if __name__ == "__main__":
        context = multiprocessing.get_context({method!r})
        ranks = [context.Process(target=rank, args=(number,)) for number in range(2)]
        [process.start() for process in ranks]
        [process.join() for process in ranks]
        sys.exit(sum(process.exitcode for process in ranks))
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_ranks_that_python_starts_have_a_ring_each(method: str, recorded: Path, tmp_path: Path) -> None:
    path = script(tmp_path, RANKS.format(folder=str(JOB.parent), method=method))
    job = injecting.python(path, env=injecting.environment(recorded, trace=False), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    rings = reading.rings(recorded)
    assert sorted(ring.header["rank"] for ring in rings) == [0, 1]
    assert [ring.counts(*OURS) for ring in rings] == [ONE, ONE]
    assert reading.errors(recorded) == ""


def test_ranks_that_fork_from_a_rank_have_a_ring_each(recorded: Path, tmp_path: Path) -> None:
    code = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        import job
        job.main(3)
        child = os.fork()
        job.main(3)
        if child:
            sys.exit(os.waitpid(child, 0)[1])
    """
    env = injecting.environment(recorded, trace=False)
    job = injecting.python(script(tmp_path, code), JOB.parent, env=env, cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    parent, child = reading.rings(recorded)
    assert parent.counts(*OURS) == {kind: count * 2 for kind, count in ONE.items()}
    assert child.counts(*OURS) == ONE
    assert child.header["parent_pid"] == parent.header["pid"]


WORKERS = """
    import sys, torch
    sys.path.insert(0, {folder!r})
    import job  # which leaves out torch.compile
    from torch.utils.data import DataLoader, Dataset

    class Nested(Dataset):
        '''A data set that uses a loader, a module and torch.save itself.'''
        def __init__(self):
            self.layer = torch.nn.Linear(2, 2)
        def __len__(self):
            return 400
        def __getitem__(self, index):
            torch.save(index, "/dev/null")
            return self.layer(torch.stack(list(DataLoader(torch.ones(2, 2), 1)))).sum().detach()

    if __name__ == "__main__":
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch in DataLoader(Nested(), 100, num_workers=1, multiprocessing_context={method!r}):
            model(batch[:, None]).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_have_no_ring(method: str, recorded: Path, tmp_path: Path) -> None:
    path = script(tmp_path, WORKERS.format(method=method, folder=str(JOB.parent)))
    job = injecting.python(path, env=injecting.environment(recorded, trace=False), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    (ring,) = reading.rings(recorded)
    assert ring.counts(*OURS) == {"ITERATE": 1, "BATCH": 4, "END": 1, "FORWARD": 4, "BACKWARD": 4, "STEP": 4}
    assert reading.errors(recorded) == ""


def test_a_child_that_never_trains_has_no_ring(recorded: Path, tmp_path: Path) -> None:
    code = """
        import multiprocessing, torch

        def shard(number):
            torch.save(torch.ones(number), f"{number}.pt")
            return number

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(shard, range(600)) == list(range(600)))
    """
    job = injecting.python(script(tmp_path, code), env=injecting.environment(recorded), cwd=tmp_path)
    assert (job.returncode, job.stdout) == (0, "True\n"), job.stderr
    assert reading.rings(recorded) == []
    assert reading.errors(recorded) == ""


def test_the_real_loader_and_the_users_frames_stay(recorded: Path, tmp_path: Path) -> None:
    """What a job can see of itself is the same: loaders, what is pickled, tracebacks."""
    code = """
        import importlib.util, inspect, pickle, sys, traceback
        spec = importlib.util.find_spec("torch")
        import torch
        from torch import nn
        from torch.utils.data import DataLoader
        loader = torch.__spec__.loader
        print(type(loader).__name__, vars(loader), loader is torch.__loader__)
        print(len(inspect.getsource(torch)) > 0, inspect.signature(torch.save), inspect.signature(DataLoader.__iter__))
        assert pickle.loads(pickle.dumps(torch.save)) is torch.save
        assert pickle.loads(pickle.dumps(DataLoader.__iter__)) is DataLoader.__iter__

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
            def forward(self, x):
                if x.shape[0] == 3:
                    raise ValueError("three")
                return self.layer(x)

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 3
            def __getitem__(self, index):
                raise KeyError("no row")

        net = Net()
        for _ in range(3):
            net(torch.ones(2, 2)).sum().backward()
        print(len(pickle.dumps(net)), len(net._forward_hooks))
        print(torch.jit.script(net)(torch.ones(2, 2)).shape, torch.fx.symbolic_trace(net.layer).graph)
        attempts = (
            lambda: Net()(torch.ones(3, 2)),
            lambda: nn.Sequential(Net())(torch.ones(3, 2)),
            lambda: net(torch.ones(3, 2)),
            lambda: next(iter(DataLoader(Rows()))),
            lambda: torch.ones(1).backward(),
            lambda: torch.save(1, "no/such/folder/file"),
            lambda: torch.optim.SGD([], 0.1),
        )
        for attempt in attempts if sys.version_info >= (3, 11) else ():
            try:
                attempt()
            except Exception:
                traceback.print_exc()
    """
    path = script(tmp_path, code)
    bare = injecting.python(path, env=injecting.bare_environment(), cwd=tmp_path)
    job = injecting.python(path, env=injecting.environment(recorded), cwd=tmp_path)
    assert bare.returncode == 0, bare.stderr
    assert (job.returncode, job.stdout, job.stderr) == (0, bare.stdout, bare.stderr)
    assert reading.errors(recorded) == ""
