"""What is known of the GPUs as JSON: of all at a moment, of an alarm with its evidence. What is unknown is null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whyidle.render.words import clean, gpu_name, percent
from whyidle.watch.alarm import Event
from whyidle.watch.asked import Asked
from whyidle.watch.board import Status
from whyidle.watch.jobs import Job
from whyidle.watch.moment import NS_PER_S, iso

VERSION = 1


def everything(statuses: Sequence[Status], state: str, source: str, host: str, wall_ns: int) -> dict[str, Any]:
    """Return what is known of all GPUs.

    Args:
        statuses: of each GPU.
        state: of the source: "ok", or why nothing is known.
        source: who looks: NVML, nvidia-smi.
        host: of this machine.
        wall_ns: now, ns since 1970.
    """
    priced = [one.spent.idle_usd for one in statuses if one.spent.idle_usd is not None]
    return {
        "whyidle_watch": VERSION,
        "time": iso(wall_ns),
        "host": host,
        "source": source,
        "state": clean(state),
        "idle_usd": round(sum(priced), 4) if priced else None,
        "idle_usd_per_hour": usd_per_hour(statuses),
        "gpus": [of_gpu(one) for one in statuses],
    }


def usd_per_hour(statuses: Iterable[Status]) -> float | None:
    """Return what the idle time of the last minutes costs per hour; None where no GPU has a price and is known."""
    costs = [
        (1 - one.seen.busy_share) * one.spent.usd_per_hour
        for one in statuses
        if one.verdict.kind != "unknown" and one.seen.busy_share is not None and one.spent.usd_per_hour is not None
    ]
    return sum(costs) if costs else None


def of_gpu(status: Status) -> dict[str, Any]:
    """Return what is known of one GPU."""
    last, seen, spent = status.last, status.seen, status.spent
    known = status.verdict.kind != "unknown"
    return {
        "gpu": status.gpu.index,
        "uuid": clean(status.gpu.uuid),
        "name": clean(status.gpu.name),
        "verdict": status.verdict.kind,
        "text": status.verdict.text,
        "shape": clean(status.hint) or None,
        "busy_share": seen.busy_share if known else None,
        "zero_share": seen.zero_share if known else None,
        "samples": seen.samples,
        "samples_known": seen.known,
        "unknown_since": None if status.unknown_since is None else iso(status.unknown_since),
        "utilization_percent": last.utilization_percent if last else None,
        "memory_used_bytes": last.memory_used_bytes if last else None,
        "memory_bytes": status.gpu.memory_bytes,
        "power_w": last.power_w if last else None,
        "sm_clock_mhz": last.sm_clock_mhz if last else None,
        "sm_clock_max_mhz": status.gpu.sm_clock_max_mhz,
        "temperature_c": last.temperature_c if last else None,
        "throttle_reasons": last.throttle_reasons if last else None,
        "held": last.held if last else None,
        "jobs": None if status.jobs is None else [of_job(job) for job in status.jobs],
        "usd_per_hour": spent.usd_per_hour,
        "idle_s": round(spent.idle_s, 3),
        "known_s": round(spent.known_s, 3),
        "unknown_s": round(spent.unknown_s, 3),
        "idle_usd": spent.idle_usd,
        "alarm": status.alarm,
    }


def of_job(job: Job) -> dict[str, Any]:
    """Return a job."""
    return {"pids": list(job.pids), "name": clean(job.name), "user": clean(job.user), "label": clean(job.label)}


def of_event(status: Status, event: Event, asked: Asked, host: str, wall_ns: int) -> dict[str, Any]:
    """Return an alarm, or its end, with what shows it; `text` is what chats show of a webhook.

    Args:
        status: of its GPU.
        event: what happened.
        asked: floor and window.
        host: of this machine.
        wall_ns: ns since 1970 of the event.
    """
    name = f"{host} GPU {status.gpu.index}" + (f" ({gpu_name(status.gpu.name)})" if status.gpu.name else "")
    since = wall_ns - round((event.at_s - event.since_s) * NS_PER_S)
    evidence: Mapping[str, Any] = {
        "since": iso(since),
        "busy_share": event.busy_share,
        "samples": event.samples,
        "floor": asked.floor,
        "window_s": asked.window_s,
        "interval_s": asked.interval_s,
    }
    return {
        "whyidle_watch": VERSION,
        "event": event.kind,
        "time": iso(wall_ns),
        "host": host,
        "text": f"{clean(name)}: {_said(status, event, asked)}",
        "cause": status.verdict.cause if event.kind == "alarm" else None,
        "why": event.why or None,
        "evidence": evidence,
        "gpu": of_gpu(status),
    }


def _said(status: Status, event: Event, asked: Asked) -> str:
    if event.kind == "resolved":
        busy = "" if event.busy_share is None else f", {percent(event.busy_share)}"
        return f"resolved, {event.why}{busy}"
    usd = status.spent.usd_per_hour
    cost = "" if usd is None else f", ${usd * (1 - (event.busy_share or 0.0)):.2f} an hour"
    window = f"{asked.window_s / 60:g} min" if asked.window_s >= 60 else f"{asked.window_s:g} s"
    return (
        f"{percent(event.busy_share or 0.0)} busy in the last {window}, below {percent(asked.floor)}{cost}; "
        f"{status.verdict.text}"
    )
