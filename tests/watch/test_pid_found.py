"""Which processes are a job, what py-spy's words mean, and what threads do: pieces of `whyidle watch --pid`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("running jobs are looked at on Linux only", allow_module_level=True)

from tests.collect.conftest import Tree, process
from whyidle.cli import main
from whyidle.collect import files, tasks
from whyidle.collect.machine import Machine
from whyidle.collect.procfs import Mount
from whyidle.errors import WhyIdleError
from whyidle.watch.pid import job, machine_seen, stacks
from whyidle.watch.pid.attach import Watch
from whyidle.watch.pid.gpus import JobGpus
from whyidle.watch.pid.verdict import watch_pid

TRAIN = "python train.py"


def roles(root: Path, pid: int, on_gpu: set[int] | None = None) -> dict[int, str]:
    return job.roles(job.processes(pid, print, root).alive, on_gpu or set(), root)


def test_torchrun_its_ranks_and_their_workers(tree: Tree) -> None:
    root = tree(
        process(10, name="torchrun", command="python torchrun train.py")
        | process(11, 10, command=TRAIN, environ="RANK=0")
        | process(12, 10, command=TRAIN, environ="RANK=1")
        | process(21, 11, name="pt_data_worker", command=TRAIN, environ="RANK=0")
        | process(22, 12, command=TRAIN, environ="RANK=1")  # a PyTorch that gives workers no name
        | process(30, 11, name="git", command="git status")
    )
    assert roles(root, 10) == {10: "other", 11: "rank", 12: "rank", 21: "worker", 22: "worker", 30: "other"}


def test_spawned_workers_and_spawned_ranks(tree: Tree) -> None:
    spawned = "python -c from_multiprocessing.spawn --multiprocessing-fork"
    root = tree(
        process(10, command=TRAIN)
        | process(11, 10, command=spawned)
        | process(12, 10, command="python -c from multiprocessing.resource_tracker import main;main(5)")
    )
    assert roles(root, 10) == {10: "rank", 11: "worker", 12: "other"}
    assert roles(root, 10, {11})[11] != "worker", "it has opened a GPU itself"


def test_workers_from_a_fork_server_work_for_whom_that_is(tree: Tree) -> None:
    root = tree(process(10, command=TRAIN) | process(11, 10) | process(12, 11))
    for made in (11, 12):  # spaces part words in what the tree writes
        text = b"python\0-c\0from multiprocessing.forkserver import main; main(5)\0"
        (root / f"proc/{made}/cmdline").write_bytes(text)
    assert roles(root, 10) == {10: "rank", 11: "other", 12: "worker"}
    assert job.above(12, job.processes(10, print, root).alive) == 10


def test_a_shell_around_the_job(tree: Tree) -> None:
    root = tree(process(10, name="bash", command="bash train.sh") | process(11, 10, command=TRAIN))
    assert roles(root, 10) == {10: "other", 11: "rank"}


def test_who_names_a_worker_means_the_training(tree: Tree) -> None:
    root = tree(process(10, command=TRAIN) | process(11, 10, name="pt_data_worker", command=TRAIN))
    pid, said = job.root_of(11, root)
    assert pid == 10
    assert "worker" in said


@pytest.mark.parametrize(
    ("pid", "made", "message"),
    [
        (77, {}, "no process has the id 77"),
        (-3, {}, "no process has the id -3"),
        (11, process(11, state="Z"), "has ended already"),
        (11, process(11, 2, name="kworker/0:1", command=""), "thread of the kernel"),
        (
            11,
            process(11, name="postgres", command="postgres -D /data") | {"proc/11/maps": "1-2 /bin/postgres\n"},
            "runs Python",
        ),
    ],
)
def test_what_is_no_job_is_refused(tree: Tree, pid: int, made: dict[str, str | bytes], message: str) -> None:
    root = tree({"proc/1/comm": "init\n"} | made)
    if pid == 11 and not made.get("proc/11/cmdline", "x").strip("\0"):  # type: ignore[arg-type]
        (root / "proc/11/cmdline").write_bytes(b"")
    with pytest.raises(WhyIdleError, match=message) as error:
        Watch(pid, 1.0, root=root, gpus=False, stacks=False)
    assert error.value.hint if "Python" not in message else True


def test_whyidle_itself_is_refused() -> None:
    with pytest.raises(WhyIdleError, match="whyidle itself"):
        watch_pid(os.getpid(), 1.0)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1e9, float("nan")])
def test_how_long_it_may_look(seconds: float) -> None:
    with pytest.raises(WhyIdleError, match="--for"):
        watch_pid(1, seconds)


def test_stacks_of_main_threads() -> None:
    text = (
        'process 7:"python train.py";thread (7): MainThread;<module> (/a/train.py:3);f (/a b/x (1).py:12) 40\n'
        'process 7:"python train.py";thread (9): QueueFeederThread;run (q.py:1) 40\n'
        'process 7:"python train.py";process 8:"python train.py";thread (8): MainThread;g (/a/data.py:5) 30\n'
        "torn line\n\xff;;( 3\n"
    )
    found = stacks.parse(text)
    assert [(stack.frames, stack.count) for stack in found[7]] == [
        ((("/a b/x (1).py", 12, "f"), ("/a/train.py", 3, "<module>")), 40)
    ]
    assert found[8][0].frames == (("/a/data.py", 5, "g"),)
    assert set(found) == {7, 8}


def test_a_missing_py_spy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_program", lambda: None)
    seen = stacks.Stacks(1, 1.0)
    assert seen.read() == {}
    assert "pip install py-spy" in seen.why_not


def test_a_refusal_of_py_spy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(stacks, "_program", lambda: str(program))
    seen = stacks.Stacks(1, 1.0)
    assert seen.read() == {}
    assert "SYS_PTRACE" in seen.why_not


def test_a_py_spy_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(stacks, "_program", lambda: str(program))
    monkeypatch.setattr(stacks, "LATE_S", 0.2)
    seen = stacks.Stacks(1, 1.0)
    assert seen.read() == {}
    assert seen.why_not


def test_what_a_thread_does(tmp_path: Path) -> None:
    """It is met asleep, waiting for a lock, and reading a pipe that has a name."""
    os.mkfifo(tmp_path / "slow")
    codes = {
        "sleep": "import time; time.sleep(100)",
        "wait": "import threading; threading.Event().wait()",
        "read": f"open({str(tmp_path / 'slow')!r}, 'r+b', buffering=0).read(1)",
    }
    for expected, code in codes.items():
        with subprocess.Popen([sys.executable, "-c", code]) as child:
            try:
                deadline = time.monotonic() + 60
                while True:
                    task = tasks.look(f"/proc/{child.pid}/task/{child.pid}")
                    if (task and task.doing == expected) or time.monotonic() > deadline:
                        break
                    time.sleep(0.05)
                assert getattr(task, "doing", "") == expected
                if task is not None and task.descriptor is not None and expected == "read":
                    assert files.target(Path("/"), child.pid, task.descriptor) == str(tmp_path / "slow")
            finally:
                child.kill()


def test_a_thread_that_waits_for_a_page_reads(tree: Tree) -> None:
    root = tree({"proc/5/task/5/stat": "5 (a) D 1 2 3\n"})
    assert tasks.look(f"{root}/proc/5/task/5") == tasks.Task("read")
    assert tasks.look(f"{root}/proc/6/task/6") is None


def test_the_innermost_mount_holds_a_file() -> None:
    mounts = [
        Mount("/", "/", "overlay", ()),
        Mount("/", "/data", "nfs4", ()),
        Mount("/", "/data/x", "fuse.gcsfuse", ()),
    ]
    assert files.file_system("/data/a", mounts) == "nfs4"
    assert files.file_system("/data/x/a", mounts) == "fuse.gcsfuse"
    assert files.file_system("/database", mounts) == "overlay"
    assert files.file_system("socket:[7]", mounts) == "socket"
    assert files.file_system("/data/a", []) == ""


def test_open_files_and_their_positions(tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(bytes(1000))
    with (tmp_path / "shard").open("rb") as file:
        file.read(10)
        found = files.descriptors(Path("/"), os.getpid())
        assert found is not None
        assert found[file.fileno()].path == str(tmp_path / "shard")
        assert found[file.fileno()].position == 1000, "it was read ahead"
    assert files.descriptors(Path("/"), 2**30) is None


def test_counters_of_the_machine() -> None:
    from whyidle.collect.host import COLUMNS

    facts = Machine(16, list(range(16)), 2.0, "cgroup v2 cpu.max", None, None, None, True)
    before = dict.fromkeys(COLUMNS, 0) | {"cpu_pressure_us": None}
    after = before | {"cpu_busy_s": 40.0, "throttled_us": 30_000_000, "periods": 100, "throttled_periods": 60}
    found = machine_seen.counters(facts, tuple(before.values()), tuple(after.values()), 10.0, 20.0)
    assert found["cpus_allowed"] == found["cpu_quota"] == 2.0
    assert found["job_cpu_share"] == 1.0
    assert found["cpus_taken"] == pytest.approx(2.0)
    assert found["cpu_throttled_share"] == pytest.approx(0.6), "no more than the periods in which it happened"
    assert "cpu_pressure_share" not in found, "what was not counted is not known"


def test_the_gpus_of_a_job(play: Callable[[str], None]) -> None:
    play(f"gpus 2\nrow 0 0 87 41 40000 600 1755 66 0 0 0\nrow 0 1 3 0 0 0 0 0 0 0 0\nprocess 0 0 {os.getpid()} 1000\n")
    gpus = JobGpus({os.getpid()}, os.getpid())
    time.sleep(0.7)
    seen = gpus.close()
    assert seen.ours == {os.getpid()}
    assert {one.device for one in seen.series} == {0}
    (used,) = [one for one in seen.series if one.name == "utilization_percent"]
    assert set(used.value) == {87.0}


def test_without_a_driver_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = JobGpus({1}, 1)
    seen = gpus.close()
    if seen.series:
        pytest.skip("there is a GPU here")
    assert seen.warnings


def test_no_thread_is_left_behind() -> None:
    assert not [thread for thread in threading.enumerate() if thread.name == "whyidle GPUs" and not thread.daemon]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pid", "999999999"], "no process has the id 999999999"),
        (["--pid", "1", "--alarm"], "--pid looks at one job once"),
        (["--pid", "1", "--once"], "--pid looks at one job once"),
    ],
)
def test_the_verb_refuses_in_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", *words]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
