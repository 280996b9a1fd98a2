"""What Prometheus scrapes; that the real one does, and what its rule makes of it: tests/cli/test_alarm_rules.py."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.watch.conftest import FakeSource, Watching, reading
from whyidle.errors import WhyIdleError
from whyidle.watch.exporter import Exporter
from whyidle.watch.loop import Watch
from whyidle.watch.reading import Reading

Metrics = dict[tuple[str, str], float]
MIXED: list[Reading | None] = [reading(90.0, 17), reading(0.0), None, replace(reading(None), memory_used_bytes=None)]


@contextmanager
def exported(watch: Watch) -> Iterator[Exporter]:
    exporter = Exporter("127.0.0.1", 0, watch.snapshot)
    try:
        yield exporter
    finally:
        exporter.close()


def scraped(exporter: Exporter) -> Metrics:
    """Return the samples by name and their first label."""
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_scraped(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: MIXED, 4), 10, price=2.0)
    watch.run()
    with exported(watch) as exporter:
        told = scraped(exporter)
    assert told["whyidle_up", ""] == 1
    assert told["whyidle_gpu_idle_share", "0"] == pytest.approx(0.1)
    assert told["whyidle_gpu_idle_share", "1"] == 1
    assert told["whyidle_gpu_held", "0"] == told["whyidle_gpu_held", "1"] == 1
    assert told["whyidle_idle_usd_per_hour", ""] == pytest.approx(2.2)
    causes = {cause: share for (name, cause), share in told.items() if name == "whyidle_idle_cause_share"}
    assert causes == {"small": pytest.approx(0.05), "held_without_process": pytest.approx(0.5)}
    mean = sum(told["whyidle_gpu_idle_share", gpu] for gpu in "01") / 2
    assert sum(causes.values()) == pytest.approx(mean)


def test_a_gpu_of_which_nothing_is_known_has_no_series(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: MIXED, 4), 10, price=2.0)
    watch.run()
    with exported(watch) as exporter:
        told = scraped(exporter)
    assert not {("whyidle_gpu_idle_share", gpu) for gpu in "23"} & told.keys()
    assert ("whyidle_gpu_held", "2") not in told


def test_a_driver_that_is_gone(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: "the NVIDIA driver is not loaded"), 10)
    watch.run()
    with exported(watch) as exporter:
        told = scraped(exporter)
    assert told["whyidle_up", ""] == 0
    assert {name for name, _ in told} == {"whyidle_up"}


def test_an_alarm_lasts(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(0.0, 17), reading(95.0, 18)], 2)
    watch, _, _ = watching(source, 200, alarm=True, grace_s=0.0, window_s=100.0)
    watch.run()
    with exported(watch) as exporter:
        told = scraped(exporter)
    assert (told["whyidle_gpu_alarm", "0"], told["whyidle_gpu_alarm", "1"]) == (1, 0)


def test_names_are_escaped(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(90.0, 17)])
    source.gpus = (replace(source.gpus[0], name='odd "name"\n\\x'),)
    watch, _, _ = watching(source, 3)
    watch.run()
    with exported(watch) as exporter:
        assert scraped(exporter)["whyidle_gpu_idle_share", "0"] == pytest.approx(0.1)


def test_a_port_that_is_taken(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: MIXED, 4), 10)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(WhyIdleError, match=f"cannot listen on 127.0.0.1:{port}"):
            Exporter("127.0.0.1", port, watch.snapshot)
    with pytest.raises(WhyIdleError, match="cannot listen on"):
        Exporter("no.such.host.invalid", 0, watch.snapshot)
