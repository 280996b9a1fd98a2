"""Timelines hold what a trace holds, on the clock on which findings say where to look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.laws.recordings import recordings
from tests.traces import AUTOGRAD, Recording
from whyidle.judge import judge, measured_of
from whyidle.measure.sanity import Doubt
from whyidle.model.evidence import Run
from whyidle.model.finding import CAUSES, Finding, Location, Report, RunInfo, Summary
from whyidle.picture import picture_of, ranks, traces
from whyidle.read import load

RUNS = Path(__file__).parents[1] / "runs"
REAL = (
    "kineto/resnet50_num_workers_0", "kineto/resnet50_num_workers_4", "kineto/dlrm_8_ranks", "kineto/df_index_resolver",
    "kineto/tracelens_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz", "kineto/critical_path",
)  # fmt: skip
NOTHING = Report(RunInfo(), Summary(""))


def drawn(path):
    run = load([path])
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    return picture_of(run, measured, report), report


def drawn_by_hand(recording, **more):
    run = Run(traces=(recording.trace(**more),))
    measured = measured_of(run)
    return picture_of(run, measured, judge(run, predict=False, measured=measured))


def idle_of(timeline):
    return [lane for lane in timeline.lanes if lane.kind == "idle"]


def check(picture, report):
    """Check what holds of every recording: bounds, order, idle time by cause, places of findings."""
    by_file = {timeline.file: timeline for timeline in picture.timelines}
    for timeline in picture.timelines:
        for lane in timeline.lanes:
            assert (np.diff(lane.start) >= 0).all()
            assert (lane.end >= lane.start).all()
            assert timeline.start <= lane.start.min(initial=timeline.start)
            assert lane.end.max(initial=timeline.end) <= timeline.end
            assert lane.name.max(initial=0) < len(timeline.names)
    for finding in report.findings:
        for place in finding.locations:
            if place.start_s is not None and place.file in by_file and place.end_s is not None:
                timeline = by_file[place.file]
                assert place.rank == timeline.rank
                assert timeline.start <= round(place.start_s * 1e9)
                assert round(place.end_s * 1e9) <= timeline.end
    lanes = [lane for timeline in picture.timelines for lane in idle_of(timeline)]
    if lanes and all(len(lane) == lane.count for lane in lanes) and report.summary.idle_by_cause:
        windows = sum(device.window_s for device in report.summary.devices)
        if len(lanes) == len(picture.timelines):  # else a window holds those of several devices
            judged = [timeline.window for timeline in picture.timelines]
            assert sum(end - start for start, end in judged) / 1e9 == pytest.approx(windows, rel=1e-6)
        for code, cause in enumerate(CAUSES):
            total = sum(int((lane.end - lane.start)[lane.name == code].sum()) for lane in lanes) / 1e9
            assert total / windows == pytest.approx(report.summary.idle_by_cause.get(cause, 0.0), abs=1e-6)


@pytest.mark.parametrize("name", ["healthy", "no_marks", "scalar_read", "straggler", "workers_2021"])
def test_own_recordings_are_drawn_on_the_clock_of_their_findings(name):
    picture, report = drawn(RUNS / name)
    assert picture.timelines
    check(picture, report)


@pytest.mark.parametrize("name", REAL)
def test_real_recordings_are_drawn_on_the_clock_of_their_findings(name, corpus):
    picture, report = drawn(corpus / name)
    assert picture.timelines
    check(picture, report)
    assert sum(len(lane) for timeline in picture.timelines for lane in timeline.lanes) <= 100_000


def test_an_idle_finding_lies_on_idle_time_of_its_cause(corpus):
    picture, report = drawn(corpus / "kineto/resnet50_num_workers_0")
    first = report.findings[0]
    assert first.rule == "input.workers_zero"
    (lane,) = idle_of(picture.timelines[0])
    waits = lane.name == CAUSES.index("data_wait")
    for place in first.locations:
        inside = np.minimum(lane.end[waits], place.end_s * 1e9) - np.maximum(lane.start[waits], place.start_s * 1e9)
        assert inside.clip(0).sum() > 0.5 * (place.end_s - place.start_s) * 1e9


@given(recordings())
def test_any_recording_is_drawn(recording):
    run = Run(traces=(recording.trace(),))
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    check(picture_of(run, measured, report), report)


def two_steps():
    r = Recording()
    for number in range(2):
        at = number * 1000
        r.step(number + 3, at, at + 1000)
        r.python("train.py(3): main", at, at + 990)
        r.python("torch/nn/modules/module.py(9): _call_impl", at, at + 980)
        r.python("model.py(5): forward", at + 10, at + 600)
        r.op("aten::add", at + 100, at + 200)
        r.kernel(at + 300, at + 500, launched=at + 120)
        r.op("AddBackward0", at + 600, at + 700, AUTOGRAD)
        r.kernel(at + 700, at + 800, launched=at + 620, stream=8)
    return r


def test_lanes_are_steps_idle_time_streams_and_threads():
    (timeline,) = drawn_by_hand(two_steps(), path="a/trace.json").timelines
    assert timeline.title == "trace.json"
    assert [(lane.kind, lane.title) for lane in timeline.lanes] == [
        ("step", "steps"),
        ("idle", "idle by cause"),
        ("stream", "stream 7"),
        ("stream", "stream 8"),
        ("thread", "thread 1 (main)"),
        ("thread", "thread 1 (Python)"),
        ("thread", "thread 2 (autograd)"),
    ]
    steps = timeline.lanes[0]
    assert [timeline.names[code] for code in steps.name] == ["step 3", "step 4"]


def test_python_frames_that_only_pass_a_call_on_are_counted_and_not_drawn():
    (timeline,) = drawn_by_hand(two_steps()).timelines
    (frames,) = (lane for lane in timeline.lanes if lane.title.endswith("(Python)"))
    shown = {timeline.names[code] for code in frames.name}
    assert shown == {"train.py(3): main", "model.py(5): forward"}
    assert frames.count == 6
    assert len(frames) == 4
    assert "Python frames" in timeline.note


def test_of_several_gpus_the_lanes_say_which():
    r = Recording()
    for gpu in (0, 1):
        for at in range(0, 1000, 100):
            r.kernel(at + 10, at + 60 + 10 * gpu, launched=at, device=gpu)
    (timeline,) = drawn_by_hand(r, rank=2).timelines
    assert timeline.title == "rank 2"
    titles = [lane.title for lane in timeline.lanes]
    assert "GPU 0 idle by cause" in titles
    assert "GPU 1 stream 7" in titles


def test_a_trace_without_a_gpu_shows_its_threads():
    r = Recording().op("aten::add", 0, 10).op("aten::mul", 10, 30).step(1, 0, 15).step(2, 15, 30)
    (timeline,) = drawn_by_hand(r).timelines
    assert [lane.kind for lane in timeline.lanes] == ["step", "thread"]
    assert timeline.end == 30_000


def test_idle_time_that_cannot_be_believed_is_not_drawn():
    run = Run(traces=(two_steps().trace(),))
    measured = measured_of(run)
    for doubts, kinds in (
        ((), {"idle"}),
        ((Doubt("It captures a graph.", refuse=True, hollow=True),), set()),
    ):
        picture = picture_of(run, replace(measured, doubts=doubts), NOTHING)
        assert {lane.kind for lane in picture.timelines[0].lanes} & {"idle"} == kinds
        assert [line.label for line in picture.charts[0].lines] == ["step time", *(["GPU idle"] if kinds else [])]


def test_nothing_is_drawn_of_nothing():
    run = Run()
    picture = picture_of(run, measured_of(run), NOTHING)
    assert picture.timelines == ()
    assert picture.charts == ()


def test_of_many_ranks_some_are_drawn_and_that_is_said():
    found = []
    for rank in range(40):
        r = Recording()
        for at in range(0, 1000, 100):
            r.kernel(at + 10, at + 20 + rank, launched=at)
        found.append(r.trace(path=f"rank{rank}.json", rank=rank, world_size=40))
    run = Run(traces=tuple(found))
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    picture = picture_of(run, measured, report)
    shown = [timeline.rank for timeline in picture.timelines]
    assert len(shown) == ranks.MOST
    assert shown == sorted(shown)
    assert {0, 39} <= set(shown), "the one that idles most, and the one that idles least"
    assert picture.timelines[0].note.startswith("16 of 40 ranks are drawn")
    places = tuple(Location(f"rank{rank}.json", rank=rank) for rank in range(10, 35))
    named = replace(report, findings=(Finding("dist.straggler", "high", 0.9, "Some are late.", 0.3, locations=places),))
    kept = {a.t.trace.rank for a in ranks.drawn_of(measured.analyses, named)[0]}
    assert {0, 39} <= kept, "however many findings name"
    assert traces.title_of(found[3]) == "rank 3"
