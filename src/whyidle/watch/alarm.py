"""When to say that a GPU idles: a state machine for one GPU that is told the time, and knows no other clock.

A GPU is *armed* by the first activity of its job, or when a start-up grace is over; only then its samples count. It
*fires* when their mean over the trailing window is below the floor, which a job that was busy once cannot escape. It
*resolves* when the last minute is clearly above it, or nobody can be blamed any more, or another job has had its
start-up there. What was not measured counts neither as idle nor as busy: with too little measured nothing happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

ENOUGH = 0.8  # of the window has to be measured
RESOLVE_S = 60.0  # of activity end an episode; of the window where that is shorter
HYSTERESIS = 0.05  # above the floor
# A sample stands for the time since the one before; after a longer pause (in intervals, and in s) for one interval.
PAUSE = 2.0
PAUSE_S = 5.0
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """When a GPU is idle; times in s, the floor 0-1."""

    floor: float = 0.15
    window_s: float = 900.0
    grace_s: float = 600.0
    interval_s: float = 1.0
    held_only: bool = False


def stands_for(passed_s: float, interval_s: float) -> bool:
    """Say whether a sample stands for all of the time since the one before: a slow driver stretches an interval."""
    return passed_s <= max(PAUSE * interval_s, PAUSE_S)


@dataclass(frozen=True, slots=True)
class Observed:
    """A GPU at one moment.

    Attributes:
        busy_share: utilization, 0-1; None was not measured.
        held: by a process or by memory; None is not known.
        holders: the jobs on it, by what tells them from others; None is not known, and then they have not changed.
        exempt: every job on it may idle.
    """

    busy_share: float | None
    held: bool | None = None
    holders: Collection[Hashable] | None = None
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An episode begins or ends.

    Attributes:
        at_s: when, by the clock of whoever calls.
        since_s: when the samples begin of which it speaks.
        busy_share: their mean utilization, 0-1; None where it ended without any.
        samples: how many they are.
        why: it ended: "busy again", "released", "exempt", "another job".
    """

    kind: Literal["alarm", "resolved"]
    at_s: float
    since_s: float
    busy_share: float | None
    samples: int
    why: str = ""


class Alarm:
    """One GPU.

    Args:
        limits: when it is idle.
        start_s: when the watch began.
    """

    def __init__(self, limits: Limits, start_s: float) -> None:
        self._limits = limits
        self._armed_at: float | None = None
        self._quiet_since = start_s  # a job, or the watch, began and was not active since
        self._active = False  # since then
        self._newcomer = False  # the job is another than the one that the episode began with
        self._holders: Collection[Hashable] | None = None
        self._last_s: float | None = None
        self._counted: deque[tuple[float, int, int]] = deque()  # (s, ns it stands for, of these busy) of the window
        self._known_ns = self._busy_ns = 0  # sums of these: whole numbers, which do not drift
        self.firing_since: float | None = None

    def see(self, now_s: float, observed: Observed) -> Event | None:
        """Take a sample and return what it changes.

        Args:
            now_s: time, of a clock that only grows.
            observed: the GPU.
        """
        passed_s, self._last_s = now_s - (self._last_s if self._last_s is not None else now_s), now_s
        if observed.exempt or (self._limits.held_only and observed.held is not True):
            return self._excused(now_s, observed)
        self._meet(now_s, observed)
        busy = observed.busy_share
        if busy is None:
            self._drop(now_s)
            return None
        self._arm(now_s, busy)
        if self._armed_at is None:
            return None
        interval_s = self._limits.interval_s
        whole = passed_s > 0 and stands_for(passed_s, interval_s)
        self._count(now_s, passed_s if whole else interval_s, busy)
        self._drop(now_s)
        return self._fire(now_s) if self.firing_since is None else self._resolve(now_s)

    def _meet(self, now_s: float, observed: Observed) -> None:
        """Give a new job its grace, once: what starts again and again without any work has had it.

        It is a new one only where none is left that was there before. During an episode it takes one that outlives its
        grace to begin another.
        """
        before, here = self._holders, observed.holders
        if here is None or here == before:
            return
        self._holders = here
        if before is None or (before and not here):
            self._newcomer &= bool(here)
            return
        if not here or not set(here).isdisjoint(before):
            return
        if self.firing_since is not None:
            self._newcomer, self._quiet_since = True, now_s
        elif self._active:
            self._active, self._armed_at, self._quiet_since = False, None, now_s
            self._clear()

    def _arm(self, now_s: float, busy: float) -> None:
        active = busy >= self._limits.floor
        self._active |= active
        if self._armed_at is None and (active or now_s >= self._quiet_since + self._limits.grace_s):
            self._armed_at = now_s

    def _fire(self, now_s: float) -> Event | None:
        limits = self._limits
        lasted = self._armed_at is not None and now_s - self._armed_at >= limits.window_s
        if not lasted or self._known_ns < ENOUGH * limits.window_s * NS_PER_S:
            return None
        mean = self._busy_ns / self._known_ns
        if mean >= limits.floor:
            return None
        self.firing_since, self._newcomer = now_s, False
        return Event("alarm", now_s, now_s - limits.window_s, mean, len(self._counted))

    def _resolve(self, now_s: float) -> Event | None:
        limits = self._limits
        span = min(RESOLVE_S, limits.window_s)
        recent = list(takewhile(lambda one: one[0] > now_s - span, reversed(self._counted)))
        known = sum(known for _, known, _ in recent)
        mean = sum(busy for _, _, busy in recent) / known
        if known >= ENOUGH * span * NS_PER_S and mean >= min(limits.floor + HYSTERESIS, 1.0):
            return self._end(Event("resolved", now_s, now_s - span, mean, len(recent), "busy again"))
        if self._newcomer and now_s >= self._quiet_since + limits.grace_s:
            return self._end(Event("resolved", now_s, self._quiet_since, None, 0, "another job"))
        return None

    def _excused(self, now_s: float, observed: Observed) -> Event | None:
        """Take a sample that nobody is to blame for; one of which nothing is known ends nothing."""
        if not observed.exempt and (observed.held is None or observed.busy_share is None):
            self._drop(now_s)
            return None
        why = "exempt" if observed.exempt else "released"
        event = None
        if self.firing_since is not None:
            event = self._end(Event("resolved", now_s, now_s, None, 0, why))
        self._armed_at, self._quiet_since, self._active = None, now_s, False
        self._holders = observed.holders
        self._clear()
        return event

    def _end(self, event: Event) -> Event:
        self.firing_since, self._newcomer = None, False
        self._armed_at = event.at_s
        self._clear()
        return event

    def _count(self, now_s: float, seconds: float, busy: float) -> None:
        known = round(seconds * NS_PER_S)
        self._counted.append((now_s, known, round(busy * known)))
        self._known_ns += known
        self._busy_ns += round(busy * known)

    def _drop(self, now_s: float) -> None:
        while self._counted and self._counted[0][0] <= now_s - self._limits.window_s:
            _, known, busy = self._counted.popleft()
            self._known_ns -= known
            self._busy_ns -= busy

    def _clear(self) -> None:
        self._counted.clear()
        self._known_ns = self._busy_ns = 0
