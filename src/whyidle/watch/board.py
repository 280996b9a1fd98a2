"""All that is known of the GPUs while they are watched: windows, jobs, money and alarms; one tick at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from whyidle.model.hardware import list_price
from whyidle.watch.alarm import Alarm, Event, Limits, Observed, stands_for
from whyidle.watch.asked import Asked
from whyidle.watch.course import Course
from whyidle.watch.jobs import RENEW_S, Job, Jobs
from whyidle.watch.moment import clock
from whyidle.watch.reading import Gpu, Reading, Sample
from whyidle.watch.verdict import Verdict, verdict
from whyidle.watch.window import Seen, Window

SECONDS_PER_HOUR = 3600.0
MOST_PROCESSES = 256  # that are remembered before those that left the GPUs are forgotten


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of a GPU since the watch began, in s, and what the idle part of it cost.

    Attributes:
        known_s: in which the utilization was measured.
        idle_s: of it, idle.
        unknown_s: in which it was not.
        usd_per_hour: of the GPU; None where it has no price.
    """

    known_s: float = 0.0
    idle_s: float = 0.0
    unknown_s: float = 0.0
    usd_per_hour: float | None = None

    @property
    def idle_usd(self) -> float | None:
        """Return US dollars; None without a price, and where nothing is known of the GPU."""
        if self.usd_per_hour is None or not self.known_s:
            return None
        return self.idle_s / SECONDS_PER_HOUR * self.usd_per_hour


@dataclass(frozen=True, slots=True)
class Status:
    """What is said of one GPU.

    Attributes:
        last: its last reading; None: it does not answer.
        jobs: on it; None where they cannot be seen.
        hint: what its curve looks like, "" for nothing.
        unknown_since: ns since 1970; None while it is known.
        alarm: an episode lasts; None where nobody asked for alarms.
    """

    gpu: Gpu
    verdict: Verdict
    seen: Seen
    last: Reading | None
    jobs: tuple[Job, ...] | None
    spent: Spent
    hint: str = ""
    unknown_since: int | None = None
    alarm: bool | None = None


