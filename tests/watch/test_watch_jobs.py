"""Whose processes hold a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.conftest import Tree, process
from whyidle.watch.jobs import Job, Jobs, label, program

HASH = "0123456789ab" + "c" * 52


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("/usr/bin/python3.12 -u /data/train.py", "train.py"),
        ("python -m package.train", "package.train"),
        ("python -c pass", "python -c"),
        ("/opt/bin/torchrun --nproc-per-node 8 train.py", "torchrun"),
        ("python", "python"),
    ],
)
def test_what_a_person_calls_it(command: str, name: str) -> None:
    assert program(tuple(command.split())) == name


@pytest.mark.parametrize(
    ("cgroup", "environ", "said"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user", {}, "slurm 4711"),
        ("0::/user.slice", {"SLURM_JOB_ID": "12"}, "slurm 12"),
        (f"0::/system.slice/docker-{HASH}.scope", {}, "container 0123456789ab"),
        (f"12:devices:/docker/{HASH}", {}, "container 0123456789ab"),
        (
            f"0::/kubepods.slice/kubepods-pod1b2c3d4e_0000_1111_2222_333344445555.slice/cri-containerd-{HASH}.scope",
            {},
            "pod 1b2c3d4e-0000-1111-2222-333344445555",
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope", {}, ""),
        ("", {"SLURM_JOB_ID": "$(x)"}, ""),
    ],
)
def test_what_a_scheduler_calls_it(cgroup: str, environ: dict[str, str], said: str) -> None:
    assert label(cgroup, environ) == said


def test_processes_of_a_slurm_job_are_one_job(tree: Tree) -> None:
    root = tree(
        process(17, command="python train.py", environ="SLURM_JOB_ID=4711")
        | process(18, command="python train.py", environ="SLURM_JOB_ID=4711")
        | process(30, command="python serve.py")
    )
    slurm, served = Jobs(root).of([30, 18, 17], 0.0)
    assert (slurm.pids, slurm.name, slurm.label) == ((17, 18), "train.py", "slurm 4711")
    assert (served.pids, served.name) == ((30,), "serve.py")


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert Jobs(tmp_path).of([17], 0.0) == (Job("pid 17", (17,)),)
    assert Job("pid 17", (17,)).said == "PID 17"


def test_what_is_known_is_asked_again_after_a_while(tree: Tree) -> None:
    root = tree(process(17, command="python train.py"))
    jobs = Jobs(root)
    assert jobs.of([17], 0.0)[0].name == "train.py"
    tree(process(17, command="python other.py"))
    assert jobs.of([17], 9.0)[0].name == "train.py"
    assert jobs.of([17], 10.0)[0].name == "other.py"


def test_who_may_idle() -> None:
    job = Job("x", (1,), "notebook-7.py", "Alice", "slurm 4711")
    for pattern in ("notebook*", "alice", "slurm 4711", "SLURM*"):
        assert job.matches([pattern])
    for pattern in ("train*", "slurm", "7"):
        assert not job.matches([pattern])
    both = Job("session 7", (1, 2), "jupyter-lab", "bob", "", ("train.py",))
    assert not both.matches(["jupyter*"]), "what trains in the same session may not"
    assert both.matches(["jupyter*", "train*"])
    assert both.matches(["bob"])
    assert not Job("pid 1", (1,)).matches(["*"])  # nothing is known of it
