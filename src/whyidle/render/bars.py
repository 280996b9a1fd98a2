"""The bars of the picture: busy time, and idle time in the groups that a person thinks in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from whyidle.model.finding import GROUPS
from whyidle.render.lines import LABEL
from whyidle.render.words import clean, percents, rounded

# What each label means, in the order above; docs/method.md says how its causes are decided.
MEANINGS: Mapping[str, str] = {
    "waiting for data": "The thread that launches kernels is in the DataLoader, or in a range that loads data.",
    "checkpoint": "The launching thread saves a model: torch.save, or a range named for it.",
    "evaluation": "It is in a range named for evaluation or validation, and launches too little there.",
    "logging": "It is in a logger, or in a range named for metrics.",
    "blocking reads": "It waited for the GPU (.item(), synchronize), which ran dry before new work was launched.",
    "memory allocation": "It is in cudaMalloc, cudaFree or their kin.",
    "preparing copies": "It is on the host side of a copy to the GPU: pageable memory, many small tensors.",
    "garbage collection": "Python's garbage collector stops it.",
    "compilation": "torch.compile works, or code for the GPU is loaded at its first use.",
    "host dispatch": "It runs PyTorch or Python code between launches: the host is slower than the GPU.",
    "launch latency": "A launch is under way; each takes some microseconds.",
    "between kernels": "Work is queued: the GPU goes from one kernel to the next, or waits for another stream.",
    "waiting for peers": "A collective is queued and does not start, or data has to come from another GPU first.",
    "stalled queue": "Work is queued, and the GPU does not start it, for no reason that was recorded.",
    "unknown": "The recording does not say, or the profiler itself was at work.",
}

_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the picture."""

    label: str
    share: float  # of the window
    percent: int  # the bars of a picture add up

    @property
    def said(self) -> str:
        """Return the percentage as it is shown."""
        return rounded(self.share, f"{self.percent}%")


def bars(idle_share: float, idle_by_cause: Mapping[str, float], *, most: int = 6, smallest: float = 0.005) -> list[Bar]:
    """Return idle time by group, the longest first; what is small or too many goes into "other".

    Args:
        idle_share: of the window, the whole that the bars add up to.
        idle_by_cause: of the window, by cause.
        most: bars at most, with "other".
        smallest: share of the window below which a group has no bar of its own.
    """
    known = {cause for causes in GROUPS.values() for cause in causes}
    groups = {label: sum(idle_by_cause.get(cause, 0.0) for cause in causes) for label, causes in GROUPS.items()}
    groups |= {cause.replace("_", " "): share for cause, share in idle_by_cause.items() if cause not in known}
    ranked = sorted(groups.items(), key=lambda item: -item[1])
    shown = [(label, share) for label, share in ranked if share >= smallest]
    if len(shown) > most:
        shown = shown[: most - 1]
    other = idle_share - sum(share for _, share in shown)
    if not shown:
        shown, other = [("unknown" if not idle_by_cause else "other", idle_share)], 0.0
    if other > 1e-3:
        shown.append(("other", other))
    whole = percents([share for _, share in shown], idle_share)
    return [Bar(label, share, percent) for (label, share), percent in zip(shown, whole, strict=True) if percent]


def whole(idle_share: float, idle_by_cause: Mapping[str, float]) -> list[Bar]:
    """Return busy time, then idle time by group; together they are 100%."""
    shown = bars(idle_share, idle_by_cause)
    return [Bar("busy", 1 - idle_share, 100 - sum(bar.percent for bar in shown)), *shown]


def draw(share: float, width: int) -> str:
    """Return a bar of at most `width` characters, exact to an eighth of one; never empty for what is there."""
    eighths = max(round(min(max(share, 0.0), 1.0) * width * 8), int(share > 0))
    full, rest = divmod(eighths, 8)
    return "█" * full + _EIGHTHS[rest].strip()


def bar_line(kind: str, bar: Bar, length: int, style: str) -> Text:
    """Return a line of the picture: what it is of, its label, the bar, and its percentage."""
    drawn = f"{draw(bar.share, length):<{length}}"
    head = f"  {kind:<6}{clean(bar.label):<{LABEL - 8}}"
    return Text.assemble(head, (drawn, style), f" {bar.said:>5}")
