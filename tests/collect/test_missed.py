"""Who is said not to be captured, and who must not be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.collect.conftest import Tree, process
from whyidle.collect.missed import AFTER_S, CAPTURE_CODE, Missed, Watcher, interpreter_options
from whyidle.collect.processes import TICKS_PER_S, Processes

PATHS = f"PYTHONPATH={CAPTURE_CODE}:/mine"
TORCH = "7f00-7f01 r-xp 00000000 08:01 99 /venv/lib/libtorch_cpu.so\n"
SPAWNED = "python -I -c x --multiprocessing-fork"


class Job:
    """The job of process 10, of which every process has loaded torch."""

    def __init__(self, tree: Tree, *processes: dict[str, str | bytes], torch: Iterable[int] = range(10, 20)) -> None:
        files: dict[str, str | bytes] = {}
        for each in processes:
            files |= each
        files |= {f"proc/{pid}/maps": TORCH for pid in torch if f"proc/{pid}/stat" in files}
        self.root = tree(files)
        self.capture = self.root / "capture"
        self.capture.mkdir(exist_ok=True)
        for pid in range(10, 20):
            environ = self.root / f"proc/{pid}/environ"
            if environ.exists() and not environ.stat().st_size:
                environ.write_text(f"WHYIDLE_CAPTURE={self.capture}\0{PATHS}\0")
        self.watcher = Watcher(self.capture, self.root)
        self.processes = Processes(10, "/c", [].append, self.root)

    def look(self, ringed: frozenset[int] = frozenset(), age_s: float = AFTER_S) -> list[Missed]:
        self.processes.look(0)
        self.processes.sample(ringed)
        return self.watcher.look(self.processes.alive, ringed, age_s)


def training(pid: int, parent: int = 1, *, cpu_s: float = 20, **fields: str) -> dict[str, str | bytes]:
    return process(pid, parent, cpu_ticks=round(cpu_s * TICKS_PER_S), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["I", "E", "S"])
def test_options_that_keep_us_out(tree: Tree, option: str) -> None:
    (missed,) = Job(tree, training(10, command=f"python -{option} train.py --lr 1")).look()
    assert (missed.pid, missed.command) == (10, f"python -{option} train.py --lr 1")
    assert f"-{option}" in missed.why
    assert missed.hint == f"start it without -{option}"


def test_an_emptied_environment(tree: Tree) -> None:
    (missed,) = Job(tree, training(10, environ="PATH=/bin")).look()
    assert missed.why == "its environment was emptied: WHYIDLE_CAPTURE is missing"
    assert "PYTHONPATH" in missed.hint


def test_an_overwritten_path(tree: Tree, tmp_path: Path) -> None:
    (missed,) = Job(tree, training(10, environ=f"WHYIDLE_CAPTURE={tmp_path}/machine/capture PYTHONPATH=/mine")).look()
    assert missed.why == "PYTHONPATH was set anew after whyidle had added to it"


def test_another_user(tree: Tree) -> None:
    files = training(10, cpu_s=40)
    del files["proc/10/environ"]
    (missed,) = Job(tree, files, torch=()).look()
    assert missed.why == "it runs as another user, and may not be looked into"


def test_another_recording_inside(tree: Tree) -> None:
    (missed,) = Job(tree, training(10, environ=f"WHYIDLE_CAPTURE=/elsewhere {PATHS}")).look()
    assert missed.hint == "leave one of the two out"


def test_nothing_that_explains_it(tree: Tree) -> None:
    job = Job(tree, training(10, cpu_s=40))
    (missed,) = job.look()
    assert missed.why == "it uses PyTorch, and nothing was seen that looks like training"


@pytest.mark.parametrize(
    "files",
    [
        training(10, cpu_s=20),  # may still be starting
        training(10, cpu_s=1, command="python -I train.py"),
        training(10, command="bash -I train.sh"),
        training(10, cpu_s=90, command="python -I -m torch.distributed.run train.py"),
        training(10, cpu_s=90, command="python -I /venv/bin/torchrun train.py"),
        training(10, cpu_s=90, command="python -I /venv/bin/accelerate launch train.py"),
        training(10, cpu_s=90, command="python -I -m torch._inductor.compile_worker"),
        training(10, cpu_s=90, command="python -I -c from multiprocessing.resource_tracker import main;main(7)"),
        training(10, cpu_s=90, name="pt_data_worker", command="python -I train.py"),
    ],
    ids=lambda files: files["proc/10/cmdline"].replace("\0", " "),
)
def test_who_is_not_named(tree: Tree, files: dict[str, str | bytes]) -> None:
    assert Job(tree, files).look() == []


def test_what_was_only_suspected_is_taken_back(tree: Tree) -> None:
    """It prepared the data; then the training began, elsewhere."""
    job = Job(tree, process(10, command="bash run.sh"), training(11, 10, cpu_s=40))
    assert len(job.look()) == 1
    assert job.look(frozenset({12})) == []


def test_without_torch_there_is_nothing_to_miss(tree: Tree) -> None:
    assert Job(tree, training(10, command="python -I prepare.py") | {"proc/10/maps": "libc.so"}, torch=()).look() == []


def test_not_while_the_job_starts(tree: Tree) -> None:
    assert Job(tree, training(10, command="python -I train.py")).look(age_s=AFTER_S - 1) == []


def test_one_that_has_a_ring_after_all(tree: Tree) -> None:
    job = Job(tree, training(10, command="python -I train.py"))
    assert len(job.look()) == 1
    assert job.look(frozenset({10})) == []


def test_one_in_which_our_agent_is_does_not_train(tree: Tree) -> None:
    job = Job(tree, training(10, cpu_s=90))
    (job.capture / "10-17.facts.json").write_text("{}")
    assert job.look() == []


def test_helpers_of_a_captured_job_need_no_explanation(tree: Tree) -> None:
    job = Job(tree, training(10), training(11, 10, cpu_s=90, command="python evaluate.py"))
    assert job.look(frozenset({10})) == []


def test_children_of_one_that_is_named_are_not(tree: Tree) -> None:
    job = Job(tree, training(10, command="python -I train.py"), training(11, 10, command=SPAWNED))
    assert [missed.pid for missed in job.look()] == [10]
    assert [missed.pid for missed in job.look()] == [10]


def test_eight_alike_are_named_once(tree: Tree) -> None:
    ranks = [training(pid, 10, command="python -I train.py") for pid in range(11, 19)]
    assert len(Job(tree, process(10, command="bash run.sh"), *ranks).look()) == 1


def test_a_long_command_is_cut(tree: Tree) -> None:
    (missed,) = Job(tree, training(10, command="python -I train.py " + "x" * 999)).look()
    assert len(missed.command) == 200


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python train.py -I", ""),
        ("python -Iu train.py", "Iu"),
        ("python -X dev -I train.py", "XI"),
        ("python -Xdev -W error -E train.py", "XWE"),
        ("python -um mod -I", "um"),
        ("python -c I -E", "c"),
        ("python - -I", ""),
        ("python -- -I", ""),
        ("python --check-hash-based-pycs never -I", ""),
        ("python -X", "X"),
        ("", ""),
    ],
)
def test_options_of_the_interpreter(command: str, options: str) -> None:
    assert "".join(interpreter_options(tuple(command.split()))) == options


def test_the_code_that_we_inject_is_where_we_say() -> None:
    assert (CAPTURE_CODE / "_whyidle").is_dir()
    assert Path(CAPTURE_CODE).is_absolute()
