"""The kinds of jobs whose curves we write: what is wrong, in which shape it shows, and what it is caused by.

Each is made so that its wrong costs about the share of the time that is asked for; what it really costs is measured
from the job afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from world.curves.sampling import SW_POWER_CAP, SW_THERMAL
from world.curves.signal import Floats
from world.curves.training import Training

STARTUP_S = (3.0, 12.0)  # until the first step, where that is nothing to speak of
OWN_WAIT = 0.01  # of the step that every job waits


@dataclass(frozen=True, slots=True)
class Frame:
    """What is decided before the job: how long it is looked at, how often it is read, how much is lost."""

    seconds: float
    interval_s: float
    gpus: int
    severity: float
    rng: Generator

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def steps(self, step_s: float) -> Floats:
        """Return how long each rank computes in each step, (n, g), enough of them for the whole recording.

        Steps of a job differ by 0.3% to 5%: the steadier, the longer their alias looks like a period.
        """
        n, jitter = int(1.2 * self.seconds / step_s) + 8, self.between(0.003, 0.05)
        each = step_s * np.maximum(1 + jitter * self.rng.normal(size=(n, 1)), 0.3)
        return np.asarray(each * (1 + 0.004 * self.rng.normal(size=(n, self.gpus))))


@dataclass(frozen=True, slots=True)
class Made:
    """A job, how long its pattern takes to come again (None: it has none) and how long its dips are, s."""

    training: Training
    period_s: float | None = None
    dip_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job. `part`: in which part of a rank's time its loss lies; "" where that is no idle time."""

    name: str
    shape: str  # the class of curve.*; "" for a job that is well
    cause: str  # by the taxonomy; "" where no rule but the shape's own speaks of it
    make: Callable[[Frame], Made]
    part: str = ""
    gpus: tuple[int, ...] = (1, 2, 4, 8)
    tables: tuple[str, ...] = ("dmon", "query", "dcgm", "minutes", "cloudwatch")
    intervals: tuple[float, float] = (0.0, 60.0)  # s: read that often, its shape can be seen
    also: tuple[str, ...] = ()  # shapes and rules that tell the same
    least: float = 0.0  # it costs that much at least, whatever is asked


def plain(frame: Frame, compute: Floats, data: Floats | None = None, pause: Floats | None = None) -> Training:
    """Return a job that computes so, with a short start."""
    n = len(compute)
    waits = OWN_WAIT * compute if data is None else np.broadcast_to(data, compute.shape)
    return Training(
        frame.seconds, frame.between(*STARTUP_S), waits, compute, np.zeros(n) if pause is None else pause,
        turned=tuple(range(frame.gpus)), memory=frame.between(0.5, 0.95),
    )  # fmt: skip


def waiting(frame: Frame, step_s: float, share: float) -> Training:
    """Return a job of which every step waits for its batch for this share, on all ranks about as long."""
    compute, jitter = frame.steps((1 - share) * step_s), frame.between(0.01, 0.15)
    noise = np.maximum(1 + jitter * frame.rng.normal(size=(len(compute), 1)), 0.1)
    return plain(frame, compute, share * step_s * noise * (1 + 0.03 * frame.rng.normal(size=compute.shape)))


def disturbed(frame: Frame, made: Made) -> Made:
    """Return the job with what every real one has, too: it stops for 0.3 to 3 s every few minutes, below 1% in all."""
    lasts = frame.between(0.3, 3.0)
    at = np.arange(1, frame.seconds / (every := frame.between(110, 200) * lasts)) * every
    steps = np.searchsorted(made.training.starts_s, at)
    steps = steps[steps < len(made.training.pause)]
    pause = made.training.pause.copy()
    pause[steps] += lasts
    by = {**dict.fromkeys(steps.tolist(), "checkpoint"), **made.training.paused_by}
    return replace(made, training=replace(made.training, pause=pause, paused_by=by))


def stopped(frame: Frame, step_s: float, at: Floats, lengths: Floats, by: str) -> Training:
    """Return a job that stops at these times of its own work (s, without stops), each for so long.

    `by` is what it stops for: a checkpoint or an evaluation after the step, else "" for a batch that does not come.
    """
    compute = frame.steps(step_s)
    stop = np.zeros(len(compute))
    after = np.minimum(np.searchsorted(np.cumsum(compute.max(axis=1) * (1 + OWN_WAIT)), at), len(compute) - 1)
    np.add.at(stop, after, lengths)
    if not by:
        return plain(frame, compute, OWN_WAIT * compute + stop[:, None])
    return replace(plain(frame, compute, pause=stop), paused_by=dict.fromkeys(after.tolist(), by))


def healthy(frame: Frame) -> Made:
    return Made(plain(frame, frame.steps(frame.between(0.1, 8.0))))


