"""What a capture must survive: every launcher, and every way to end badly. Real jobs, real torch, exact counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import Ran, Start, environment, wait_for
from whyidle.model.evidence import Record

pytest.importorskip("torch", reason="torch is not installed")

JOB = str(Path(__file__).with_name("jobs.py"))
QUIET = ("-o", "run", "-q")
ENV = environment(OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1")


def logs(ran: Ran) -> Iterator[tuple[dict[str, Any], Counter[int]]]:
    """Yield of each process that was recorded what it says of itself, and how many records it has of each kind."""
    for path in sorted(ran.node.glob("*.events")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<I", data, 24)
        records = struct.iter_unpack("<B31x", data[4096:])
        yield json.loads(data[32 : 32 + length]), Counter(kind for (kind,) in records)


def steps(ran: Ran) -> list[int]:
    """Return how many steps each process made."""
    return sorted(counts[Record.STEP] for _, counts in logs(ran) if counts[Record.STEP])


WAYS = """
import os, pathlib, subprocess, sys
job, python = sys.argv[1], sys.executable
folder = pathlib.Path(job).parent
pathlib.Path("mine").mkdir()
pathlib.Path("mine/sitecustomize.py").write_text("import builtins; builtins.mine = 1")
mine = {**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"] + ":mine"}
def way(*command, **more):
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout, end="")
way(python, "-m", "jobs", "5", cwd=folder)
code = "import sys; sys.path.insert(0, sys.argv[1]); import jobs; jobs.train(6); print(mine)"
way(python, "-c", code, folder, env=mine)
way("bash", "-c", f'"{python}" "{job}" 7; exit 0')
way(python, job, "8", "again")
way(python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", job, "10")
"""


def test_every_way_to_start_a_python(start: Start) -> None:
    """-m, -c with a sitecustomize of the user's own, a shell, exec, and torchrun with one rank."""
    ran = start(sys.executable, "-c", WAYS, JOB, options=QUIET, env=ENV).end()
    assert ran.code == 0, ran.err
    said = [f"trained {count} steps" for count in (5, 6, 1, 7, 8, 9, 10)]
    assert ran.out.splitlines() == [line.replace("trained 1 steps", "1") for line in said]
    assert steps(ran) == [5, 6, 7, 8, 9, 10]
    kinds = [counts for _, counts in logs(ran)]
    assert all(counts[Record.STEP] == counts[Record.BACKWARD] == counts[Record.BATCH] - 1 for counts in kinds)
    replaced = [told["pid"] for told, counts in logs(ran) if counts[Record.STEP] in (8, 9)]
    assert replaced[0] == replaced[1]  # exec keeps the process, and both recordings are there


def test_ranks_of_torchrun_that_fail_and_start_again(start: Start) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = start(*torchrun, "--max-restarts", "1", JOB, "12", "distributed", options=QUIET, env=ENV).end()
    assert ran.code == 0, ran.err
    assert steps(ran) == [8, 8, 12, 12]
    seen = sorted((told["restart"], told["rank"], told["world_size"]) for told, counts in logs(ran))
    assert seen == [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)]


def test_ranks_of_accelerate(start: Start) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    launch = f"{sys.executable} -m accelerate.commands.launch --num_machines 1 --mixed_precision no"
    both = f"""
    {launch} --cpu --num_processes 1 {JOB} 7 accelerated &&
    ACCELERATE_USE_CPU=true {launch} --multi_gpu --num_processes 2 --main_process_port 0 {JOB} 9 accelerated
    """
    ran = start("sh", "-c", both, options=QUIET, env=ENV).end()
    assert ran.code == 0, ran.err
    assert steps(ran) == [7, 9, 9]


def test_ranks_of_a_notebook(start: Start) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    ran = start(sys.executable, JOB, "6", "notebook", options=QUIET, env=ENV).end()
    assert ran.code == 0, ran.err
    assert steps(ran) == [6, 6]
    assert sorted((told["rank"], told["world_size"]) for told, _ in logs(ran)) == [(0, 2), (1, 2)]


def test_ranks_of_multiprocessing(start: Start) -> None:
    ran = start(sys.executable, JOB, "6", "multiprocessing", options=QUIET, env=ENV).end()
    assert ran.code == 0, ran.err
    assert steps(ran) == [6] * 6
    assert Counter(told["rank"] for told, _ in logs(ran)) == {0: 3, 1: 3}


