"""Which lines of the job wait for the GPU: a few steps in mid-training with torch's own warnings of them, unseen.

`torch.cuda.set_sync_debug_mode("warn")` makes every synchronising call warn. For the length of the window these
warnings come to us and to nobody else; all others, and everything that the job does with its own filters, go on as
before. Where warnings are errors, or the job uses that mode itself, there is no window.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import warnings as standard
from types import CodeType, FrameType
from typing import Any, Callable

from _whyidle import facts, hooks, place, record

WATCH = 11  # kind of record
MESSAGE = re.compile(r"called a synchronizing|Synchronization debug mode is a prototype")
SYNC = re.compile(r"called a synchronizing")
MOST_SITES = 200
MOST_NEW = 20_000  # synchronisations of one step
LONGEST_S = 60.0  # of a step that is watched, or of what comes after the last: an evaluation

warnings: Any = standard  # what it has beyond its documentation differs between versions

Site = tuple[str, int, str, str]  # file, line, function, operation


class Ear:
    """Takes torch's warnings of synchronisations out of Python's stream of warnings, and hands on all others."""

    def __init__(self, heard: Callable[[FrameType], None]) -> None:
        self._heard = heard
        self._filter: tuple[Any, ...] = ("always", MESSAGE, UserWarning, None, 0)
        self._lists: list[list[Any]] = []  # every list of filters that was in force meanwhile
        self._show: Any = None
        self._add: Any = None
        self.works = False

    def open(self) -> bool:
        """Listen. Returns False, with everything as it was, where that cannot be done unseen."""
        if self._errors() or not hasattr(warnings, "_showwarnmsg") or not hasattr(warnings, "_add_filter"):
            return False
        self._show, self._add = warnings._showwarnmsg, warnings._add_filter
        warnings._showwarnmsg = self._shown
        warnings._add_filter = self._added
        self._first()
        # Python's versions differ here: only what is seen to work is used
        warnings.warn_explicit("called a synchronizing operation of ours", UserWarning, "whyidle", 1)
        if not self.works:
            self.close()
        return self.works

    def close(self) -> None:
        """Put everything back, in every list of filters that the job may still come back to."""
        if getattr(warnings, "_showwarnmsg", None) == self._shown:
            warnings._showwarnmsg = self._show
        if getattr(warnings, "_add_filter", None) == self._added:
            warnings._add_filter = self._add
        for filters in (*self._lists, warnings.filters):
            while any(item is self._filter for item in filters):
                filters.remove(self._filter)
        self._lists.clear()

    def _first(self) -> None:
        """Put our filter before all others.

        Not by warnings' own functions: they also forget which warnings were shown already, and would repeat them.
        """
        filters: Any = warnings.filters
        while any(item is self._filter for item in filters):
            filters.remove(self._filter)
        filters.insert(0, self._filter)
        if not any(known is filters for known in self._lists):
            self._lists.append(filters)

    def _added(self, *args: Any, **kwargs: Any) -> Any:
        """Stand for the function through which the job adds filters: one that makes errors would reach our steps."""
        result = self._add(*args, **kwargs)
        self._first()
        return result

    def _shown(self, message: Any) -> Any:
        """Stand for the function through which Python shows every warning."""
        text = str(getattr(message, "message", ""))
        if not MESSAGE.match(text):
            return self._show(message)
        if message.filename == "whyidle":
            self.works = True
        elif SYNC.match(text):
            try:
                self._heard(sys._getframe(1))
            except Exception:
                record.note_error("synchronisations")
        return None

    def _errors(self) -> bool:
        """Return whether a warning of torch would be an error now."""
        return any(item[0] == "error" and issubclass(UserWarning, item[2]) for item in warnings.filters)


class Watch:
    """The window: opened after some steps, closed after some more."""

    def __init__(self, cuda: Any, steps: int, after: int) -> None:
        self._cuda = cuda
        self._steps = steps
        self._after = after
        self._anchor: Any = None
        self._seen = 0
        self._watched = 0
        self._started = 0  # ns, of the step under way
        self._count = 0  # in the step under way
        self._sites: dict[Site, int] = {}
        self._new: list[Site] = []  # of the step under way
        self._thread = 0  # that trains: who else waits for the GPU does not hold it up
        self._known: dict[tuple[CodeType, int], str] = {}
        self._ear = Ear(self.heard)
        self._done = False
        self.open = False

    def step(self, _count: int, optimizer: Any) -> bool | None:
        """Count steps of the first optimizer that is seen; open and close the window. Returns False after it."""
        if self._done:
            return False
        try:
            return self._step(optimizer)
        except Exception:
            self._done = True
            self.close()
            raise

    def _step(self, optimizer: Any) -> bool | None:
        if self._anchor is None:
            self._anchor = id(optimizer)
        if id(optimizer) != self._anchor:
            return None
        if self.open:
            self._end_step()
            return None
        self._seen += 1
        if self._seen < self._after or record.looking():
            return None
        self._done = not self._begin()
        return None

    def heard(self, frame: FrameType) -> None:
        """Count a synchronisation by the line of the user's code that brought it about."""
        if threading.get_ident() != self._thread:
            return
        self._count += 1
        user = place.of_user(frame)
        if user is None:
            return
        key = (user.f_code, user.f_lasti)
        if key not in self._known:
            self._known[key] = place.operation(user)
        site = (place.shown(user.f_code.co_filename), user.f_lineno, user.f_code.co_name, self._known[key])
        if len(self._new) < MOST_NEW:
            self._new.append(site)

    def still(self) -> None:
        """End with what was seen so far, if the step under way is none: its optimizer may never step again."""
        if self.open and (time.perf_counter_ns() - self._started) / 1e9 > LONGEST_S:
            self.close()
            self._tell()

    def close(self) -> None:
        """Leave the window as if it had never been."""
        if not self.open:
            return
        self.open = False
        self._done = True
        record.end_look()
        try:
            if self._cuda.get_sync_debug_mode() == 1:  # else the job has set its own meanwhile
                self._cuda.set_sync_debug_mode(0)
        finally:
            self._ear.close()

    def _begin(self) -> bool:
        if not self._cuda.is_initialized() or self._cuda.get_sync_debug_mode() != 0 or not self._ear.open():
            return False
        self.open = record.begin_look(self.still)
        try:
            self._cuda.set_sync_debug_mode(1)
        except Exception:
            self.close()
            raise
        self._thread = threading.get_ident()
        self._started = time.perf_counter_ns()
        self._count = 0
        self._new.clear()
        return True

    def _end_step(self) -> None:
        now = time.perf_counter_ns()
        self._watched += 1
        record.put(WATCH, self._started, now - self._started, self._count)
        for site in self._new:
            if site in self._sites or len(self._sites) < MOST_SITES:
                self._sites[site] = self._sites.get(site, 0) + 1
        self._new.clear()
        self._started, self._count = now, 0
        if self._watched < self._steps:
            return
        self.close()
        self._tell()

    def _tell(self) -> None:
        """Write down what was seen in whole steps."""
        if not self._watched:
            return
        names = ("file", "line", "function", "operation", "count")
        sites = sorted(self._sites.items(), key=lambda item: -item[1])
        facts.set_section(
            "syncs",
            {"steps": self._watched, "sites": [dict(zip(names, (*site, count))) for site, count in sites]},
        )
        facts.write()


def install(torch: Any) -> None:
    """Look for synchronisations in a few steps, half way to the profiler's."""
    options = record.options()
    cuda = getattr(torch, "cuda", None)
    if options["syncs"] > 0 and hasattr(cuda, "set_sync_debug_mode"):
        watch = Watch(cuda, options["syncs"], max(1, options["trace_after"] // 2))
        hooks.after_step(watch.step)
        facts.at_end(watch.close)
