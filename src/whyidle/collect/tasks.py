"""What a thread of another process does at this moment, from /proc: it is looked at, never stopped.

The kernel tells the state of any thread, and to whom it trusts the system call in which it sleeps. Both are read
without ptrace: the thread does not notice.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from whyidle.collect import procfs

# System calls by number (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h): those that take
# data from a file descriptor, those that wait for several or for a lock, those that pass time.
_X86 = {
    "read": {0, 17, 19, 45, 47, 295, 327},  # read pread64 readv recvfrom recvmsg preadv preadv2
    "path": {2, 4, 6, 78, 217, 257, 262, 332, 437},  # open stat lstat getdents(64) openat newfstatat statx openat2
    "wait": {7, 23, 202, 232, 270, 271, 281, 61, 247},  # poll select futex epoll_wait pselect ppoll epoll_pwait wait4
    "sleep": {35, 230},  # nanosleep clock_nanosleep
}
_ARM = {
    "read": {63, 67, 65, 207, 212, 69, 286},
    "path": {56, 61, 79, 291, 437},
    "wait": {98, 22, 72, 73, 260, 95},
    "sleep": {101, 115},
}
_CALLS = {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), {})
# The same by the kernel's function in which a thread sleeps (wchan), where the call itself is kept from us.
_PLACES = {
    "read": (
        "pipe_read", "anon_pipe_read", "folio_wait", "wait_on_page", "io_schedule", "fuse_", "request_wait", "nfs_",
        "rpc_wait", "sock_", "tcp_recv", "skb_wait", "unix_stream_read",
    ),
    "wait": ("futex", "poll_schedule", "ep_poll", "do_select", "do_wait"),
    "sleep": ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A thread at one moment."""

    doing: str  # as model.live.DOINGS
    descriptor: int | None = None  # that it reads from


def look(folder: str, descriptors: bool = True) -> Task | None:
    """Return what a thread does; None if it is gone.

    Args:
        folder: /proc/PID/task/TID.
        descriptors: ask for the system call, which takes the right to trace.
    """
    data = procfs.read(f"{folder}/stat")
    if not data:
        return None
    state = data[data.rfind(b")") + 2 : data.rfind(b")") + 3]
    if state in (b"Z", b"X", b"x"):
        return None
    if state == b"R":
        return Task("run")
    words = (procfs.text(f"{folder}/syscall") or "").split() if descriptors else []
    number = int(words[0]) if len(words) > 1 and words[0].isdecimal() else None
    called = next((kind for kind, numbers in _CALLS.items() if number in numbers), "")
    if called == "read":
        return Task("read", int(words[1], 16))
    if state == b"D" or called == "path":
        return Task("read")
    place = called or _place(procfs.text(f"{folder}/wchan") or "")
    return Task(place if place in {"read", "wait", "sleep"} else "other")


def _place(wchan: str) -> str:
    return next((kind for kind, names in _PLACES.items() if wchan.removeprefix("__").startswith(names)), "")


def run_delay_s(folder: str) -> dict[int, float]:
    """Return for how long each thread of a process was ready to run and waited for a CPU, in s since it began.

    Args:
        folder: /proc/PID.
    """
    found = {}
    for thread in procfs.names(f"{folder}/task"):
        words = (procfs.read(f"{folder}/task/{thread}/schedstat") or b"").split()
        if len(words) == 3:
            found[int(thread)] = int(words[1]) / 1e9
    return found
