"""Real recordings made by others: counts and busy times are those that were computed without us."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Kind
from whyidle.read import load

ROUNDING_US = 0.01  # the figures were computed in float64 microseconds; ours are exact


def busy_us(start, end):
    """Return the length of the union of intervals that are in order of start."""
    reach = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reach[:-1]])
    return float(np.maximum(reach - np.maximum(start, before), 0).sum()) / 1000


@pytest.fixture(scope="session")
def facts(corpus):
    return json.loads((corpus / "FACTS.json").read_text())


def test_every_recording_has_its_events_and_its_busy_time(corpus, facts):
    for name, fact in facts.items():
        if not fact["events"]:
            with pytest.raises(WhyIdleError):
                load([corpus / name])
            continue
        (trace,) = load([corpus / name]).traces
        device = trace.device_slices
        assert (name, trace.events, len(device)) == (name, fact["events"], fact["gpu_ops"])
        assert {str(number) for number in set(device.device.tolist())} == set(fact["devices"])
        for number, told in fact["devices"].items():
            rows = device.device == int(number)
            difference = abs(busy_us(device.start[rows], device.end[rows]) - told["busy_us"])
            assert difference <= ROUNDING_US * np.count_nonzero(rows), name
        steps = [trace.strings[code].startswith("ProfilerStep") for code in trace.host_slices.name]
        assert np.count_nonzero(steps) == fact["steps"], name
        assert set(trace.host_slices.kind[steps].tolist()) <= {Kind.RANGE}
        assert fact["gpu"] in {gpu.name for gpu in trace.gpus} | {None, ""}
        assert trace.warnings == ()


def test_columns_are_in_order(corpus):
    for path in sorted(corpus.glob("kineto/**/*.json*"))[::4]:
        try:
            (trace,) = load([path]).traces
        except WhyIdleError:
            continue
        host, device = trace.host_slices, trace.device_slices
        assert np.all(np.diff(device.start) >= 0)
        together = np.diff(host.start) == 0
        assert np.all(np.diff(host.start) >= 0)
        assert np.all(np.diff(host.end)[together] <= 0)
        assert trace.origin <= min(host.start[0], *device.start[:1])


@pytest.mark.parametrize(
    "folder", ["odd", "nsys", "sagemaker", "nccl", "pyspy", "profiler_tables", "telemetry", "straggler"]
)
def test_nothing_else_ever_crashes(corpus, folder):
    for path in sorted((corpus / folder).rglob("*")):
        if not path.is_file():
            continue
        try:
            run = load([path])
        except WhyIdleError as error:
            told = error.message, error.hint
        else:
            told = run.curves or run.traces[0].warnings or path.name.startswith("kineto_1060"), "judged"
        assert all(told), path


def test_the_eight_ranks_are_one_run(corpus):
    run = load([Path(corpus, "kineto", "dlrm_8_ranks")])
    assert [trace.rank for trace in run.traces] == list(range(8))
    assert {trace.world_size for trace in run.traces} == {8}
    assert (run.ignored, run.warnings) == ((), ())
