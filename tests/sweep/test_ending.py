"""What became of a job, by what it printed and how it ended."""

from __future__ import annotations

import pytest

from whyidle.launch.process import Ended
from whyidle.sweep.ending import by_itself, by_us, last_words

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError("no such size")
ValueError: no such size
[rank0]:[W] destroy_process_group was not called
whyidle: nothing to judge: the job exited with 1
hint: its own output says why
"""


@pytest.mark.parametrize(
    ("ended", "tail", "steps", "status", "why"),
    [
        (Ended(exit_code=0), "", 50, "ok", "it ended by itself"),
        (Ended(exit_code=0), "", 1, "no steps", "it ended after 1 step that count"),
        (Ended(exit_code=0), "", 0, "no steps", "no training step was seen"),
        (Ended(exit_code=1), TRACEBACK, 50, "failed", "exit code 1: ValueError: no such size"),
        (Ended(exit_code=3), "so long\n", 0, "failed", "exit code 3: so long"),
        (Ended(signal=11), "", 0, "failed", "ended by signal 11"),
        (Ended(signal=9), "step 3\n", 2, "out of memory", "killed by signal 9, as Linux does when memory runs out"),
        (Ended(exit_code=137), "", 2, "out of memory", "killed by signal 9, as Linux does when memory runs out"),
    ],
)
def test_a_job_that_ended_by_itself(ended: Ended, tail: str, steps: int, status: str, why: str) -> None:
    assert by_itself(ended, tail, steps) == (status, why)


@pytest.mark.parametrize(
    "said",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity",
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you",
        "RuntimeError: DataLoader worker (pid 4) is killed by signal: Killed.",
        "ERROR: Unexpected bus error encountered in worker; insufficient shared memory (shm): out of shared memory",
        "  exitcode  : -9 (pid: 4711)",
        "MemoryError",
    ],
)
def test_memory_that_ran_out_is_known_by_its_words(said: str) -> None:
    status, why = by_itself(Ended(exit_code=1), f"step 1\n{said}\nmore\n", 0)
    assert (status, why) == ("out of memory", said.strip())
    assert by_itself(Ended(exit_code=0), f"warning: {said}\n", 9)[0] == "ok"  # it got over it


def test_a_job_that_we_ended() -> None:
    assert by_us("settled", 60, "known to 2%") == ("ok", "known to 2%")
    assert by_us("time", 3, "--cell-time 10 min") == ("ok", "--cell-time 10 min")
    assert by_us("time", 2, "--cell-time 10 min") == ("timed out", "2 steps in --cell-time 10 min")
    assert by_us("budget", 2, "ended") == ("interrupted", "ended")


def test_last_words() -> None:
    assert last_words("") == ""
    assert last_words(TRACEBACK) == "ValueError: no such size"
    assert last_words("[rank1]: RuntimeError: boom\nbye\n") == "[rank1]: RuntimeError: boom"
