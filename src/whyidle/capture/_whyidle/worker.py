"""What making a batch takes: time, CPU time, and time spent waiting for a CPU, for each worker of each loader.

A worker is a process of its own, which has no ring: it counts, and writes ID.worker-L-W.json, at most once a second
and when it ends. What a loader without workers fetches in the training process is counted in the same way, as worker -1
(ID.worker-L-main.json). With `--workers` a thread looks at the stack 20 times a second, see `look`.

A worker learns whose it is by an entry in `multiprocessing.current_process()._config`: the one thing that a child gets
from its parent however it is started, by fork, spawn or forkserver.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from _whyidle import facts, hooks, loader, look, record, settings

INTERVAL_S = 1.0
KEY = "whyidle"  # in _config: "ID LOADER METHOD"
MOST_FILES = 16  # threads of which the schedstat is kept open
MAIN = -1  # the worker of a loader that has none

_accounts: dict[tuple[int, int], Account] = {}  # of this process, by loader and worker
_fetching = False  # a data set may itself fetch from a loader: only the outermost counts


class Account:
    """What one worker did so far."""

    def __init__(self, identity: str, number: int, worker: int, method: str | None) -> None:
        self.path = Path(record.folder(), f"{identity}.worker-{number}-{'main' if worker == MAIN else worker}.json")
        self._names = (number, worker, method)
        self._process_clock = worker != MAIN  # a training process has other threads that compute
        self._began = time.perf_counter_ns()
        self._written = 0.0  # time.monotonic()
        self._fetches = 0
        self._sum = self._squares = self._longest = 0.0  # s, s^2, s
        self._cpu_ns = self._delay_ns = 0
        self._schedstat = Schedstat()
        self._before: dict[str, Any] = _read(self.path) if worker != MAIN else {}
        self.look = look.Look(self._before.get("stacks")) if record.options()["workers"] else None

    def clocks(self) -> tuple[int, int, int]:
        """Return the time, the CPU time used and the time spent waiting for a CPU, in ns."""
        cpu = time.process_time_ns() if self._process_clock else time.thread_time_ns()
        return time.perf_counter_ns(), cpu, self._schedstat.run_delay()

    def add(self, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
        """Count a fetch, and write if that was not done for a second."""
        seconds = (end[0] - start[0]) / 1e9
        self._fetches += 1
        self._sum += seconds
        self._squares += seconds * seconds
        self._longest = max(self._longest, seconds)
        self._cpu_ns += end[1] - start[1]
        self._delay_ns += end[2] - start[2]
        now = time.monotonic()
        if now - self._written >= INTERVAL_S:
            self._written = now
            self.write()

    def write(self) -> None:
        """Replace the file, counting on from what an earlier worker of the same number left."""
        if self._fetches:
            try:
                facts.replace(self.path, self.content())
            except OSError:  # a full disk
                record.note_error("counting fetches")

    def content(self) -> dict[str, Any]:
        """Return what the file holds."""
        before, earlier = self._before, self._before.get("fetch_s", {})
        number, worker, method = self._names
        known = self._schedstat.known
        content = {
            "version": 1,
            "pid": os.getpid(),
            "loader": number,
            "worker": worker,
            "fetches": self._fetches + before.get("fetches", 0),
            "fetch_s": {
                "sum": self._sum + earlier.get("sum", 0.0),
                "sum_of_squares": self._squares + earlier.get("sum_of_squares", 0.0),
                "max": max(self._longest, earlier.get("max", 0.0)),
            },
            "cpu_s": self._cpu_ns / 1e9 + before.get("cpu_s", 0.0),
            "run_delay_s": self._delay_ns / 1e9 + (before.get("run_delay_s") or 0.0) if known else None,
            "wall_s": (time.perf_counter_ns() - self._began) / 1e9 + before.get("wall_s", 0.0),
            "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "threads": getattr(sys.modules.get("torch"), "get_num_threads", lambda: None)(),
            "method": method,
        }
        if self.look is not None:
            content.update(self.look.content())
        return content


class Schedstat:
    """The time for which a thread was ready to run and did not, as Linux counts it."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}  # thread -> descriptor
        self.known = True

    def run_delay(self) -> int:
        """Return this thread's run delay in ns; 0 where it is not known."""
        if not self.known:
            return 0
        try:
            thread = threading.get_native_id()  # unlike idents these do not soon come back
            if thread not in self._files:
                if len(self._files) >= MOST_FILES:
                    self.close()
                self._files[thread] = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._files[thread], 64, 0).split()[1])
        except (OSError, IndexError, ValueError):
            record.pass_on()
            self.known = False
            self.close()
            return 0

    def close(self) -> None:
        """Close what was opened; a loader that is iterated in ever new threads must not use up descriptors."""
        while self._files:
            os.close(self._files.popitem()[1])


