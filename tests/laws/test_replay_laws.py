"""Whatever the job: what replay says of a change can be true.

Jobs are programmes that can be run again (programmes.py), any recording at all (recordings.py), and those of `world`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import world
from tests.laws.programmes import Programme, programmes
from tests.laws.recordings import recordings
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit, Report
from whyidle.read import load

NS = 1_000.0  # of a step: rounding of times to ns, added up over its operations

HOST = Edit("scale_host", {"cause": "python,dispatch,autograd_host,optimizer_host"}, {"factor": 0.2})
DATA = Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.02})
GPU = Edit("scale_device", {"class": "all"}, {"factor": 0.5})
COPIES = Edit("overlap_copies", {"copy": "HtoD"})
SYNC = Edit("remove_sync", {"kind": "scalar,readback,framework,grad_clip,data_dependent"})
FEWER = Edit("merge_launches", {"range": "step"})
REMOVALS = (HOST, DATA, GPU, COPIES, SYNC, FEWER)  # none of these adds work

several = st.lists(st.sampled_from(REMOVALS), min_size=1, max_size=3, unique_by=id)
lawful = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def replayed(*traces) -> replay.Replay:
    return replay.replay_of(measure(Run(traces)))


def of(programme: Programme) -> replay.Replay:
    return replayed(programme.recording().trace())


@lawful
@given(programmes, several)
def test_work_that_is_removed_makes_no_step_longer(programme, edits):
    job = of(programme)
    if not job.refused:
        assert job.play(edits).mean_ns <= job.base.mean_ns * (1 + 1e-9) + NS


@lawful
@given(recordings(), several)
def test_work_that_is_removed_makes_no_step_longer_in_any_recording(recording, edits):
    job = replayed(recording.trace())
    if not job.refused:
        played = job.play(edits)
        assert played.mean_ns <= job.base.mean_ns * (1 + 1e-9) + NS
        assert len(played.steps) == len(job.base.steps)
        assert played.gpu_idle_share is None or 0 <= played.gpu_idle_share <= 1


@lawful
@given(programmes)
def test_nothing_changed_is_nothing_saved(programme):
    job = of(programme)
    if not job.refused:
        assert job.play([]).mean_ns == pytest.approx(job.base.mean_ns, rel=1e-9)
        for edit in (HOST, GPU):
            same = Edit(edit.kind, edit.selector, {"factor": 1.0})
            assert job.play([same]).mean_ns == pytest.approx(job.base.mean_ns, rel=1e-6, abs=NS)


@lawful
@given(programmes)
def test_a_change_of_the_host_saves_at_most_what_the_busiest_stream_idles(programme):
    """What that did it still has to do; streams may work side by side that took turns."""
    job = of(programme)
    if not job.refused:
        (g,) = job.graphs
        busiest = max(float(g.duration[g.stream == stream].sum()) for stream in set(g.stream.tolist()))
        idle = job.base.mean_ns - busiest / g.steps
        for edits in ([HOST], [DATA], [SYNC], [HOST, DATA, SYNC]):
            assert job.base.mean_ns - job.play(edits).mean_ns <= idle * (1 + 1e-6) + NS


@lawful
@given(programmes, several)
def test_no_step_is_shorter_than_the_busiest_stream(programme, edits):
    """A queue that fills keeps steps apart by as much as the GPU takes; the edits here at most halve that."""
    trace = programme.recording().trace()
    job = replayed(trace)
    if not job.refused:
        d = trace.device_slices
        busiest = max(int((d.end - d.start)[d.stream == line].sum()) for line in set(d.stream.tolist()))
        left = busiest * (0.5 if GPU in edits else 1.0) / programme.steps
        assert job.play(edits).mean_ns >= 0.75 * left - NS  # steps differ, and some of them are chosen


@lawful
@given(programmes, several)
def test_several_changes_save_at_least_the_best_of_them(programme, edits):
    job = of(programme)
    if not job.refused:
        alone = [job.base.mean_ns - job.play([edit]).mean_ns for edit in edits]
        together = job.base.mean_ns - job.play(edits).mean_ns
        assert together >= max(alone) - NS - 1e-6 * job.base.mean_ns


@lawful
@given(programmes)
def test_changes_of_the_host_together_save_at_most_their_sum(programme):
    """Not so for a host and a GPU that take as long: there only both together save."""
    job = of(programme)
    if not job.refused:
        alone = [job.base.mean_ns - job.play([edit]).mean_ns for edit in (HOST, DATA)]
        together = job.base.mean_ns - job.play([HOST, DATA]).mean_ns
        assert together <= sum(alone) + NS + 1e-6 * job.base.mean_ns


@lawful
@given(programmes, st.floats(0.1, 1.0))
def test_a_faster_gpu_stays_above_what_its_stream_and_the_host_take(programme, factor):
    job = of(programme)
    if not job.refused:
        played = job.play([Edit("scale_device", {"class": "all"}, {"factor": factor})])
        busy = (1 - job.base.gpu_idle_share) * job.base.mean_ns * factor
        assert played.mean_ns >= busy - NS - 0.01 * job.base.mean_ns
        assert played.mean_ns >= factor * job.base.mean_ns - NS - 0.01 * job.base.mean_ns
        assert played.mean_ns <= job.base.mean_ns + NS


@lawful
@given(programmes)
def test_replay_without_a_change_is_what_was_recorded(programme):
    (analysis,) = measure(Run((programme.recording().trace(),))).analyses
    recorded, again = replay.identity(analysis)
    if len(recorded):
        errors = np.abs(again / recorded - 1)
        assert np.median(errors) <= 0.01 + NS / recorded.min()
        assert errors.max() <= 0.05 + 2 * NS / recorded.min()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([8, 30, 60]), st.sampled_from([6, 12, 35]), st.sampled_from([0, 5]), st.integers(0, 3))
def test_a_faster_gpu_is_predicted_as_it_runs(kernel_us, host_us, read_every, seed):
    programme = Programme(
        steps=8, kernels=40, kernel_us=kernel_us, host_us=host_us, read_every=read_every, jitter=0.1, seed=seed
    )
    job = of(programme)
    assert not job.refused
    truth = programme.without(kernel_us=kernel_us / 2).step_us
    assert job.play([GPU]).mean_ns / 1e3 == pytest.approx(truth, rel=0.08)


@pytest.mark.parametrize("family", ["cnn", "gpt"])
def test_many_ranks_that_are_the_same_are_as_fast_as_one(family, tmp_path):
    (path,) = simulated(tmp_path, family=family)
    alone = replayed(*load([path]).traces)
    (trace,) = load([path]).traces
    both = replayed(trace, trace)
    assert both.refused == alone.refused
    if not alone.refused:
        for edits in ([], [GPU], [HOST]):
            assert both.play(edits).mean_ns == pytest.approx(alone.play(edits).mean_ns, rel=0.001)


# whole reports


def simulated(folder, **job):
    out = folder / "run"
    world.simulate(out=out, **job)
    return sorted(out.rglob("*.json*"))


JOBS = {
    "read": {"family": "gpt", "faults": {"sync.scalar_read": 0.2}},
    "data": {"family": "resnet", "faults": {"input.workers_zero": 0.3}},
    "two": {"family": "resnet", "faults": {"input.workers_zero": 0.2, "sync.logging_metrics": 0.1}},
    "sound": {"family": "bert"},
}


@cache
def report(name: str, folder: str) -> Report:
    from pathlib import Path

    from whyidle.diagnosis import diagnose

    return diagnose(simulated(Path(folder) / name, **JOBS[name]), predict=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("laws"))


@pytest.mark.parametrize("name", sorted(JOBS))
class TestReports:
    def test_what_is_predicted_is_ordered_and_possible(self, name, folder):
        said = report(name, folder)
        base = said.prediction.step_time_mean_s
        for finding in said.findings:
            for fix in finding.fixes:
                if fix.predicted:
                    for estimate in (fix.predicted.step_time_s, fix.predicted.step_time_mean_s, fix.predicted.speedup):
                        assert 0 < estimate.low <= estimate.likely <= estimate.high
                    assert fix.predicted.step_time_mean_s.likely <= base * 1.001

    def test_all_together_save_at_least_the_best_and_at_most_the_sum(self, name, folder):
        said = report(name, folder)
        prediction = said.prediction
        base = prediction.step_time_mean_s
        made = {applied.title for applied in prediction.sequence}
        alone = [
            base - fix.predicted.step_time_mean_s.likely
            for finding in said.findings
            for fix in finding.fixes
            if fix.predicted and fix.title in made and fix.predicted.per == "step"
        ]
        if prediction.joint and alone:
            together = base - prediction.joint.step_time_mean_s.likely
            assert together >= max(alone) - 1e-3 * base

    def test_each_fix_of_the_sequence_adds_to_those_before_it(self, name, folder):
        sequence = report(name, folder).prediction.sequence
        times = [applied.predicted.step_time_mean_s.likely for applied in sequence]
        assert times == sorted(times, reverse=True)
        assert all(applied.saved_share > 0 for applied in sequence)

    def test_every_finding_is_priced_or_says_why_not(self, name, folder):
        said = report(name, folder)
        for finding in said.findings:
            priced = any(fix.predicted for fix in finding.fixes)
            assert priced or said.prediction.refused or finding.rule in said.prediction.unpriced

    def test_what_lay_on_the_critical_path_is_the_step(self, name, folder):
        prediction = report(name, folder).prediction
        if not prediction.refused:
            assert sum(prediction.critical_path.values()) == pytest.approx(1, abs=0.01)
