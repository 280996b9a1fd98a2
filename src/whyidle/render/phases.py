"""The picture of a step: what the training thread does in it, and in which of its waits the GPU idles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from whyidle.model.finding import Summary
from whyidle.render.bars import Bar, bar_line
from whyidle.render.lines import LABEL, hang
from whyidle.render.palette import style
from whyidle.render.words import percent, percents

# In the order of a step.
LABELS: Final[Mapping[str, str]] = {
    "data": "waiting for data",
    "start": "starting workers",
    "environment": "environment",
    "prepare": "copies, preparing",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "save": "checkpoint",
    "evaluation": "evaluation",
    "gc": "garbage collection",
    "other": "other",
}
# Those in which the host does not drive the GPU, each with the group of causes whose colour it has.
WAITS: Final[Mapping[str, str]] = {
    "data": "waiting for data",
    "start": "waiting for data",
    "environment": "waiting for data",
    "save": "checkpoint",
    "evaluation": "evaluation",
    "gc": "garbage collection",
}
# In these the host drives the GPU: they have the colour of what is busy.
WORK: Final = frozenset(("forward", "backward", "optimizer"))
SMALLEST: Final = 0.005  # of the time: what is smaller is part of "other"
HOST_TIMES: Final = (
    "times are the host's: what it launches runs on the GPU later, and it may wait for the GPU in any phase"
)
NAMED: Final = 0.01  # of the time, in a line


def phases(summary: Summary, width: int) -> Iterator[Text]:
    """Yield where the host's time goes: bars, or one line where there is a picture of the GPU already."""
    if not summary.host_shares:
        return
    shown = host_bars(summary.host_shares)
    yield Text()
    if summary.gpu_idle_share is not None:
        yield from hang(Text("  host    "), Text(in_a_line(shown)), width)
    else:
        length = min(width - LABEL - 8, 50)
        for index, bar in enumerate(shown):
            wait = WAITS.get(phase_of(bar.label))
            yield bar_line("" if index else "step", bar, length, "busy" if wait is None else style(wait))
    if summary.on_gpu:
        yield from _of_these(summary, width)


def in_a_line(shown: Sequence[Bar]) -> str:
    """Return the phases that take most: "forward 52% · backward 30%"."""
    ranked = sorted((bar for bar in shown if bar.share >= NAMED), key=lambda bar: -bar.share)
    return " · ".join(f"{bar.label} {bar.said}" for bar in ranked)


def _of_these(summary: Summary, width: int) -> Iterator[Text]:
    """Yield in which of these waits the GPU idles: only there they are a cause, elsewhere the host just blocks."""
    yield from hang(Text("  GPU idle meanwhile  ", style="dim"), Text(meanwhile(summary)), width)
    yield from hang(Text("  "), Text(HOST_TIMES, style="dim"), width)


def meanwhile(summary: Summary) -> str:
    """Return in which of the host's waits the GPU idles."""
    lost = summary.lost_shares
    data = sum(share for name, share in lost.items() if name.startswith("data"))
    others = {"checkpoint": lost.get("save", 0.0), "evaluation": lost.get("evaluation", 0.0)}
    if {"data_workers", "data_other"} <= lost.keys():
        parts = [f"waiting for data {percent(data)}"]
    else:
        parts = ["waiting for data not measured: the host may just block there while the GPU works"]
    return " · ".join([*parts, *(f"{label} {percent(share)}" for label, share in others.items() if share >= SMALLEST)])


def phase_of(label: str) -> str:
    """Return the phase that a label is of; "" where it is of none."""
    return next((name for name, said in LABELS.items() if said == label), "")


def color_of(phase: str) -> str:
    """Return what gives a phase its colour: a group of causes, "busy", or "other"."""
    return WAITS.get(phase, "busy" if phase in WORK else "other")


def host_bars(shares: Mapping[str, float]) -> list[Bar]:
    """Return the bars in order of a step; small ones are part of "other". They add up to 100%."""
    kept = {name: share for name, share in shares.items() if share >= SMALLEST and name != "other"}
    kept["other"] = max(1.0 - sum(kept.values()), 0.0)
    names = [name for name in LABELS if name in kept]
    known = [kept[name] for name in names]  # "other" is the last
    whole = [round(share * 100) for share in known[:-1]]
    left = 100 - sum(whole)
    # What rounding leaves is of no phase, so that each reads as it does in the verdict.
    fits = left >= 0 and abs(left - known[-1] * 100) < 1
    whole = [*whole, left] if fits else percents(known, 1.0)
    return [Bar(LABELS[name], kept[name], percent) for name, percent in zip(names, whole, strict=True) if percent]
