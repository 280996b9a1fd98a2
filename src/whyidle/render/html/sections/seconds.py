"""Where each second of the GPU goes, as a table that adds up, and how busy each device is."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.finding import Report, Summary
from whyidle.render.bars import MEANINGS
from whyidle.render.headline import device_name, filling_step
from whyidle.render.html.bar import Part, device_parts, host_parts, parts_of
from whyidle.render.html.section import Section, filled
from whyidle.render.phases import HOST_TIMES, meanwhile
from whyidle.render.words import duration, money, percent

FEW = 16  # devices that are all shown; of more, the least and the most busy
ENDS = 5  # of each


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    part: Part
    meaning: str
    time: str
    per_hour: str


@dataclass(frozen=True, slots=True)
class Device:
    """How busy a device is."""

    name: str
    busy_share: float
    parts: tuple[Part, ...]


def section(report: Report) -> Section | None:
    """Return the table, and the devices; None where nothing is known of either."""
    summary = report.summary
    parts, devices = parts_of(report), devices_of(report)
    if not report.judged or not (devices or (parts and not report.run.only_curves)):
        return None
    of_gpu = summary.gpu_idle_share is not None or report.run.only_curves
    title = "Where each GPU second goes" if of_gpu else "Where each step goes"
    title = "How busy each GPU is" if report.run.only_curves else title
    ranked = sorted(devices, key=lambda device: device.busy_share)
    html = filled(
        "seconds",
        rows=[] if report.run.only_curves else [_row(part, summary) for part in parts],
        devices=devices,
        least=ranked[:ENDS] if len(devices) > FEW else [],
        most=ranked[-ENDS:] if len(devices) > FEW else [],
        median=ranked[len(ranked) // 2].busy_share if ranked else 0.0,
        host=host_parts(report) if summary.gpu_idle_share is not None else (),
        meanwhile=meanwhile(summary) if summary.on_gpu and summary.host_shares else "",
        host_times=HOST_TIMES,
        beside=_beside(summary),
        whole=_whole(summary),
        hourly=_hourly(summary),
    )
    return Section("seconds", title, html, "GPUs" if report.run.only_curves else "Time")


def devices_of(report: Report) -> list[Device]:
    """Return the devices by their names where there are several."""
    devices = report.summary.devices
    if len(devices) < 2:
        return []
    picture = report.picture
    return [Device(device_name(one, devices), one.busy_share, device_parts(one, picture)) for one in devices]


def _row(part: Part, summary: Summary) -> Row:
    whole, hourly = _whole(summary), _hourly(summary)
    return Row(
        part,
        _meaning(part.label, summary.gpu_idle_share is not None),
        duration(part.share * whole[1]) if whole is not None else "",
        "" if hourly is None else money(part.share * hourly),
    )


def _whole(summary: Summary) -> tuple[str, float] | None:
    """Return what the shares divide: the mean step, or where steps do not fill the time all of that."""
    if step := filling_step(summary):
        return "Of the mean step", step
    traced = summary.gpu_idle_share is not None
    seconds = summary.window_s if traced else summary.watched_s
    head = "Of the traced steps" if traced and summary.watched_s is not None else "Of the time recorded"
    return (head, seconds) if seconds else None


def _hourly(summary: Summary) -> float | None:
    """Return what all GPUs cost per hour; None where shares divide something else: the host, some of a run's steps."""
    if summary.cost is None or summary.gpu_idle_share is None or summary.paid_idle_share != summary.gpu_idle_share:
        return None
    return summary.cost.usd_per_gpu_hour * summary.cost.gpus


def _meaning(label: str, of_gpu: bool) -> str:
    if not of_gpu:
        return ""
    if label == "busy":
        return "A kernel, a copy or a memset runs; collectives count, also while they wait for a peer."
    if label == "other":
        return "Causes too small for a line of their own."
    meaning = MEANINGS.get(label, "")  # each goes on from the first, of the thread that launches kernels
    return f"The launching thread {meaning[3:]}" if meaning.startswith("It ") else meaning


def _beside(summary: Summary) -> list[tuple[str, str, str]]:
    """Return how the busy time is used, where that was measured; all else stands with what was judged."""
    told = []
    if summary.mfu is not None:
        told.append(
            ("Model FLOP utilization", percent(summary.mfu), f"of {summary.mfu_peak}" if summary.mfu_peak else "")
        )
    if summary.tensor_core_share is not None:
        told.append(("On tensor cores", percent(summary.tensor_core_share), "of matrix products and convolutions"))
    if summary.collective_exposed_share:
        told.append(("Collectives alone", percent(summary.collective_exposed_share), "of the time"))
    if summary.collective_wait_share:
        told.append(("Waiting for a peer", percent(summary.collective_wait_share), "of the time, in collectives"))
    return told
