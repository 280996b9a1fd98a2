"""The forked children in which loaders are measured, what is measured when, and what becomes of one that fails.

A loader that fails, hangs or takes its child with it is a result. The training waits meanwhile; it is not changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import multiprocessing
import os
import signal
import stat
import statistics
import sys
import threading
import warnings
from collections.abc import Iterator
from time import monotonic
from typing import Any, Callable

from _whyidle import hooks, loader_alone, loader_storage

PREFETCH = 2  # torch's default
DEEPER = (4, 8)  # tried where batches are unequal
UNEQUAL = 0.5  # sd over mean of a batch's time
MOST_OF_MEMORY = 0.5  # of what is free, for workers or for their batches
LONGEST_WHY = 300  # characters
LOOK_S = 1.0


class Plan:
    """What shall be measured, and what was.

    Args:
        chosen: `workers` (list), `seconds` for each point, `limit_s` for a child in all, `cold`.
    """

    def __init__(self, chosen: dict[str, Any]) -> None:
        self.workers = [int(workers) for workers in chosen.get("workers") or (0, 1, 2)]
        self.seconds = float(chosen.get("seconds") or 5.0)
        self.limit_s = float(chosen.get("limit_s") or 60.0 + 10 * self.seconds)
        self.cold = bool(chosen.get("cold"))
        self.points: list[dict[str, Any]] = []

    def run(self, loader: Any, show: Callable[[dict[str, Any]], None]) -> None:
        """Measure with all numbers of workers, then deeper prefetching where batches are unequal, then storage.

        Args:
            loader: the training's.
            show: is given what was found after each.
        """
        plan = [(workers, PREFETCH) for workers in self.workers]
        own = (getattr(loader, "num_workers", 0), getattr(loader, "prefetch_factor", None) or PREFETCH)
        if own not in plan and (own[0] or 0 not in self.workers):
            plan.append(own)
        for workers, prefetch in plan:
            self._measure(loader, workers, prefetch, show)
        ahead = [point for point in self.points if "batches" in point and point["workers"]]
        best = max(ahead, key=_rate, default=None)
        if best is not None and spread(self.points) > UNEQUAL:
            for prefetch in DEEPER:
                self._measure(loader, best["workers"], prefetch, show)
        storage = in_child(lambda: loader_storage.measure(loader, self.seconds, self.cold), self.limit_s)
        show({"storage": storage})

    def _measure(self, loader: Any, workers: int, prefetch: int, show: Callable[[dict[str, Any]], None]) -> None:
        point: dict[str, Any] = {"workers": workers, "prefetch": prefetch}
        why = self._too_large(workers, prefetch)
        if why:
            point.update(status="skipped", why=why)
        else:
            point.update(in_child(lambda: loader_alone.measure(loader, workers, prefetch, self.seconds), self.limit_s))
        self.points.append(point)
        show({"points": self.points})

    def _too_large(self, workers: int, prefetch: int) -> str:
        """Return why there is no room for so many workers; empty if there is, or where that is not known."""
        memory = max((point.get("memory_bytes") or 0 for point in self.points), default=0)
        batch = max((point.get("batch_bytes") or 0 for point in self.points), default=0)
        available, shared = loader_alone.available_memory(), loader_alone.free_shared_memory()
        if available is not None and workers * memory > MOST_OF_MEMORY * available:
            return "its workers would take more than half of the memory that is free"
        if shared is not None and workers * prefetch * batch > MOST_OF_MEMORY * shared:
            return "batches made ahead would take more than half of what is free in /dev/shm"
        return ""


def _rate(point: dict[str, Any]) -> float:
    return float(point["batches"]) / max(float(point["seconds"]), 1e-9)


def spread(points: list[dict[str, Any]]) -> float:
    """Return sd over mean of a batch's time, where the fewest workers made batches; 0 where that was not seen."""
    for point in sorted(points, key=lambda point: int(point["workers"])):
        times = point.get("fetch_s") or []
        if len(times) > 2:
            return float(statistics.stdev(times)) / max(statistics.fmean(times), 1e-9)
    return 0.0


def room() -> dict[str, int | None]:
    """Return the memory that is free before anything is measured."""
    return {
        "available_memory_bytes": loader_alone.available_memory(),
        "free_shared_memory_bytes": loader_alone.free_shared_memory(),
    }


def in_child(work: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Return what a function gives in a forked child, with "status": "ok", "failed" or "timed out", and "why".

    Args:
        work: the function.
        limit_s: after which the child is killed, with its workers.
    """
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, theirs), name="whyidle-loader")
    with warnings.catch_warnings(), _ctrl_c_held():
        warnings.simplefilter("ignore")  # Python 3.12 warns of any fork where there are threads
        child.start()
    theirs.close()
    end = monotonic() + limit_s
    try:
        while not ours.poll(LOOK_S):
            if monotonic() >= end:
                return {"status": "timed out", "why": "nothing came of it in %.0f s" % limit_s}
            if not child.is_alive() and not ours.poll(0):
                return {"status": "failed", "why": _death(child.exitcode)}
        found = json.loads(ours.recv_bytes())
        child.join(LOOK_S)
        return dict(found)
    except EOFError:
        child.join(LOOK_S)
        return {"status": "failed", "why": _death(child.exitcode)}
    finally:
        if child.is_alive():
            _kill(child.pid)
        child.join()
        ours.close()


@contextlib.contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Have Ctrl-C wait: what it raises in a function that Python runs around a fork is printed there, and lost."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda _number, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(signal.SIGINT, came[0])


def _child(work: Callable[[], dict[str, Any]], pipe: Any) -> None:
    """Measure, tell, and end without a word: neither the training's handlers nor its output are ours."""
    try:
        _die_with_parent()
        gc.freeze()  # what the training's objects do when they die, they do there
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        os.environ.pop("WHYIDLE_CAPTURE", None)  # workers that are spawned are not recorded
        hooks.restore()
        _own_places()
        torch = sys.modules["torch"]
        torch.set_num_threads(1)  # as workers have; threads of the parent's do not exist here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = {"status": "ok", "why": "", **work()}
    except BaseException as error:
        told = {"status": "failed", "why": _said(error)}
    try:
        pipe.send_bytes(json.dumps(told).encode())
    finally:
        for worker in multiprocessing.active_children():
            worker.kill()
        os._exit(0)


def _die_with_parent() -> None:
    """Have this process killed when the training is: nobody waits for it then."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _own_places() -> None:
    """Have places of our own in the files that are open for reading: those of a forked child are its parent's."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
            if flags & os.O_ACCMODE != os.O_RDONLY or not stat.S_ISREG(os.fstat(number).st_mode):
                continue
            place = os.lseek(number, 0, os.SEEK_CUR)
            mine = os.open("/proc/self/fd/" + name, os.O_RDONLY)
        except OSError:  # the one by which they are listed
            continue
        os.lseek(mine, place, os.SEEK_SET)
        os.dup2(mine, number)
        os.close(mine)


def _said(error: BaseException) -> str:
    """Return an error in a line: of one that came from a worker, what happened there."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    text = last if "Traceback" in str(error) and last else "%s: %s" % (type(error).__name__, lines[0] if lines else "")
    return text[:LONGEST_WHY]


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return "the process that loaded was killed by signal %d" % -code
    return "the process that loaded ended without a word (exit code %s)" % code


def _kill(pid: int) -> None:
    """Kill a child and its children."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            pids = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        pids = []
    for one in (pid, *pids):
        try:
            os.kill(one, signal.SIGKILL)
        except OSError:
            pass
