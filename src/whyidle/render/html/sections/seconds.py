"""Where each second of the GPU goes, as a table that adds up, and how busy each device is."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.finding import Report, Summary
from whyidle.render.bars import MEANINGS
from whyidle.render.headline import device_name
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
    per_step: str
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
        step=_step(summary),
        hourly=None if summary.cost is None else summary.cost.usd_per_gpu_hour * summary.cost.gpus,
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
    step, cost = _step(summary), summary.cost
    of_gpu = summary.gpu_idle_share is not None or summary.curve_idle_share is not None
    return Row(
        part,
        _meaning(part.label, of_gpu),
        duration(part.share * step) if step else "",
        "" if cost is None or not of_gpu else money(part.share * cost.usd_per_gpu_hour * cost.gpus),
    )


def _step(summary: Summary) -> float | None:
    """Return the mean step, which the shares divide; None where they are of traced steps of a longer job."""
    if summary.watched_s is not None and summary.gpu_idle_share is not None:
        return None
    return summary.step_time_mean_s or summary.step_time_s


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
