"""Where a process's records go: decides when it is worth a ring, makes it, and writes down what went wrong here.

A process makes its ring when it first does what training does. A child of a Python process (a worker, a preprocessor, a
rank) has to take a step first: until then its records wait here. A DataLoader's worker never gets one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any, Callable

from _whyidle import ring as rings

DEFAULTS: dict[str, Any] = {
    "trace_steps": 6,
    "trace_after": 20,
    "trace_ranks": "0",
    "trace": True,
    "syncs": 3,
    "workers": False,
    "losses": False,
    "set": {},
    "loader_trial": None,
}
HELD = 256  # records of a process of which it is not known whether it trains; more than that are worth a ring
NOTES = 20  # of errors, per process
ERRORS_BYTES = 65_536

# By what the training thread is seen to go on, at a place where anything may be done.
_LIVELY = frozenset(
    (rings.BATCH, rings.STEP, rings.FORWARD, rings.BACKWARD, rings.SAVE, rings.ITERATE, rings.ENVIRONMENT)
)
# What makes a ring: in a process that the job started itself, and in a child of a Python process.
_ARMING = frozenset((rings.BATCH, rings.ITERATE, rings.STEP, rings.FORWARD, rings.BACKWARD))
_ARMING_CHILD = frozenset((rings.STEP, rings.BACKWARD))

_ring: rings.Ring | None = None
_off = False
_forked = False
_held: list[tuple[int, int, int, int, int]] = []
_opening = threading.RLock()
_identity: str | None = None
_folder: str | None = os.environ.get("WHYIDLE_CAPTURE") or None
_options: dict[str, Any] | None = None
_errors = 0
_look: Callable[[], None] | None = None


def put(kind: int, start: int, duration: int, value: int = 0, flags: int = 0) -> int:
    """Record that something happened. Never raises anything of its own.

    Args:
        kind: one of the kinds in `ring`.
        start: ns, `time.perf_counter_ns()`.
        duration: ns.
        value: what the kind says.
        flags: what the kind says.

    Returns:
        The record's sequence; -1 where none was written.
    """
    try:
        ring = _ring
        if ring is not None:
            sequence = ring.put(kind, start, duration, value, flags)
            if _look is not None and kind in _LIVELY:
                _look()
            return sequence
        return -1 if _off else _put_first(kind, start, duration, value, flags)
    except Exception:
        note_error()
        return -1


def _put_first(kind: int, start: int, duration: int, value: int, flags: int) -> int:
    """Record in a process that has no ring yet, or hold the record until it is worth one."""
    if kind == rings.COLLECT:
        return -1  # everything collects garbage
    with _opening:
        if _ring is None and not _off:
            if _is_worker():
                _turn_off()
                return -1
            if kind not in (_ARMING_CHILD if _is_child() else _ARMING):
                if len(_held) < HELD:
                    _held.append((kind, start, duration, value, flags))
                    return -1
                if kind not in _ARMING:
                    return -1
            _open()
        return -1 if _ring is None else _ring.put(kind, start, duration, value, flags)


def _is_worker() -> bool:
    """Return whether this is a worker process of a DataLoader."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None


def _is_child() -> bool:
    """Return whether Python code forked or spawned this process, so that it may be any kind of helper."""
    process = sys.modules.get("multiprocessing.process")
    return _forked or (process is not None and process.parent_process() is not None)


def _turn_off() -> None:
    global _off
    _off = True
    del _held[:]


def _open() -> None:
    """Make the ring and write what waited for it. Where there is no room for one, the job goes on without."""
    global _ring
    try:
        ring = rings.Ring(os.path.join(folder(), identity() + ".ring"), _description())
    except Exception:
        pass_on()
        _turn_off()
        note_error("this process is not recorded: no ring in %s" % folder())
        return
    for record in _held:
        ring.put(*record)
    del _held[:]
    _ring = ring


