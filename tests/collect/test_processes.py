"""The job's processes, on made-up machines and on this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.conftest import Tree, process
from whyidle.collect.processes import COLUMNS, PAGE_BYTES, RESCAN_NS, TICKS_PER_S, Processes, parse_stat

MARKED = "WHYIDLE_CAPTURE=/capture/here"
SECOND = 1_000_000_000

Row = dict[str, float | str | None]


class Job:
    """The job of process 10 on a made-up machine."""

    def __init__(self, tree: Tree, files: dict[str, str | bytes], most: int = 100) -> None:
        self.make = tree
        self.root = tree(files)
        self.warnings: list[str] = []
        self.processes = Processes(10, "/capture/here", self.warnings.append, self.root, most)
        self.now = 0

    def rows(self, ringed: frozenset[int] = frozenset()) -> dict[int, Row]:
        self.now += SECOND
        self.processes.look(self.now)
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in self.processes.sample(ringed)]
        return {int(str(row["pid"])): row for row in rows}

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / f"proc/{pid}")


def test_a_row(tree: Tree) -> None:
    job = Job(tree, {**process(10, blocked_ticks=50), "proc/sys/kernel/task_delayacct": "1\n"})
    assert job.rows(frozenset({10})) == {
        10: {
            "pid": 10,
            "parent_pid": 1,
            "role": "rank",
            "cpu_s": 1000 / TICKS_PER_S,
            "run_delay_s": 0.5,
            "read_bytes": 512,
            "write_bytes": 4096,
            "read_chars": 900,
            "major_faults": 6,
            "block_delay_s": 50 / TICKS_PER_S,
            "threads": 3,
            "main_thread_cpu_s": 2.5,
            "cpus_allowed": 4,
            "memory_bytes": 100 * PAGE_BYTES,
        }
    }


@pytest.mark.parametrize(
    ("accounting", "ticks", "expected"),
    [("0\n", 0, None), ("1\n", 0, 0.0), (None, 0, None), (None, 50, 50 / TICKS_PER_S)],
)
def test_waits_for_storage_are_counted_only_where_they_are(
    tree: Tree, accounting: str | None, ticks: int, expected: float | None
) -> None:
    files = process(10, blocked_ticks=ticks)
    if accounting:
        files["proc/sys/kernel/task_delayacct"] = accounting
    assert Job(tree, files).rows()[10]["block_delay_s"] == expected


def test_a_kernel_without_statistics_of_its_scheduler(tree: Tree) -> None:
    own = process(10, cpu_ticks=300)["proc/10/stat"]
    row = Job(tree, {**process(10), "proc/10/schedstat": "0 0 0\n", "proc/10/task/10/stat": own}).rows()[10]
    assert (row["run_delay_s"], row["main_thread_cpu_s"]) == (None, 300 / TICKS_PER_S)


def test_the_tree_and_nobody_else(tree: Tree) -> None:
    files = process(10) | process(11, 10) | process(12, 11) | process(20, 1) | process(21, 20)
    assert sorted(Job(tree, files).rows()) == [10, 11, 12]


def test_whoever_carries_the_mark_belongs_to_the_job(tree: Tree) -> None:
    files = process(10) | process(30, 1, environ=f"A=1 {MARKED}") | process(31, 30)
    files |= process(40, 1, environ=f"{MARKED}/not") | process(41, 1, environ=f"X{MARKED}")
    assert sorted(Job(tree, files).rows()) == [10, 30, 31]


def test_a_child_stays_the_jobs_when_its_parent_dies(tree: Tree) -> None:
    job = Job(tree, process(10) | process(11, 10) | process(12, 11))
    job.rows()
    job.end(11)
    job.make(process(12, 1, cpu_ticks=2000))
    assert sorted(job.rows()) == [12]
    assert job.processes.ended(11)
    assert job.processes.pids() == {10, 11, 12}


def test_one_that_was_looked_at_too_early_is_found_later(tree: Tree) -> None:
    """Between fork and exec it carries the environment of whoever starts it: srun, ssh."""
    job = Job(tree, process(10) | process(30, 1))
    assert sorted(job.rows()) == [10]
    job.make(process(30, 1, environ=MARKED))
    job.now += RESCAN_NS
    assert 30 in job.rows()


def test_an_id_that_is_used_again_is_another_process(tree: Tree) -> None:
    job = Job(tree, process(10) | process(11, 10))
    job.rows()
    job.make(process(11, 1, started=99))
    assert 11 not in job.rows()
    assert job.processes.ended(11)


def test_zombies_have_ended(tree: Tree) -> None:
    job = Job(tree, process(10) | process(11, 10, state="Z"))
    assert sorted(job.rows()) == [10]


def test_roles(tree: Tree) -> None:
    files = process(10, command="torchrun train.py") | process(11, 10, "pt_main_thread")
    files |= process(12, 11, "pt_data_worker") | process(13, 11, command="python -c x --multiprocessing-fork")
    files |= process(14, 11, command="python -m torch._inductor.compile_worker")
    files |= process(15, 10, command="python -c x --multiprocessing-fork")
    rows = Job(tree, files).rows(frozenset({11}))
    assert {pid: row["role"] for pid, row in rows.items()} == {
        10: "other",
        11: "rank",
        12: "worker",
        13: "worker",
        14: "other",
        15: "other",
    }
    assert next(iter(rows)) == 11


def test_a_rank_stays_one(tree: Tree) -> None:
    job = Job(tree, process(10))
    assert job.rows(frozenset({10}))[10]["role"] == "rank"
    assert job.rows()[10]["role"] == "rank"


def test_others_have_a_row_only_when_they_used_cpu_time(tree: Tree) -> None:
    job = Job(tree, process(10) | process(11, 10) | process(12, 10, cpu_ticks=0))
    assert sorted(job.rows(frozenset({10}))) == [10, 11]
    job.make(process(12, 10, cpu_ticks=1))
    assert sorted(job.rows(frozenset({10}))) == [10, 12]


def test_a_name_with_anything_in_it(tree: Tree) -> None:
    job = Job(tree, process(10, name="a) S (b 1 2\n3"))
    assert job.rows()[10]["parent_pid"] == 1


def test_more_processes_than_are_sampled(tree: Tree) -> None:
    files = process(10)
    for pid in range(11, 20):
        files |= process(pid, 10)
    job = Job(tree, files, most=4)
    assert len(job.rows(frozenset({19}))) == 4
    assert 19 in job.rows(frozenset({19}))
    assert set(job.warnings) == {"the job has more than 4 processes: no more of them are sampled"}


def test_files_that_must_not_be_read(tree: Tree) -> None:
    files = process(10)
    for name in ("io", "schedstat", "status", "cmdline", "environ"):
        del files[f"proc/10/{name}"]
    row = Job(tree, files).rows()[10]
    unknown = [name for name, value in row.items() if value is None]
    assert unknown == [
        *("run_delay_s", "read_bytes", "write_bytes", "read_chars", "block_delay_s", "main_thread_cpu_s"),
        "cpus_allowed",
    ]


def test_no_proc_at_all(tmp_path: Path) -> None:
    processes = Processes(10, "x", [].append, tmp_path)
    processes.look(0)
    assert processes.sample({10}) == []


@given(st.binary(max_size=80))
def test_garbage_is_no_process(data: bytes) -> None:
    assert parse_stat(data, delays=True) is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_this_machine(tmp_path: Path) -> None:
    busy = "sum(range(3_000_000)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        processes = Processes(os.getpid(), str(tmp_path), [].append)
        processes.look(1)
        rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in processes.sample({child.pid})}
        facts = psutil.Process(child.pid)
        times = facts.cpu_times()
        assert rows[child.pid]["role"] == "rank"
        assert rows[child.pid]["parent_pid"] == os.getpid()
        assert rows[child.pid]["cpu_s"] == pytest.approx(times.user + times.system)
        assert rows[child.pid]["threads"] == facts.num_threads()
        assert rows[child.pid]["cpus_allowed"] == len(facts.cpu_affinity())
        assert rows[child.pid]["memory_bytes"] == pytest.approx(facts.memory_info().rss, rel=0.1)
        child.communicate("\n")
    processes.look(2)
    assert processes.ended(child.pid)
