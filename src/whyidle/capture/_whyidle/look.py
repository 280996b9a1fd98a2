"""Where a fetch spends its time: a thread that looks at the fetching thread's stack, for `--workers` only.

What the thread is doing besides Python code is asked of the kernel (/proc/self/task/TID/syscall): running, or blocked
in a call that reads, waits for a lock, or sleeps. The frames are taken first, which needs the interpreter's lock. The
kernel is asked after that lock was given up, and a thread that seems to wait for a lock only counts as waiting if it
used no CPU meanwhile: so waiting for us is not taken for waiting.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from typing import Any

from _whyidle import hooks, place, record

INTERVAL_S = 0.05
SETTLE_S = 0.001  # after the frames: the thread waited for the lock that we held, and may go on
COMPUTES = 0.5  # of a time: so much CPU time in it is computing
DEEPEST = 12  # frames kept of a stack
MOST_STACKS = 200  # told apart
WRITTEN = 16  # stacks, the most frequent

READ: tuple[str, ...] = (
    "read",
    "pread64",
    "readv",
    "preadv",
    "recvfrom",
    "recvmsg",
    "openat",
    "open",
    "newfstatat",
    "stat",
    "fstat",
)
READ += ("statx", "getdents64", "lseek", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "connect")
READ += ("sendfile", "copy_file_range", "io_uring_enter", "io_getevents", "mmap", "madvise", "fadvise64")
LOCK = ("futex", "flock", "fcntl", "semop", "semtimedop")
SLEEP = ("nanosleep", "clock_nanosleep")
# numbers of these calls in Linux: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h
X86_64 = dict(
    zip(
        (*READ, *LOCK, *SLEEP),
        (
            *(0, 17, 19, 295, 45, 47, 257, 2, 262, 4, 5),
            *(332, 217, 8, 7, 271, 23, 270, 232, 281, 42),
            *(40, 326, 426, 208, 9, 28, 221),
            *(202, 73, 72, 65, 220),
            *(35, 230),
        ),
    )
)
AARCH64 = {"read": 63, "pread64": 67, "readv": 65, "preadv": 69, "recvfrom": 207, "recvmsg": 212, "openat": 56}
AARCH64 |= {"newfstatat": 79, "fstat": 80, "statx": 291, "getdents64": 61, "lseek": 62, "ppoll": 73, "pselect6": 72}
AARCH64 |= {"epoll_pwait": 22, "connect": 203, "sendfile": 71, "copy_file_range": 285, "io_uring_enter": 426}
AARCH64 |= {"io_getevents": 4, "mmap": 222, "madvise": 233, "fadvise64": 223, "futex": 98, "flock": 32, "fcntl": 25}
AARCH64 |= {"semop": 193, "semtimedop": 192, "nanosleep": 101, "clock_nanosleep": 115}
CALLS: dict[str, int] = {"x86_64": X86_64, "AMD64": X86_64, "aarch64": AARCH64}.get(platform.machine(), {})
STATES = {
    CALLS[name]: state
    for names, state in ((READ, "read"), (LOCK, "lock"), (SLEEP, "sleep"))
    for name in names
    if name in CALLS
}
if sys.version_info < (3, 11) and "select" in CALLS:
    STATES[CALLS["select"]] = "sleep"  # which is how time.sleep slept

Stack = tuple[tuple[str, ...], str]


class Look:
    """Samples of one thread, while it fetches."""

    def __init__(self, before: list[dict[str, Any]] | None = None) -> None:
        self._stacks: dict[Stack, int] = {}
        for stack in before or ():
            self._stacks[tuple(stack["frames"]), stack["state"]] = stack["count"]
        self._fetching = 0  # the thread's ident while it fetches
        self._pid = 0
        self._others = 0.0  # s, CPU time of other threads at the last sample
        self._at = 0.0  # time.monotonic() of it

    def begin(self) -> None:
        """A fetch begins on this thread."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._task = f"/proc/self/task/{threading.get_native_id()}"
            try:
                threading.Thread(target=self._run, name="whyidle-look", daemon=True).start()
            except RuntimeError:  # no more threads here
                record.note_error("looking at a worker")
        self._fetching = threading.get_ident()

    def end(self) -> None:
        """The fetch is over."""
        self._fetching = 0

    def content(self) -> dict[str, Any]:
        """Return what the file of a worker says of the samples."""
        stacks = sorted(dict(self._stacks).items(), key=lambda item: -item[1])
        return {
            "samples": sum(count for _, count in stacks),
            "stacks": [
                {"frames": list(frames), "count": count, "state": state} for (frames, state), count in stacks[:WRITTEN]
            ],
        }

    def _run(self) -> None:
        try:
            with open(self._task + "/syscall", "rb", buffering=0) as syscall:
                self._sample(syscall.fileno())
        except OSError:  # not Linux, or this kernel does not say
            self._sample(-1)
        except Exception:
            record.note_error("looking at a worker")

    def _sample(self, syscall: int) -> None:
        while True:
            time.sleep(INTERVAL_S)
            thread = self._fetching
            if not thread:
                continue
            stack = frames(sys._current_frames().get(thread))
            state = self._state(syscall, thread)
            if self._fetching and stack:
                key = (stack, state)
                if key in self._stacks or len(self._stacks) < MOST_STACKS:
                    self._stacks[key] = self._stacks.get(key, 0) + 1

    def _state(self, syscall: int, thread: int) -> str:
        """Return what the thread is doing: cpu, read, lock, sleep or other."""
        if syscall < 0:
            return "other"
        clock = time.pthread_getcpuclockid(thread)
        used, began = time.clock_gettime(clock), time.monotonic()
        time.sleep(SETTLE_S)
        state = state_of(os.pread(syscall, 200, 0))
        computes = time.clock_gettime(clock) - used > COMPUTES * (time.monotonic() - began)
        busy = self._others_are_busy(thread)
        return "cpu" if state == "lock" and (computes or busy) else state

    def _others_are_busy(self, thread: int) -> bool:
        """Return whether other threads compute for it: a thread waits for those of OpenMP or OpenCV as for a lock."""
        clock = time.clock_gettime(time.pthread_getcpuclockid(thread))
        others = time.process_time() - clock - time.thread_time()
        now = time.monotonic()
        share = (others - self._others) / max(now - self._at, 1e-9)
        self._others, self._at = others, now
        return share > COMPUTES


def frames(frame: Any) -> tuple[str, ...]:
    """Return a stack as FILE:LINE:FUNCTION, innermost first, up to the fetch."""
    found: list[str] = []
    while frame is not None and len(found) < DEEPEST:
        code = frame.f_code
        if code.co_filename.endswith(hooks.UNCOUNTED):
            if code.co_name == "fetch":
                break
        elif not code.co_filename.startswith(place.OURS):
            found.append(f"{place.shown(code.co_filename)}:{frame.f_lineno}:{code.co_name}")
        frame = frame.f_back
    return tuple(found)


def state_of(syscall: bytes) -> str:
    """Return what a thread is doing of what /proc/PID/task/TID/syscall says of it."""
    first = syscall.split()[0] if syscall.split() else b""
    if first == b"running":
        return "cpu"
    if first == b"-1":  # blocked, but not in a call: a page is being read
        return "read"
    return STATES.get(int(first), "other") if first.isdigit() else "other"
