"""Replays of recordings, and what predicting costs, as plain text of at most 120 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scoring.pairs import Told
from scoring.replayed import FASTER_GPU, FASTER_HOST, Pair, Played, Recordings
from scoring.show import SPREAD, WIDTH, number, spread, table
from scoring.speed import CPU_LIMIT_S, Speed
from whyidle.model.finding import Estimate


def recordings(score: Recordings) -> Iterator[str]:
    yield from ("", f"==== recordings of real jobs, replayed: {len(score.played)} ".ljust(WIDTH, "="))
    rows = [
        (_short(job.path), job.refused, str(job.spread.n), number(job.median, 3), number(job.spread.p95, 2))
        for job in score.played
    ]
    yield from table(("each step as it is: error in percent", "refused", "steps", "median", "p95"), rows, left=2)
    yield from table(("all steps", *SPREAD), [("error in percent", *spread(score.errors))])
    yield f"   median {number(score.median, 3)}%"
    gpu, host = FASTER_GPU.coefficients["factor"], FASTER_HOST.coefficients["factor"]
    head = ("mean step, ms", "queue", "idle", "as it is", f"GPU x{gpu:g}", "ratio", f"host x{host:g}", "ratio")
    yield from table(head, [_played(job) for job in score.played if not job.refused])
    yield "   (host): the GPU waits for the host most of the time, so that a faster GPU has to change little"
    pairs = [_pair(pair) for pair in score.pairs]
    yield from table(
        ("median step, ms", "refused", "0 workers", "predicted", "80%", "4 workers", "error", "naive"), pairs, left=2
    )
    sizes = [
        (
            str(grown.size),
            grown.why_not,
            number(grown.predicted_us, 1),
            number(grown.recorded_us, 1),
            _signed(grown.error),
        )
        for grown in score.grown
    ]
    of = ("us of the GPU per sample in a batch of 512, from", "refused", "predicted", "recorded", "error")
    yield from table(of, sizes, left=2)


def watched(told: Iterable[Told]) -> Iterator[str]:
    rows = [
        (
            f"{one.cure.pair}: {one.cure.rule}",
            one.why_not,
            number(1e3 * one.was, 1),
            *_range(one.predicted_mean),
            number(1e3 * one.mean, 1),
            _signed(one.error),
            _signed(one.saving_error),
        )
        for one in told
    ]
    head = ("mean step of a watched job, ms", "not priced", "before", "predicted", "80%", "cured", "error", "of saving")
    yield from table(head, rows, left=2)


def _range(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "-", "-"
    return number(1e3 * estimate.likely, 1), f"{1e3 * estimate.low:.0f}–{1e3 * estimate.high:.0f}"


def _signed(error: float | None) -> str:
    return "-" if error is None else f"{error:+.1%}"


def _short(path: str) -> str:
    return path.removeprefix("kineto/")[:60]


def _played(job: Played) -> tuple[str, ...]:
    def ratio(ms: float | None) -> str:
        return number(ms / job.base_ms if ms is not None and job.base_ms else None)

    return (
        _short(job.path) + (" (host)" if job.bound_by_the_host else ""),
        str(job.queue),
        number(job.idle_share),
        number(job.base_ms, 1),
        number(job.faster_gpu_ms, 1),
        ratio(job.faster_gpu_ms),
        number(job.faster_host_ms, 1),
        ratio(job.faster_host_ms),
    )


def _pair(pair: Pair) -> tuple[str, ...]:
    return (
        _short(pair.path),
        pair.why_not,
        number(pair.before_ms, 1),
        number(pair.predicted_ms, 1),
        f"{number(pair.low_ms, 0)}–{number(pair.high_ms, 0)}",
        number(pair.after_ms, 1),
        _signed(pair.error),
        _signed(pair.naive_error),
    )


def speed(score: Speed) -> Iterator[str]:
    yield from ("", "==== what predicting costs ".ljust(WIDTH, "="))
    rows = [
        (
            str(cost.steps),
            f"{cost.launches_per_step:.0f}",
            f"{cost.events:,}",
            f"{cost.rules}",
            f"{cost.priced} of {cost.fixes}",
            number(cost.cpu_s),
            number(cost.cpu_s_without),
            number(cost.predicting_s),
            number(cost.peak_mb, 0),
            number(cost.peak_mb_without, 0),
            number(cost.bytes_per_event, 0),
        )
        for cost in score.costs
    ]
    head = (
        "steps",
        "launches",
        "events",
        "findings",
        "priced",
        "CPU s",
        "without",
        "predicting",
        "MB",
        "without",
        "B/event",
    )
    yield from table(head, rows)
    met = "met" if score.slowest_s <= CPU_LIMIT_S else "NOT MET"
    yield f"   predicting takes at most {CPU_LIMIT_S:g} s: {score.slowest_s:.1f} s, {met}"
