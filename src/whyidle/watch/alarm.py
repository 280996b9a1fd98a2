"""When to say that a GPU idles: a state machine for one GPU that is told the time, and knows no other clock.

A GPU is *armed* by the first activity of its job, or when a start-up grace is over; only then its samples count. It
*fires* when their mean over the trailing window is below the floor, which a job that was busy once cannot escape. It
*resolves* when the last minute is clearly above it, or nobody can be blamed any more. What was not measured counts
neither as idle nor as busy: with too little measured nothing happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

ENOUGH = 0.8  # of the window has to be measured
RESOLVE_S = 60.0  # of activity end an episode; of the window where that is shorter
HYSTERESIS = 0.05  # above the floor


@dataclass(frozen=True, slots=True)
class Limits:
    """When a GPU is idle; times in s, the floor 0-1."""

    floor: float = 0.15
    window_s: float = 900.0
    grace_s: float = 600.0
    interval_s: float = 1.0
    held_only: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """A GPU at one moment.

    Attributes:
        busy_share: utilization, 0-1; None was not measured.
        held: by a process or by memory; None is not known.
        holders: what tells the jobs on it from others; None is not known, and then they have not changed.
        exempt: every job on it may idle.
    """

    busy_share: float | None
    held: bool | None = None
    holders: Hashable | None = None
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An episode begins or ends.

    Attributes:
        at_s: when, by the clock of whoever calls.
        since_s: when the samples begin of which it speaks.
        busy_share: their mean utilization, 0-1; None where it ended without any.
        samples: how many they are.
        why: it ended: "busy again", "released", "exempt".
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
        self._holders: Hashable | None = None
        self._counted: deque[tuple[float, float]] = deque()  # (s, busy share) of the trailing window
        self._sum = 0.0
        self.firing_since: float | None = None

    def see(self, now_s: float, observed: Observed) -> Event | None:
        """Take a sample and return what it changes.

        Args:
            now_s: time, of a clock that only grows.
            observed: the GPU.
        """
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
        self._counted.append((now_s, busy))
        self._sum += busy
        self._drop(now_s)
        return self._fire(now_s) if self.firing_since is None else self._resolve(now_s)

    def _meet(self, now_s: float, observed: Observed) -> None:
        """Give a new job its grace, once: what starts again and again without any work has had it."""
        if observed.holders is None or observed.holders == self._holders:
            return
        new, self._holders = self._holders is not None and bool(observed.holders), observed.holders
        if new and self._active and self.firing_since is None:
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
        enough = len(self._counted) * limits.interval_s >= ENOUGH * limits.window_s
        mean = self._sum / len(self._counted)
        if not lasted or not enough or mean >= limits.floor:
            return None
        self.firing_since = now_s
        return Event("alarm", now_s, now_s - limits.window_s, max(mean, 0.0), len(self._counted))

    def _resolve(self, now_s: float) -> Event | None:
        limits = self._limits
        span = min(RESOLVE_S, limits.window_s)
        recent = [busy for _, busy in takewhile(lambda one: one[0] > now_s - span, reversed(self._counted))]
        mean = sum(recent) / len(recent)
        if len(recent) * limits.interval_s < ENOUGH * span or mean < min(limits.floor + HYSTERESIS, 1.0):
            return None
        return self._end(Event("resolved", now_s, now_s - span, mean, len(recent), "busy again"))

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
        self.firing_since = None
        self._armed_at = event.at_s
        self._clear()
        return event

    def _drop(self, now_s: float) -> None:
        while self._counted and self._counted[0][0] <= now_s - self._limits.window_s:
            self._sum -= self._counted.popleft()[1]
        if not self._counted:
            self._sum = 0.0

    def _clear(self) -> None:
        self._counted.clear()
        self._sum = 0.0
