"""Bars as SVG: positions in percent, colours by class, so that a page needs no style attribute to draw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whyidle.model.finding import DeviceBusy, Report
from whyidle.model.picture import Picture
from whyidle.render.bars import Bar, whole
from whyidle.render.palette import COLORS, slug
from whyidle.render.phases import WORK, color_of, host_bars, phase_of
from whyidle.render.words import rounded

# A bar is as wide as this at least where labels stand beneath its parts; on a narrower page they stand in its key.
WIDE = 700  # px
_AGREE = 0.005  # of the window: what is drawn as idle and what was measured differ by less, or is not of one window
LETTER = 7.6  # px, of a label's characters, the widest of common typefaces


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a stacked bar."""

    label: str
    share: float  # of the whole
    percent: int  # parts add up to 100
    start: float  # share of the drawing that lies before it
    width: float  # of the drawing: where small parts are left out, those that stay fill it all the same
    color: str  # what gives it: a group of causes, "busy" or "other"
    css: str  # the class of that
    labelled: bool  # there is room for its label beneath it

    @property
    def said(self) -> str:
        """Return the percentage as it is shown."""
        return rounded(self.share, f"{self.percent}%")


def parts_of(report: Report) -> tuple[Part, ...]:
    """Return where the time goes: of the GPU, busy first; of a job that was only watched, of its step."""
    summary = report.summary
    idle = summary.gpu_idle_share
    if idle is not None and report.judged and not report.run.only_curves:
        return tuple(_whole(whole(idle, summary.idle_by_cause)))
    if summary.host_shares and report.judged:
        return tuple(_whole(host_bars(summary.host_shares)))
    if (share := summary.curve_idle_share) is not None and report.judged:
        idle_percent = round(share * 100)
        return tuple(_whole([Bar("busy", 1 - share, 100 - idle_percent), Bar("idle", share, idle_percent)]))
    return ()


def device_parts(device: DeviceBusy, picture: Picture | None) -> tuple[Part, ...]:
    """Return where one device's time goes: by cause where its timeline was drawn whole, else busy and the rest."""
    idle = 1 - device.busy_share
    by_cause = _causes_of(device, picture)
    if by_cause:
        return tuple(_whole(whole(idle, by_cause)))
    return tuple(_stacked([Bar("busy", device.busy_share, round(100 * device.busy_share))]))


def _causes_of(device: DeviceBusy, picture: Picture | None) -> dict[str, float]:
    """Return the idle time by cause, as shares of the window; empty unless all of it is drawn, of this device alone."""
    mine = [timeline for timeline in (picture.timelines if picture else ()) if timeline.rank == device.rank]
    lanes = [(lane, timeline) for timeline in mine for lane in timeline.lanes if lane.kind == "idle"]
    if device.rank is None or len(lanes) != 1 or len(lanes[0][0]) < lanes[0][0].count or device.window_s <= 0:
        return {}
    lane, timeline = lanes[0]
    seconds = np.bincount(lane.name, weights=(lane.end - lane.start) / 1e9, minlength=1)
    by_cause = {timeline.names[code]: total / device.window_s for code, total in enumerate(seconds) if total > 0}
    told = abs(sum(by_cause.values()) - (1 - device.busy_share)) <= _AGREE
    return {cause: float(share) for cause, share in by_cause.items()} if told else {}


def _whole(shown: Sequence[Bar]) -> Iterator[Part]:
    """Yield parts that fill the drawing: what is too small to be told leaves no hole at its end."""
    return _stacked(shown, sum(bar.share for bar in shown))


def _stacked(shown: Iterable[Bar], drawn: float = 1.0) -> Iterator[Part]:
    start = 0.0
    for bar in shown:
        width, text = bar.share / (drawn or 1.0), max(len(bar.label), len(bar.said))
        room = width * WIDE >= text * LETTER + 8
        yield Part(bar.label, bar.share, bar.percent, start, width, *color_and_class(bar.label), room)
        start += width


def color_and_class(label: str) -> tuple[str, str]:
    """Return what gives a part its colour, which is a group of causes or a phase of a step, and its class."""
    if label in COLORS or label == "busy":
        return label, f"c-{slug(label)}"
    phase = phase_of(label)
    color = color_of(phase)
    return color, f"c-{slug(color)}" + (f" w-{phase}" if phase in WORK else "")


def host_parts(report: Report) -> tuple[Part, ...]:
    """Return what the training thread of a watched job does."""
    return tuple(_whole(host_bars(report.summary.host_shares))) if report.summary.host_shares else ()