def healthy_irregular(frame: Frame) -> Made:
    """Steps of very different length, and the GPU computes all the while; hard work is held at the power limit."""
    compute = frame.steps(frame.between(0.2, 2.0))
    lengths = frame.rng.lognormal(-0.18, 0.6, size=(len(compute), 1))  # 1 in the mean
    return Made(replace(plain(frame, compute * lengths), reason=SW_POWER_CAP, clock=0.93))


def startup(frame: Frame) -> Made:
    made = plain(frame, frame.steps(frame.between(0.2, 3.0)))
    return Made(replace(made, startup_s=frame.severity * frame.seconds))


def long_steps(frame: Frame) -> Made:
    step = frame.between(max(6 * frame.interval_s, 4.0), max(10 * frame.interval_s, 30.0))
    return Made(waiting(frame, step, frame.severity), step, frame.severity * step)


def short_steps(frame: Frame) -> Made:
    step = frame.between(0.1, 1.4)
    return Made(waiting(frame, step, frame.severity), step, frame.severity * step)


def launch_bound(frame: Frame) -> Made:
    made = plain(frame, frame.steps(frame.between(0.05, 0.6)))
    return Made(replace(made, density=1 - frame.severity))


def bursts(frame: Frame) -> Made:
    """Workers deliver a batch each at once, then all are awaited: idle once in as many steps as there are workers."""
    workers = int(frame.rng.choice((4, 8, 16)))
    period = frame.between(max(6 * frame.interval_s, 6.0), max(10 * frame.interval_s, 25.0))
    compute = frame.steps((1 - frame.severity) * period / workers)
    data = np.where(np.arange(len(compute)) % workers == 0, frame.severity * period, 0.0)
    noise = np.maximum(1 + 0.08 * frame.rng.normal(size=len(compute)), 0.2)
    return Made(plain(frame, compute, (data * noise)[:, None]), period, frame.severity * period)


def pauses(by: str, least_s: float) -> Callable[[Frame], Made]:
    """Return how to make jobs that stop at a regular interval; without `by` for the first batch of an epoch."""

    def make(frame: Frame) -> Made:
        period = frame.between(min(max(6 * frame.interval_s, least_s), frame.seconds / 8), frame.seconds / 7)
        dip = frame.severity * period
        at = np.arange(1, frame.seconds / (period - dip)) * (period - dip)
        lengths = dip * np.maximum(1 + 0.05 * frame.rng.normal(size=len(at)), 0.2)
        return Made(stopped(frame, frame.between(0.15, 1.5), at, lengths, by), period, dip)

    return make


def irregular(frame: Frame) -> Made:
    """Storage stalls now and then, for seconds to minutes, on all ranks."""
    mean = max(6.0, 1.5 * frame.interval_s)
    count = max(round(frame.severity * frame.seconds / mean), 2)
    lengths = frame.rng.lognormal(0, 0.7, size=count)
    lengths *= frame.severity * frame.seconds / lengths.sum()
    at = frame.rng.uniform(0, (1 - frame.severity) * frame.seconds, size=count)
    return Made(stopped(frame, frame.between(0.15, 1.0), np.sort(at), lengths, ""), None, mean)


def small_kernels(frame: Frame) -> Made:
    made = plain(frame, frame.steps(frame.between(0.1, 1.0)))
    return Made(replace(made, sm=0.85 * (1 - frame.severity - 0.25), tensor=0.06))


def fp32(frame: Frame) -> Made:
    return Made(replace(plain(frame, frame.steps(frame.between(0.1, 1.0))), sm=0.9, tensor=0.0))


def spinning(frame: Frame) -> Made:
    """A slow network: kernels of collectives spin for most of the step."""
    made = plain(frame, frame.steps(frame.between(0.2, 2.0)))
    return Made(replace(made, sm=0.85 * (1 - frame.severity - 0.3), tensor=0.12))


def input_straggler(frame: Frame) -> Made:
    step, late = frame.between(0.3, 2.0), int(frame.rng.integers(frame.gpus))
    compute = frame.steps((1 - frame.severity) * step)
    data = OWN_WAIT * compute
    data[:, late] = frame.severity * step
    return Made(plain(frame, compute, data), step)


def slow_gpu(frame: Frame) -> Made:
    """One GPU is held below its clock; the others spin until it is there, and all show 100%."""
    slow = int(frame.rng.integers(frame.gpus))
    compute = frame.steps(frame.between(0.2, 1.5))
    compute[:, slow] /= 1 - frame.severity
    made = replace(plain(frame, compute), turns_s=0.0, turned=(slow,), reason_after=SW_POWER_CAP)
    return Made(replace(made, clock_after=0.97 * (1 - frame.severity)))


