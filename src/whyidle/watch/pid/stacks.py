"""Where in their code the job's processes are, by py-spy: a program of its own that reads their memory.

It is asked not to stop them (`--nonblocking`), so a stack may be torn now and then; such samples name no line of the
job's and are left out. Without py-spy, or without the right to use it, there are no stacks, and that is said.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from whyidle.model.evidence import Stack

RATE = 10  # samples per s
MOST_BYTES = 32 << 20
LATE_S = 5.0  # that py-spy may take to write, when the time is over
INSTALL = "py-spy is not installed: pip install py-spy"
HEAD = re.compile(r'process (\d+):"')
THREAD = re.compile(r"thread \([^)]*\)(?:: (.*))?$")
FRAME = re.compile(r"^(.*?) \((.*):(\d+)\)$")

Frames = tuple[tuple[str, int, str], ...]


class Stacks:
    """The stacks of a process and its children, sampled beside all else that is done.

    Args:
        pid: the process.
        seconds: for how long.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self.why_not = ""
        self._folder = tempfile.TemporaryDirectory(prefix="whyidle-")
        self._file = Path(self._folder.name, "stacks")
        self._process: subprocess.Popen[bytes] | None = None
        program = _program()
        if program is None:
            self.why_not = INSTALL
            return
        command = [program, "record", "--pid", str(pid), "--nonblocking", "--subprocesses", "--threads", "--idle"]
        command += ["--full-filenames", "--format", "raw", "--rate", str(RATE), "--output", str(self._file)]
        command += ["--duration", str(max(round(seconds), 1))]
        try:
            self._process = subprocess.Popen(  # noqa: S603  of our own words
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except OSError as error:
            self.why_not = f"py-spy does not start: {error.strerror}"

    def read(self) -> dict[int, tuple[Stack, ...]]:
        """Return the stacks of each process's main thread, the most frequent first; empty where there are none."""
        said = self._end()
        try:
            with self._file.open("rb") as file:
                text = file.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        found = parse(text)
        if not found and not self.why_not:
            self.why_not = _reason(said)
        self._folder.cleanup()
        return found

    def _end(self) -> str:
        if self._process is None:
            return ""
        try:
            _, said = self._process.communicate(timeout=LATE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # py-spy, not the job: it holds nothing of it
            _, said = self._process.communicate()
        return said.decode("utf-8", "replace")

    def close(self) -> None:
        """End py-spy early."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        with contextlib.suppress(OSError):
            self._folder.cleanup()


def _program() -> str | None:
    """Return py-spy: that of this Python's environment, else that of PATH."""
    own = Path(sys.executable).with_name("py-spy")
    return str(own) if own.is_file() else shutil.which("py-spy")


def _reason(said: str) -> str:
    """Return in our words why py-spy saw nothing."""
    if "permission denied" in said.lower() or "operation not permitted" in said.lower():
        return (
            "py-spy may not look at this process: as root, or in a container with --cap-add SYS_PTRACE, it may "
            "(kernel.yama.ptrace_scope)"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"py-spy saw no stack of Python: {lines[-1][:200]}" if lines else "py-spy saw no stack of Python"


def parse(text: str) -> dict[int, tuple[Stack, ...]]:
    """Return the main threads' stacks of py-spy's raw format: `process 1:"…";thread (1): MainThread;f (a.py:2);… 9`."""
    counts: dict[int, Counter[Frames]] = {}
    for line in text.splitlines():
        before, _, number = line.rpartition(" ")
        words = before.split(";")
        heads = [int(match[1]) for word in words if (match := HEAD.match(word))]
        thread = next((index for index, word in enumerate(words) if THREAD.match(word)), None)
        if not heads or thread is None or not number.isdecimal():
            continue
        match = THREAD.match(words[thread])
        if match is None or match[1] not in {"MainThread", None}:
            continue
        frames = tuple(
            (found[2], int(found[3]), found[1])
            for word in reversed(words[thread + 1 :])
            if (found := FRAME.match(word))
        )
        if frames:
            counts.setdefault(heads[-1], Counter())[frames] += int(number)
    return {
        pid: tuple(Stack(frames, count, "other") for frames, count in counter.most_common())
        for pid, counter in counts.items()
    }
