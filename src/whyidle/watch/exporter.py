"""Lets Prometheus scrape what is known of the GPUs. A GPU of which nothing is known has no series: it is not 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from whyidle.errors import WhyIdleError
from whyidle.render.words import clean
from whyidle.watch.board import Status
from whyidle.watch.report import usd_per_hour

GPU = ("gpu", "uuid", "name")
Snapshot = tuple[str, Sequence[Status]]  # state of the source, what is said of each GPU


class Exporter(Collector):
    """Serves `/metrics` in a thread.

    Args:
        host, port: where to listen; port 0 takes a free one.
        snapshot: what is known now; called from another thread, for every scrape.

    Raises:
        WhyIdleError: where nobody can listen.
    """

    def __init__(self, host: str, port: int, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise WhyIdleError(f"cannot listen on {host}:{port}: {why}", "--listen 0 takes a free port") from None
        self.port: int = self._server.server_port

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what Prometheus scrapes."""
        state, statuses = self._snapshot()
        known = [one for one in statuses if one.verdict.kind != "unknown" and one.seen.busy_share is not None]
        yield GaugeMetricFamily("whyidle_up", "1 where the driver of the GPUs answers.", float(state == "ok"))
        idle = GaugeMetricFamily("whyidle_gpu_idle_share", "Of the last minutes in which no kernel ran.", labels=GPU)
        held = GaugeMetricFamily("whyidle_gpu_held", "1 where a process or memory holds the GPU.", labels=GPU)
        alarm = GaugeMetricFamily("whyidle_gpu_alarm", "1 while an idle alarm lasts.", labels=GPU)
        for one in statuses:
            if one.alarm or (one.alarm is not None and one in known):  # no "0" of what is not known
                alarm.add_metric(labels(one), float(one.alarm))
            if one.last is not None and one.last.held is not None:
                held.add_metric(labels(one), float(one.last.held))
        for one in known:
            idle.add_metric(labels(one), 1 - _busy(one))
        yield from (idle, held, alarm)
        causes = GaugeMetricFamily(
            "whyidle_idle_cause_share", "Of all GPUs' time in the last minutes, idle for this.", labels=("cause",)
        )
        for cause in sorted({one.verdict.cause for one in known}):
            share = sum(1 - _busy(one) for one in known if one.verdict.cause == cause) / len(known)
            causes.add_metric((cause,), share)
        yield causes
        cost = usd_per_hour(statuses)
        if cost is not None:
            yield GaugeMetricFamily("whyidle_idle_usd_per_hour", "US dollars, of all GPUs that have a price.", cost)

    def describe(self) -> list[Any]:
        """Return nothing, so that registering asks for nothing."""
        return []

    def close(self) -> None:
        """Stop to listen."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def labels(status: Status) -> tuple[str, str, str]:
    """Return what names a GPU."""
    return str(status.gpu.index), clean(status.gpu.uuid), clean(status.gpu.name)


def _busy(status: Status) -> float:
    return status.seen.busy_share or 0.0