def throttled(reason: int) -> Callable[[Frame], Made]:
    """Return how to make jobs whose GPUs lose clock at some time, for good."""

    def make(frame: Frame) -> Made:
        turns = frame.between(0.2, 0.4)
        rate = 1 - frame.severity / (1 - turns)
        made = plain(frame, frame.steps(frame.between(0.2, 1.5)))
        slow = made.starts_s >= turns * frame.seconds
        made = replace(made, compute=np.where(slow[:, None], made.compute / rate, made.compute))
        return Made(replace(made, turns_s=turns * frame.seconds, clock_after=0.97 * rate, reason_after=reason))

    return make


def cache_lost(frame: Frame) -> Made:
    """From some time on batches come from the disk: every step waits."""
    turns = frame.between(0.25, 0.5)
    share = frame.severity / (1 - turns)
    made = plain(frame, frame.steps(frame.between(0.15, 0.6)))
    late = made.starts_s >= turns * frame.seconds
    wait = np.where(late[:, None], made.compute.mean() * share / (1 - share), made.data)
    return Made(replace(made, data=np.broadcast_to(wait, made.compute.shape)))


def neighbour(frame: Frame) -> Made:
    """Another process comes to the GPU: it takes memory and what was idle, and slows every step."""
    turns = frame.between(0.2, 0.4)
    rate = 1 - frame.severity / (1 - turns)
    made = plain(frame, frame.steps(frame.between(0.1, 0.5)))
    slow = made.starts_s >= turns * frame.seconds
    return Made(
        replace(
            made, compute=np.where(slow[:, None], made.compute / rate, made.compute),
            density=frame.between(0.6, 0.8), density_after=1.0, turns_s=turns * frame.seconds,
            memory=0.45, memory_after=0.85, sm=0.7,
        )
    )  # fmt: skip


def held(frame: Frame) -> Made:
    made = plain(frame, frame.steps(frame.between(0.2, 2.0)))
    return Made(replace(made, stops_s=(1 - frame.severity) * frame.seconds))


FAST = (0.0, 5.0)
TABLES = ("dmon", "query")
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("healthy", "", "", healthy),
        Kind("healthy_irregular", "", "", healthy_irregular),
        Kind("startup", "curve.startup", "pause.startup", startup, "startup"),
        Kind("long_steps", "curve.sawtooth", "input.workers_too_few", long_steps, "data", intervals=FAST),
        Kind("short_steps", "curve.flat_low", "input.workers_too_few", short_steps, "data"),
        Kind("launch_bound", "curve.flat_low", "host.launch_bound", launch_bound, "compute"),
        Kind("bursts", "curve.sawtooth", "input.workers_too_few", bursts, "data", intervals=FAST),
        Kind("checkpoint", "curve.sawtooth", "pause.checkpoint_sync", pauses("checkpoint", 60.0), "pause"),
        Kind("evaluation", "curve.sawtooth", "pause.evaluation", pauses("evaluation", 90.0), "pause"),
        Kind("epochs", "curve.sawtooth", "input.worker_startup", pauses("", 40.0), "data"),
        Kind("irregular", "curve.fluctuating", "input.storage", irregular, "data", (1,)),
        Kind("irregular_ranks", "curve.correlated_dips", "input.storage", irregular, "data", (2, 4, 8),
             also=("curve.fluctuating",)),
        Kind("small_kernels", "curve.hollow", "compute.underfilled", small_kernels, tables=("dcgm",)),
        Kind("fp32", "curve.hollow", "compute.fp32_no_tensorcore", fp32, tables=("dcgm",), least=0.3),
        Kind("spinning", "curve.hollow", "dist.net_socket", spinning, "", (2, 4, 8), ("dcgm",)),
        Kind("input_straggler", "curve.lagging_gpu", "dist.input_straggler", input_straggler, "spin", (4, 8),
             ("dmon", "query", "dcgm", "minutes")),
        Kind("slow_gpu", "curve.lagging_gpu", "hw.power_cap", slow_gpu, "spin", (4, 8), TABLES, also=("hw.power_cap",)),
        Kind("hot", "curve.step_change", "hw.thermal", throttled(SW_THERMAL), tables=TABLES, also=("hw.thermal",)),
        Kind("capped", "curve.step_change", "hw.power_cap", throttled(SW_POWER_CAP), tables=TABLES,
             also=("hw.power_cap",)),
        Kind("cache_lost", "curve.step_change", "input.storage", cache_lost, "data"),
        Kind("neighbour", "curve.step_change", "hw.gpu_shared", neighbour, tables=TABLES,
             also=("curve.flat_low",)),
        Kind("held", "curve.idle_held", "", held, "held"),
    )
}  # fmt: skip