def virtual(folder: Path, *paths: str) -> str:
    """Make an environment without pip, into which some other folders are let, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "more.pth").write_text("\n".join(paths), "utf-8")
    return str(folder / "bin" / "python")


# Keeps of PYTHONPATH only what `whyidle run` put there.
ALONE = 'PYTHONPATH=${PYTHONPATH%%:*} exec "$0" "$@"'


def test_a_job_in_an_environment_without_whyidle(start: Start, tmp_path: Path) -> None:
    import torch

    python = virtual(tmp_path / "theirs", str(Path(torch.__file__).parents[1]))
    code = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__'); import whyidle"
    ran = start("sh", "-c", ALONE, python, "-c", code, JOB, "7", options=QUIET, env=ENV).end()
    assert (ran.code, ran.out) == (1, "trained 7 steps\n")
    assert "No module named 'whyidle'" in ran.err
    assert steps(ran) == [7]


def test_a_python_without_torch(start: Start, tmp_path: Path) -> None:
    python = virtual(tmp_path / "theirs")
    ran = start("sh", "-c", ALONE, python, "-c", "print('no torch'); import torch", env=ENV).end()
    assert (ran.code, ran.out) == (1, "no torch\n")
    assert "No module named 'torch'" in ran.err
    assert ran.ours.startswith("whyidle: nothing to judge: the job exited with 1 before it imported torch")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_will_not_be_watched(start: Start, option: str) -> None:
    ran = start(sys.executable, option, "-c", "print('trained')", env=ENV).end()
    assert (ran.code, ran.out) == (0, "trained\n")
    assert ran.ours.startswith(f"whyidle: not captured: Python was started with {option}, which ")
    assert ran.ours.endswith(f"hint: start it without {option}\n")


@pytest.mark.parametrize("front", [["env", "-i"], ["env", "PYTHONPATH=elsewhere"]])
def test_an_environment_that_was_emptied(start: Start, front: list[str]) -> None:
    ran = start(*front, sys.executable, "-c", "print('trained')", env=ENV).end()
    assert (ran.code, ran.out) == (0, "trained\n")
    assert ran.ours.startswith("whyidle: nothing to judge: no process that whyidle could watch imported torch\n")
    assert "emptied environment" in ran.ours


def test_output_is_that_of_the_bare_run_and_a_verdict(start: Start) -> None:
    bare = start(sys.executable, "-W", "error", JOB, "12", bare=True, env=ENV).end()
    watched = start(sys.executable, "-W", "error", JOB, "12", env=ENV).end()
    assert (bare.code, bare.out, bare.err) == (0, "trained 12 steps\n", "")
    assert (watched.code, watched.out) == (0, bare.out)
    assert steps(watched) == [12]
    assert watched.err != ""  # a verdict, or one sentence on why there is none
    assert "mistake" not in watched.err


def test_a_job_that_makes_no_step_or_only_one(start: Start) -> None:
    ran = start(sys.executable, "-c", "import torch; print(torch.ones(1).item())", env=ENV).end()
    assert (ran.code, ran.out) == (0, "1.0\n")
    assert ran.err == ran.ours
    assert ran.ours.startswith("whyidle: nothing to judge: ")
    ran = start(sys.executable, JOB, "1", options=("-o", "short"), env=ENV).end()
    assert (ran.code, ran.out) == (0, "trained 1 steps\n")
    assert ran.ours.startswith("whyidle: too short to judge: the job made 1 training step\n")


def test_ctrl_c_in_training(start: Start) -> None:
    """As a terminal's, but that it is sent to each process of the group by hand: to the job, not through us."""
    job = start(sys.executable, "-c", f"print('up', flush=True); import sys; sys.argv=['{JOB}', '2000', 'slow']; "
                f"exec(open('{JOB}').read())", options=QUIET, env=ENV)  # fmt: skip
    assert job.line() == "up\n"
    wait_for_steps(job.folder)
    job.to_us(signal.SIGINT)
    ran = job.end()
    assert ran.code == -signal.SIGINT
    assert "KeyboardInterrupt" in ran.err
    assert steps(ran)[0] >= 1


def wait_for_steps(folder: Path) -> None:
    wait_for(lambda: any(path.stat().st_size > 4096 + 32 * 20 for path in folder.glob("node-*/*.events")))


def test_one_rank_hangs_one_is_killed_and_one_goes_on(start: Start) -> None:
    job = start(sys.executable, JOB, "9", "perish", options=QUIET, env=ENV)
    assert [job.line() for _ in range(5)] == ["trained 9 steps\n"] * 3 + ["trained 10 steps\n", "hangs\n"]
    job.to_us(signal.SIGTERM)
    ran = job.end()
    assert ran.code == -signal.SIGTERM
    assert steps(ran) == [9, 9, 19]
    assert {told["rank"]: counts[Record.STEP] for told, counts in logs(ran)} == {0: 9, 1: 9, 2: 19}