def install(torch: Any) -> None:
    """Count fetches in this process, and tell workers whose they are."""
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    begin = iterator.__init__

    def __init__(self: Any, dataloader: Any, *args: Any, **kwargs: Any) -> None:
        _tell_workers(dataloader)
        try:
            begin(self, dataloader, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise

    hooks.replace(iterator, "__init__", __init__)
    fetchers = sys.modules.get("torch.utils.data._utils.fetch")
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        if hasattr(fetchers, name):
            _watch_fetches(getattr(fetchers, name))


def _watch_fetches(fetcher: Any) -> None:
    original = fetcher.fetch

    def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _fetching
        account = None if _fetching else _account(sys._getframe(1))
        if account is None:
            return original(self, *args, **kwargs)
        _fetching = True
        start = account.clocks()
        if account.look is not None:
            account.look.begin()
        try:
            batch = original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            _fetching = False
            if account.look is not None:
                account.look.end()
        _add(account, start)
        return batch

    hooks.replace(fetcher, "fetch", fetch)


def _add(account: Account, start: tuple[int, int, int]) -> None:
    try:
        account.add(start, account.clocks())
    except Exception:
        record.note_error("counting a fetch")


def _tell_workers(dataloader: Any) -> None:
    """Leave word of the loader for the workers that are about to start."""
    try:
        if getattr(dataloader, "num_workers", 0):
            known = loader._known.get(id(dataloader))
            if known is not None:
                word = f"{record.identity()} {known[1]} {settings.start_method(dataloader)}"
                multiprocessing.current_process()._config[KEY] = word  # type: ignore[attr-defined]
    except Exception:
        record.note_error("starting workers")


def _account(caller: Any) -> Account | None:
    """Return where to count a fetch; None where it is not known whose it is."""
    try:
        info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
        if info is None:
            iterator = caller.f_locals.get("self")
            known = getattr(iterator, "_whyidle", None)
            if known is None or not record.recording():
                return None
            key = (known[0], MAIN)
            return _accounts.get(key) or _open(key, record.identity(), None)
        for account in _accounts.values():
            return account
        word = multiprocessing.current_process()._config.get(KEY, "").split()  # type: ignore[attr-defined]
        parent = multiprocessing.parent_process()
        if len(word) != 3 or parent is None or not word[0].startswith(f"{parent.pid}-"):
            return None
        return _open((int(word[1]), info.id), word[0], word[2])
    except Exception:
        record.note_error("a fetch")
        return None


def _open(key: tuple[int, int], identity: str, method: str | None) -> Account | None:
    if not record.folder():
        return None
    account = Account(identity, key[0], key[1], method)
    _accounts[key] = account
    facts.at_end(account.write)
    return account


def _read(path: Path) -> dict[str, Any]:
    """Return what a worker of an earlier epoch left."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    except (OSError, ValueError):
        return {}


def _forget() -> None:
    global _fetching
    _accounts.clear()
    _fetching = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
