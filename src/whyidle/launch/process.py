"""A job that cannot tell that it has another parent: the same streams, process group, signals and end as when bare.

Ctrl-C goes to the whole foreground process group, so the job has it already, and the job alone decides what to make of
it. What is sent to us alone, as schedulers and containers do it, is passed on. We wait with the signals blocked, so
nothing is polled and nothing interrupts us; should we be killed ourselves, the job goes on.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from whyidle.launch.program import Program, refused

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
    signal.SIGTSTP,
    signal.SIGCONT,
)
LOOK_EVERY_S = 1.0  # should a thread that a library started before us have got the signal
_OF_TERMINAL = 0x80  # si_code SI_KERNEL: the terminal sent it, to every process of the group
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # which a job must not inherit


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: by an exit code, or by a signal."""

    exit_code: int | None = None
    signal: int | None = None

    @property
    def status(self) -> int:
        """Return it as a shell does."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


class Mask:
    """Signals that are blocked while a job runs, so that they wait for us to be read.

    To be made before anything starts a thread, as numpy does: a thread that does not block them would get them.
    A signal that whoever started us ignores (nohup, a background job) stays ignored, in the job too.
    """

    def __init__(self) -> None:
        heard = {number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
        self.heard = frozenset({*heard, signal.SIGCHLD})
        self._child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.before = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, self.heard))  # which the job inherits
        self._blocks = True

    def lift(self) -> None:
        """Let signals through again; those that came too late for the job are dropped."""
        if self._blocks:
            self._blocks = False
            while signal.sigtimedwait(self.heard, 0) is not None:
                pass
            signal.pthread_sigmask(signal.SIG_SETMASK, self.before)
            signal.signal(signal.SIGCHLD, self._child)

    def let_through(self) -> None:
        """Let happen what somebody sent us before there is a job that could have it."""
        if signal.sigpending() & (self.heard - {signal.SIGCHLD, signal.SIGCONT}):
            signal.pthread_sigmask(signal.SIG_SETMASK, self.before)
            signal.pthread_sigmask(signal.SIG_BLOCK, self.heard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.lift()


def start(program: Program, environment: Mapping[str, str], mask: Mask) -> int:
    """Start a job and return its process id.

    Args:
        program: what to start.
        environment: all of its variables.
        mask: what is blocked; the job does not inherit that.

    Raises:
        NotStartedError: when the system does not execute the file.
    """
    mask.let_through()
    try:
        return _spawn(program.path, program.arguments, environment, mask)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise refused(program, error) from None
    try:  # a script without a first line that names its shell: what shells and execvp do
        return _spawn("/bin/sh", ("/bin/sh", program.path, *program.arguments[1:]), environment, mask)
    except OSError as error:
        raise refused(program, error) from None


def _spawn(path: str, arguments: tuple[str, ...], environment: Mapping[str, str], mask: Mask) -> int:
    return os.posix_spawn(path, arguments, environment, setsigmask=mask.before, setsigdef=_IGNORED_BY_PYTHON)


def wait(pid: int, mask: Mask) -> Ended:
    """Wait for a job to end, and pass on the signals that only we get."""
    while True:
        heard = signal.sigtimedwait(mask.heard, LOOK_EVERY_S)
        if heard is None or heard.si_signo == signal.SIGCHLD:
            ended = _reap(pid)
            if ended is not None:
                return ended
        elif heard.si_signo == signal.SIGCONT:
            if _stopped(pid):
                os.kill(pid, signal.SIGCONT)
        elif heard.si_code != _OF_TERMINAL:
            os.kill(pid, heard.si_signo)


def _reap(pid: int) -> Ended | None:
    """Take note of what happened to the job; None while it lives."""
    if os.getpid() == 1:  # of a container: orphans are ours, too
        _bury_others(pid)
    found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not found:
        return None
    if os.WIFSTOPPED(status):
        if os.WSTOPSIG(status) in _STOPS:  # Ctrl-Z: the shell waits for us to stop, too
            os.kill(os.getpid(), signal.SIGSTOP)
        return None
    if os.WIFSIGNALED(status):
        return Ended(signal=os.WTERMSIG(status))
    return Ended(exit_code=os.WEXITSTATUS(status))


def _bury_others(pid: int) -> None:
    """Reap processes that have ended, but for the job."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid == pid:
            return
        os.waitpid(found.si_pid, 0)


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def leave(ended: Ended) -> int:
    """End as the job ended: return its exit code, or die by the signal that killed it.

    So a shell says the same as of the bare command, and a script stops at Ctrl-C.
    """
    if ended.signal is None:
        return ended.status
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # not a second core
    if ended.signal not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(ended.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ended.signal})
    os.kill(os.getpid(), ended.signal)
    return ended.status  # the first process of a container cannot be killed by itself