def test_the_collector_is_killed_while_the_job_trains(start: Start, tmp_path: Path) -> None:
    """Nothing drains the ring any more: it stays, and what is in it can be judged."""
    job = start(sys.executable, JOB, "60", "slow", options=QUIET, env=ENV)
    wait_for_steps(job.folder)
    job.to_us(signal.SIGKILL)
    ran = job.end()
    assert (ran.code, ran.out) == (-signal.SIGKILL, "trained 60 steps\n")
    (ring,) = ran.folder.glob("node-*/*.ring")
    records = [Record(kind) for (kind,) in struct.iter_unpack("<B31x", ring.read_bytes()[4096:]) if kind]
    assert Counter(records)[Record.STEP] == 60
    judged = start(sys.executable, "-m", "whyidle", "diagnose", "run", bare=True, env=ENV).end()
    assert "No GPU was used" in judged.out or "no GPU was used" in judged.out, judged.err


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """Yield a control group of version 1 or 2 in which a process can have 1 GiB."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines())
    root, limit = "/sys/fs/cgroup", "memory.max"
    if "memory" in own:
        root, limit = f"{root}/memory", "memory.limit_in_bytes"
    group = Path(root + own.get("memory", own.get("", "")).rstrip("/"), f"whyidle-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no right to make a control group: {error.strerror}; test_exits has a limit of the address space")
    try:
        try:
            (group / limit).write_text(str(1 << 30), "utf-8")
        except OSError:
            pytest.skip("control groups here do not limit memory")
        yield group
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text("utf-8"))
        group.rmdir()


def test_the_kernel_kills_the_job_for_its_memory(start: Start, small_memory: Path) -> None:
    enter = f'echo $$ > "{small_memory}/cgroup.procs" && exec "$0" "$@"'
    ran = start("sh", "-c", enter, sys.executable, JOB, "11", "fill", env=ENV).end()
    assert (ran.code, ran.out) == (-signal.SIGKILL, "trained 11 steps\n")
    assert steps(ran) == [11]
    assert json.loads((ran.node / "node.json").read_text("utf-8"))["ended"]["signal"] == signal.SIGKILL
    assert "mistake" not in ran.err


def test_a_small_shared_memory(start: Start) -> None:
    """Loaders need it; we take none of it, so what fits without us fits with us."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system of its own on /dev/shm")
    shell = 'mount -t tmpfs -o size=64k none /dev/shm && "$@"; code=$?; ls -A /dev/shm; exit $code'
    ours = f"{sys.executable} -m whyidle run -q -o run --".split()
    inside = ["unshare", "-m", "sh", "-c", shell, "sh", *ours]
    ran = start(*inside, sys.executable, JOB, "40", "workers", bare=True, env=ENV).end()
    assert (ran.code, ran.out, ran.err) == (0, "trained 40 steps\n", "")
    assert steps(ran) == [40]


def test_a_worker_of_the_loader_is_killed(start: Start) -> None:
    ran = start(sys.executable, JOB, "32", "worker-killed", options=QUIET, env=ENV).end()
    assert (ran.code, ran.out) == (1, "")
    assert "Traceback" in ran.err  # of one of several errors, whichever PyTorch notices first
    assert steps(ran)[0] >= 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 256 KiB, too small for a ring."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full(start: Start, small_disk: Path) -> None:
    ran = start(sys.executable, JOB, "8", options=("-o", str(small_disk / "run")), env=ENV).end()
    assert (ran.code, ran.out) == (0, "trained 8 steps\n")
    assert ran.err == ran.ours
    (small_disk / "full").write_bytes(bytes(200_000))
    with pytest.raises(OSError, match="space"):
        (small_disk / "fuller").write_bytes(bytes(200_000))
    ran = start("sh", "-c", "echo on; exit 3", options=("-o", str(small_disk / "run2"), "-q"), env=ENV).end()
    assert (ran.code, ran.out) == (3, "on\n")
    assert "the evidence goes to" in ran.err


def test_no_place_to_write_at_all(start: Start) -> None:
    """By a limit of the shell that holds for every file."""
    watched = f"ulimit -f 0; exec {sys.executable} -m whyidle run -- sh -c 'echo on; exit 3'"
    ran = start("sh", "-c", watched, bare=True).end()
    assert (ran.code, ran.out) == (3, "on\n")
    assert ran.err.startswith("whyidle: the job is not measured, since no folder can be written (")
    assert ran.err == ran.ours