def _number(name: str) -> int | None:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def _ranks() -> tuple[int | None, int | None]:
    """Return rank and world size: what torch.distributed was told, else what the launcher says."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    except Exception:
        note_error()
    return _number("RANK"), _number("WORLD_SIZE")


def _description() -> dict[str, Any]:
    """Return the header's JSON."""
    rank, world_size = _ranks()
    return {
        "version": 1,
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "start_ns": time.perf_counter_ns(),
        "wall_ns": time.time_ns(),
        "argv": list(getattr(sys, "orig_argv", None) or [sys.executable, *getattr(sys, "argv", [])]),
        "python": sys.version.split()[0],
        "rank": rank,
        "local_rank": _number("LOCAL_RANK"),
        "world_size": world_size,
        "restart": _number("TORCHELASTIC_RESTART_COUNT"),
        "node": os.uname().nodename,
    }


def begin_look(still: Callable[[], None]) -> bool:
    """Begin to look at some steps more closely, which makes them slower; False where something else does so now.

    Args:
        still: called as the job goes on, on any thread: ends the look where no step comes any more.
    """
    global _look
    if _look is not None:
        return False
    _look = still
    return True


def end_look() -> None:
    """Look no more."""
    global _look
    _look = None


def looking() -> bool:
    """Return whether some steps are being looked at more closely."""
    return _look is not None


def recording() -> bool:
    """Return whether this process has a ring."""
    return _ring is not None


def folder() -> str:
    """Return the folder in which this process writes."""
    return _folder or ""


def identity() -> str:
    """Return PID-START, with which the names of this process's files begin."""
    global _identity
    if _identity is None:
        _identity = "%d-%d" % (os.getpid(), time.time_ns() // 1_000_000)
    return _identity


def options() -> dict[str, Any]:
    """Return what the user asked for: WHYIDLE_OPTIONS over DEFAULTS."""
    global _options
    if _options is None:
        try:
            given = json.loads(os.environ.get("WHYIDLE_OPTIONS") or "{}")
        except ValueError:
            given = {}
        _options = {**DEFAULTS, **(given if isinstance(given, dict) else {})}
    return _options


def errors() -> int:
    """Return how often something went wrong in the recording of this process."""
    return _errors


def pass_on() -> None:
    """Raise the exception that is being handled again, if a signal handler of the job raised it.

    Python runs such a handler wherever it happens to be, in our code too, and what it raises there is meant for the
    job: a worker of the loader has died, a time is up, a scheduler wants the machine back.
    """
    error = sys.exc_info()[1]
    trace = error.__traceback__ if error is not None else None
    codes = {frame.f_code for frame, _ in traceback.walk_tb(trace)}
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if not callable(handler) or handler is signal.default_int_handler:
            continue
        handler = getattr(handler, "func", handler)  # of functools.partial
        if getattr(handler, "__code__", getattr(type(handler).__call__, "__code__", None)) in codes:
            assert error is not None
            raise error


def note_error(what: str = "") -> None:
    """Append the exception that is being handled to errors.txt, bounded. Raises only what `pass_on` does.

    Args:
        what: was being done, in a few words.
    """
    global _errors
    pass_on()
    _errors += 1
    if _errors > NOTES or not _folder:
        return
    try:
        path = os.path.join(_folder, "errors.txt")
        text = "%s %s\n%s\n" % (identity(), what, traceback.format_exc(limit=-8)[-4000:])
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            if os.fstat(descriptor).st_size < ERRORS_BYTES:
                os.write(descriptor, text.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except Exception:  # a full disk, a folder that is gone: nowhere left to say so
        pass


def start(where: str, chosen: dict[str, Any] | None = None) -> None:
    """Record into a folder from now on; a new recording has a new identity.

    Args:
        where: the folder.
        chosen: options, see `options`.
    """
    global _folder, _options, _off
    if _ring is not None:
        return
    _folder = os.path.abspath(where)
    _options = None if chosen is None else {**DEFAULTS, **chosen}
    _off = False


def stop() -> None:
    """Record nothing more."""
    global _ring, _identity
    _turn_off()
    _ring = None
    _identity = None


def _after_fork() -> None:
    """In a forked child: the ring is the parent's. The lock may be held by a thread that does not exist here."""
    global _ring, _identity, _forked, _opening, _errors, _look
    _ring = _look = None
    _identity = None
    _forked = True
    _opening = threading.RLock()
    _errors = 0
    del _held[:]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
