"""How well a job uses more GPUs: runs of it on several numbers of them, held against the smallest.

Efficiency is what each GPU does over what each did at the smallest size. With the same batch in all that is strong
scaling, with the same batch per GPU weak scaling; which of them it is, the recorded batch sizes say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Final

from whyidle.compare.doubling import gain
from whyidle.compare.lost import split
from whyidle.compare.sized import GPUS, Point, differences, doubts, kind_of, listed, point_of, sized, units_of
from whyidle.compare.starts import given_twice, ratio_of_means
from whyidle.errors import WhyIdleError
from whyidle.model.arithmetic import scaling_efficiency, usd_per_million_tokens
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Run
from whyidle.model.scaling import Doubling, Kind, Scaling, Size

TOLD: Final = 0.01  # a loss below this is none where nothing tells how much the steps vary (judgement)
WORK: Final = ("samples", "tokens")  # units that a price is told for
MORE: Final = 0.05  # of the GPUs' time: parts of the loss that sum to so much more than all of it (judgement)
OVERLAP: Final = (
    "the parts of the loss are more than all of it: they overlap, or the recorded steps are not like those that count."
)
BEYOND: Final = (
    "more than linear: something else than the number of GPUs differs between these sizes (what fits into memory or a "
    "cache, the batch, the machine), and the next doubling supposes that it stays."
)
RECORD: Final = "record each size with `whyidle run --trace-ranks all`, or all its ranks with torch.profiler"
ON_CPU: Final = "what ranks say to each other on CPUs (gloo) is not measured"
NAMES: Final = {"communication": "communication", "imbalance": "waiting for late ranks", "input": "waiting for data"}


def scaling(
    runs: Sequence[tuple[str, Run]],
    *,
    gpus: Sequence[int] = (),
    kind: Kind | None = None,
    usd_per_gpu_hour: float | None = None,
    printed_each: bool = False,
    force: bool = False,
) -> Scaling:
    """Say how well a job uses more GPUs, by runs of it on several numbers of them; several of one number are repeats.

    Args:
        runs: a path and the evidence of each.
        gpus: on how many each ran, in the same order; empty takes what was recorded.
        kind: strong or weak, where batch sizes were not recorded.
        usd_per_gpu_hour: US dollars; None takes the list price of the GPU.
        printed_each: what trainers printed is of each GPU, not of all together.
        force: answer also where the runs differ in what makes an answer worthless, as the GPU or the model.

    Raises:
        WhyIdleError: fewer than two sizes, runs of different jobs unless forced, or no unit of work in common.
    """
    if gpus and len(gpus) != len(runs):
        raise WhyIdleError(f"{len(gpus)} numbers of GPUs for {len(runs)} runs", GPUS)
    twice = given_twice(path for path, _ in runs)
    if twice is not None:
        raise WhyIdleError(f"{twice} is given twice: each run is another start of the job", "whyidle scaling RUN RUN")
    counts: Sequence[int | None] = gpus or [None] * len(runs)
    found = [
        sized(path, run, count, printed_each=printed_each) for (path, run), count in zip(runs, counts, strict=True)
    ]
    _two_sizes([one.gpus for one in found])
    found.sort(key=lambda one: one.gpus)
    blocks, differs = differences(found)
    if blocks and not force:
        raise WhyIdleError(f"these are no runs of one job: {'; '.join(blocks)}", "--force answers all the same")
    known, why = kind_of(found)
    notes = [*(f"compared all the same, as --force asks: {each}." for each in blocks), *(f"{one}." for one in differs)]
    if known is None and kind is not None:
        known, why = kind, "as you say"
    elif kind not in {None, known}:
        notes.append(f"--kind {kind} is not used: recorded are {why}.")
    unit, units = units_of(found, known)
    by_size = {one.gpus: [pair for pair in zip(found, units, strict=True) if pair[0].gpus == one.gpus] for one in found}
    usd, source = listed(found) if usd_per_gpu_hour is None else (usd_per_gpu_hour, "your price")
    told = scaled([point_of(pairs) for pairs in by_size.values()], unit=unit, usd_per_gpu_hour=usd)
    on_cpu = all(one.run.report.summary.on_gpu is False for one in found)
    told = replace(told, how_to_record=ON_CPU) if on_cpu and told.not_recorded else told
    notes = [*told.warnings, *notes, *doubts(found)]
    return replace(told, kind=known, why_kind=why, price_source=source, warnings=tuple(notes))


def scaling_of(
    throughput: Mapping[int, float], *, unit: str = "samples", usd_per_gpu_hour: float | None = None
) -> Scaling:
    """Say the same by numbers alone.

    Args:
        throughput: by number of GPUs, in `unit` per second, all of them together.
        unit: of work: samples, tokens.
        usd_per_gpu_hour: US dollars.

    Raises:
        WhyIdleError: fewer than two sizes, or numbers that cannot be.
    """
    for gpus, per_s in throughput.items():
        if not 1 <= gpus <= 1e9 or not 1e-12 <= per_s <= 1e15:
            said = f"{per_s:g} {unit} per second on {gpus} GPUs cannot be"
            raise WhyIdleError(said, "--throughput 1=1000,4=2400")
    _two_sizes(list(throughput))
    points = [Point(gpus, Interval(-math.inf, per_s, math.inf)) for gpus, per_s in sorted(throughput.items())]
    told = scaled(points, unit=unit, usd_per_gpu_hour=usd_per_gpu_hour)
    source = "" if usd_per_gpu_hour is None else "your price"
    return replace(told, why_kind="by numbers alone", price_source=source)


def scaled(points: Sequence[Point], *, unit: str, usd_per_gpu_hour: float | None) -> Scaling:
    """Return the answer from what is known of two sizes or more, the smallest first."""
    usd = usd_per_gpu_hour if unit in WORK else None
    sizes = tuple(_size(points[0], point, unit, usd) for point in points)
    cheapest = max(range(len(points)), key=lambda place: (sizes[place].efficiency.likely, -place))
    losses = [size.loss for size in sizes if size.loss is not None]
    missing = tuple(part for part in NAMES if any(getattr(loss, part) is None for loss in losses))
    return Scaling(
        verdict=verdict(sizes),
        kind=None,
        why_kind="batch sizes are not known",
        unit=unit,
        sizes=sizes,
        doubling=_doubling(sizes, usd),
        usd_per_gpu_hour=usd_per_gpu_hour,
        cheapest=sizes[cheapest].gpus,
        dearer_from=next((p.gpus for p in points[cheapest + 1 :] if loses(efficiency(points[cheapest], p))), None),
        not_recorded=missing,
        how_to_record=RECORD if missing else "",
        warnings=tuple(_remarks(sizes)),
    )


def efficiency(base: Point, point: Point) -> Interval:
    """Return what each GPU does, over what each did at the base, with its 95% interval where steps were recorded."""
    if not (base.times and point.times):
        likely = scaling_efficiency(base.throughput.likely, base.gpus, point.throughput.likely, point.gpus)
        return Interval(-math.inf, likely, math.inf)
    if base is point:
        return Interval(1.0, 1.0, 1.0)
    times = ratio_of_means(base.times, point.times)
    scale = scaling_efficiency(base.units, base.gpus, point.units, point.gpus)
    low = times.low if math.isfinite(times.high) else -math.inf
    return Interval(low, times.likely, times.high).scaled(scale)


def _remarks(sizes: Sequence[Size]) -> Iterator[str]:
    """Yield what a reader has to know of the numbers themselves."""
    losses = [size.loss for size in sizes if size.loss is not None]
    if any(loss.unexplained < min(loss.total, 0.0) - MORE for loss in losses):
        yield OVERLAP
    if any(gains(size.efficiency) and size.efficiency.likely > 1 + MORE for size in sizes):
        yield BEYOND


def gains(found: Interval) -> bool:
    """Say whether an efficiency is above 1 by more than the steps vary, or by 1% where nothing tells that."""
    return found.low > 1 if math.isfinite(found.low) else found.likely > 1 + TOLD


def loses(found: Interval) -> bool:
    """Say whether an efficiency is below 1 by more than the steps vary, or by 1% where nothing tells that."""
    return found.high < 1 if math.isfinite(found.high) else found.likely < 1 - TOLD


def verdict(sizes: Sequence[Size]) -> str:
    """Return the answer in one sentence or two."""
    first, last = sizes[0], sizes[-1]
    said = f"{last.gpus:,} GPUs do {last.speedup.likely:.2f}x the work of {first.gpus:,}: "
    said += f"{percent_of(last.efficiency, ' of linear')}."
    if last.loss is None or not loses(last.efficiency):
        return said
    known = {name: getattr(last.loss, part) or 0.0 for part, name in NAMES.items()}
    most = max(known, key=lambda name: known[name])
    if known[most] < max(last.loss.total / 2, TOLD):
        return said
    return f"{said} Most of the loss is {most}: {known[most]:.0%} of the GPUs' time."


def percent_of(share: Interval, of: str = "") -> str:
    """Return "95%" and of what, and where it is known how sure that is, "95% (65%\N{EN DASH}163%)"."""
    told = f"{share.likely:.0%}"
    low, high = (f"{end:.0%}" if math.isfinite(end) else told for end in (share.low, share.high))
    return f"{told}{of}" if low == high else f"{told}{of} ({low}\N{EN DASH}{high})"


def _size(base: Point, point: Point, unit: str, usd: float | None) -> Size:
    share = efficiency(base, point)
    rate = point.throughput.likely
    return Size(
        gpus=point.gpus,
        throughput=point.throughput,
        speedup=share.scaled(point.gpus / base.gpus),
        efficiency=share,
        loss=None if point is base else split(share.likely, base.shares, point.shares),
        paths=point.paths,
        steps=sum(map(len, point.times)) or None,
        step_time_mean_s=mean(float(series.mean()) for series in point.times) if point.times else None,
        batch=point.batch,
        cpus_per_rank=point.cpus_per_rank,
        gpu_hours_per_million=1e6 * point.gpus / rate / 3600 if unit in WORK else None,
        usd_per_million=None if usd is None else usd_per_million_tokens(point.gpus, usd, rate),
    )


def _doubling(sizes: Sequence[Size], usd: float | None) -> Doubling:
    last = sizes[-1]
    more = gain([(size.gpus, size.throughput) for size in sizes])
    rate, gpus = last.throughput.likely, 2 * last.gpus
    return Doubling(
        gpus=gpus,
        throughput=more.scaled(rate),
        gain=more,
        efficiency=more.scaled(last.efficiency.likely / 2),
        sizes=len(sizes),
        usd_per_million=None if usd is None else usd_per_million_tokens(gpus, usd, rate * more.likely),
    )


def _two_sizes(gpus: Sequence[int]) -> None:
    """Refuse to say of one size how a job scales.

    Raises:
        WhyIdleError: for that.
    """
    if len(set(gpus)) < 2:
        said = (
            f"every run here is on {gpus[0]} {'GPU' if gpus[0] == 1 else 'GPUs'}"
            if len(gpus) > 1
            else "there is one run here"
        )
        raise WhyIdleError(f"{said}: scaling takes two sizes or more", "whyidle scaling RUN_ON_1 RUN_ON_4")