@dataclass(slots=True)
class _Watched:
    """One GPU and what is kept of it."""

    gpu: Gpu
    window: Window
    course: Course
    alarm: Alarm | None
    usd_per_hour: float | None
    known_s: float = 0.0
    idle_s: float = 0.0
    unknown_s: float = 0.0
    pids: tuple[int, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    exempt: bool = False
    renewed_s: float = -math.inf

    @property
    def spent(self) -> Spent:
        return Spent(self.known_s, self.idle_s, self.unknown_s, self.usd_per_hour)


@dataclass(slots=True)
class Board:
    """The GPUs that are watched.

    Attributes:
        hints: by `Gpu.key`, what its curve looks like; whoever judges curves sets it.
    """

    asked: Asked
    jobs: Jobs
    start_s: float
    state: str = "not asked yet"
    hints: Mapping[str, str] = field(default_factory=dict)
    _gpus: dict[str, _Watched] = field(default_factory=dict)
    _last_s: float | None = None

    def tick(self, now_s: float, wall_ns: int, sample: Sample) -> list[tuple[Gpu, Event]]:
        """Take a sample of all GPUs and return whose alarms begin or end.

        Args:
            now_s: time, of a clock that only grows.
            wall_ns: ns since 1970.
            sample: what the source said.
        """
        passed = 0.0 if self._last_s is None else now_s - self._last_s
        self._last_s = now_s
        self.state = sample.state
        events = []
        for gpu in sample.gpus:
            watched = self._of(gpu)
            reading = sample.of(gpu)
            watched.window.add(wall_ns, reading)
            self._spend(watched, now_s, passed, reading)
            self._meet(watched, now_s, reading)
            if watched.alarm is not None:
                event = watched.alarm.see(now_s, _observed(watched, reading))
                events += [(gpu, event)] if event else []
        return events

    def _of(self, gpu: Gpu) -> _Watched:
        watched = self._gpus.get(gpu.key)
        if watched is None:
            asked = self.asked
            last_s = asked.look_s if asked.once else asked.last_s
            limits = Limits(asked.floor, asked.window_s, asked.grace_s, asked.interval_s, asked.held_only)
            watched = self._gpus[gpu.key] = _Watched(
                gpu,
                Window(round(last_s / asked.interval_s) + 1, last_s),
                Course(self.start_s, asked.interval_s),
                Alarm(limits, self.start_s) if asked.alarming else None,
                price(gpu, asked.price),
            )
        watched.gpu = gpu  # its number may have changed, and whether it is split
        return watched

    def _spend(self, watched: _Watched, now_s: float, passed_s: float, reading: Reading | None) -> None:
        """Count the time since the last sample by what this one says; what nobody watched is unknown."""
        busy = None if reading is None else reading.utilization_percent
        if busy is None or not stands_for(passed_s, self.asked.interval_s):
            watched.unknown_s += passed_s
            watched.course.add(now_s, passed_s, None)
        else:
            share = min(busy, 100.0) / 100
            watched.known_s += passed_s
            watched.idle_s += passed_s * (1 - share)
            watched.course.add(now_s, passed_s, share)

    def _meet(self, watched: _Watched, now_s: float, reading: Reading | None) -> None:
        """Find out whose processes are on a GPU, when they change and now and then."""
        occupants = None if reading is None else reading.occupants
        pids = None if occupants is None else tuple(one.pid for one in occupants)
        if pids == watched.pids and now_s < watched.renewed_s + RENEW_S:
            return
        watched.pids, watched.renewed_s = pids, now_s
        watched.jobs = None if pids is None else self.jobs.of(pids, now_s)
        watched.exempt = bool(watched.jobs) and all(job.matches(self.asked.exempt) for job in watched.jobs or ())
        if len(self.jobs) > MOST_PROCESSES:
            self.jobs.forget({pid for one in self._gpus.values() for pid in one.pids or ()})

    def status(self) -> tuple[Status, ...]:
        """Return what is said of each GPU, by index."""
        seen = {key: watched.window.seen() for key, watched in self._gpus.items()}
        ordered = sorted(self._gpus.values(), key=lambda one: (one.gpu.index, one.gpu.key))
        return tuple(self._status(watched, seen) for watched in ordered)

    def _status(self, watched: _Watched, seen: Mapping[str, Seen]) -> Status:
        window, gpu = watched.window, watched.gpu
        said = verdict(
            gpu,
            seen[gpu.key],
            window.last,
            watched.jobs,
            floor=self.asked.floor,
            since=clock(window.unknown_since) if window.unknown_since is not None else "",
            state=self.state,
            peers=self._peers(watched, seen),
        )
        return Status(
            gpu,
            said,
            seen[gpu.key],
            window.last,
            watched.jobs,
            watched.spent,
            self.hints.get(gpu.key, "") if said.kind == "waits" else "",
            window.unknown_since,
            None if watched.alarm is None else watched.alarm.firing_since is not None,
        )

    def _peers(self, watched: _Watched, seen: Mapping[str, Seen]) -> Sequence[Seen]:
        """Return the windows of the GPUs on which the same jobs are, of one model: they do the same work."""
        if not watched.jobs:
            return ()
        keys = {job.key for job in watched.jobs}
        return [
            seen[key]
            for key, other in self._gpus.items()
            if other.gpu.name == watched.gpu.name and {job.key for job in other.jobs or ()} == keys
        ]

    def windows(self) -> dict[str, Window]:
        """Return the windows by `Gpu.key`, for whoever judges their curves."""
        return {key: watched.window for key, watched in self._gpus.items()}

    def courses(self) -> dict[str, Course]:
        """Return how busy each was since the watch began, by `Gpu.key`."""
        return {key: watched.course for key, watched in self._gpus.items()}


def _observed(watched: _Watched, reading: Reading | None) -> Observed:
    if reading is None or reading.utilization_percent is None:
        return Observed(None)
    holders = None if watched.jobs is None else tuple(sorted(job.key for job in watched.jobs))
    return Observed(min(reading.utilization_percent, 100.0) / 100, reading.held, holders, watched.exempt)


def price(gpu: Gpu, given: float | None) -> float | None:
    """Return US dollars per hour: as given, else the list price; None where neither is known."""
    if given is not None:
        return given
    listed = list_price(gpu.name)
    return None if listed is None else listed.usd_per_gpu_hour
