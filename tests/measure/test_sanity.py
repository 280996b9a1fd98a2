"""Each doubt about a recording: when it is raised, and when not."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.measure.sanity import doubts

FEW, LOST, CAPTURE, OVERLAP, STEPS, GAP, STACKS, DURATION = (
    "too few to speak", "no GPU operation in the recording", "capture of a CUDA/HIP graph", "overlap the next",
    "steps are missing", "a single gap", "with_stack=True", "has a duration",
)  # fmt: skip


def sound(count=20, **more):
    """Kernels of 10 us without a gap, each launched."""
    r = Recording()
    for i in range(count):
        r.kernel(i * 10, i * 10 + 10, launched=i * 10 - 20, **more)
    return r


def raised(recording):
    return {text: d for d in doubts(recording.analysis()) for text in
            (FEW, LOST, CAPTURE, OVERLAP, STEPS, GAP, STACKS, DURATION) if text in d.message}  # fmt: skip


def lone_launches(recording, count, name="cudaLaunchKernel", first=0):
    for i in range(count):
        recording.correlation += 1
        recording.slice(recording.host[0][2], name, first + i, first + i + 0.5, correlation=recording.correlation)
    return recording


def test_a_sound_recording_raises_none():
    assert raised(sound()) == {}


@pytest.mark.parametrize(("count", "few"), [(1, True), (9, True), (10, False)])
def test_few_operations(count, few):
    found = raised(sound(count))
    assert (FEW in found) == few
    if few:
        assert found[FEW].refuse
        assert not found[FEW].hollow


@pytest.mark.parametrize(("length", "lost"), [(0, True), (1, False)])
def test_operations_without_a_duration(length, lost):
    r = Recording()
    for i in range(20):
        r.kernel(i * 10, i * 10)
    found = raised(r.kernel(200, 200 + length))
    assert (DURATION in found) == lost
    if lost:
        assert found[DURATION].refuse
        assert found[DURATION].hollow


class TestLostKernels:
    @pytest.mark.parametrize(
        ("lost", "confidence"),
        [
            (0, None),
            (1, None),  # 1 of 51 is below 2%: the profiler drops the first of a session
            (10, 50 / 60),
            (50, 0.5),  # half: still judged
        ],
    )
    def test_lower_the_confidence(self, lost, confidence):
        found = raised(lone_launches(sound(50), lost))
        assert (LOST in found) == (confidence is not None)
        if confidence:
            assert found[LOST].confidence == pytest.approx(confidence)
            assert not found[LOST].refuse

    def test_more_than_half_forbid_a_verdict(self):
        found = raised(lone_launches(sound(50), 51))[LOST]
        assert found.refuse
        assert found.hollow

    def test_a_recording_that_stopped_before_the_gpu_lost_nothing(self):
        """The last kernel was launched at 470 us; what was launched after it is still to come."""
        assert LOST not in raised(lone_launches(sound(50), 30, first=480))

    def test_fills_and_copies_without_operation_are_usual(self):
        assert LOST not in raised(lone_launches(sound(50), 30, name="cudaMemsetAsync"))


class TestCapture:
    def test_of_a_graph_launches_nothing(self):
        found = raised(lone_launches(sound(20), 40).call("cudaStreamBeginCapture", 0, 1))
        assert found[CAPTURE].refuse
        assert found[CAPTURE].hollow
        assert LOST not in found

    def test_beside_work_that_ran_is_no_doubt(self):
        """Captured and then replayed: some launches have no kernel, as they should."""
        assert raised(lone_launches(sound(20), 5).call("hipStreamBeginCapture", 0, 1)) == {}


class TestOverlaps:
    @pytest.mark.parametrize(("beyond", "doubted"), [(5, False), (6, True)])
    def test_within_a_stream_by_more_than_rounding(self, beyond, doubted):
        r = sound(100).kernel(1000, 1000 + 10 + beyond).kernel(1010, 1020)
        found = raised(r)
        assert (OVERLAP in found) == doubted
        if doubted:
            assert found[OVERLAP].confidence == pytest.approx(1 - 10 / 102)
            assert "worst 0.006 ms" in found[OVERLAP].message

    def test_many_leave_half_of_the_confidence(self):
        r = Recording()
        for i in range(20):
            r.kernel(i * 10, i * 10 + 30)
        assert raised(r)[OVERLAP].confidence == 0.5

    @pytest.mark.parametrize("other", [{"stream": 9}, {"device": 1}])
    def test_streams_and_devices_run_beside_each_other(self, other):
        assert OVERLAP not in raised(sound(20).kernel(5, 150, **other))

    @pytest.mark.parametrize("stream", [40_000, -7, 2**40])
    def test_streams_may_have_any_number(self, stream):
        r = sound(20, stream=stream).kernel(5, 150, stream=stream - 1)
        assert OVERLAP not in raised(r)
        assert OVERLAP in raised(r.kernel(20, 30, stream=stream - 1))


class TestSteps:
    def test_that_are_missing(self):
        """3, 4 and 7: two are missing."""
        r = sound().step(3, 0, 50).step(4, 50, 100).step(7, 100, 150)
        found = raised(r)[STEPS]
        assert found.message.startswith("2 profiler steps are missing between 3 and 7")
        assert found.confidence == 0.9

    def test_that_are_all_there(self):
        assert STEPS not in raised(sound().step(3, 0, 50).step(4, 50, 100))


class TestOneLongGap:
    def test_in_nearly_all_of_the_recording(self):
        """200 us of work, then 4800 idle of 5010."""
        assert raised(sound().kernel(5000, 5010))[GAP].confidence == 0.5

    def test_within_steps_is_a_finding(self):
        assert GAP not in raised(sound().kernel(5000, 5010).step(1, 0, 5010))

    def test_below_nine_tenths_is_a_finding(self):
        assert GAP not in raised(sound().kernel(1000, 1010))


def test_stacks_overstate_the_host():
    """Idle 200-1000 of 1100 us, all Python: 73%."""
    late = sound().kernel(1000, 1100, launched=990)
    assert STACKS not in raised(late.op("aten::add", 0, 1))
    assert raised(late.python("train.py(3): main", 0, 1000))[STACKS].confidence == 0.9
    assert STACKS not in raised(sound().python("train.py(3): main", 0, 1000))


def ahead(count, behind):
    """Steps of 100 us on the host, ten kernels of 10 us each, which run `behind` us after their step began."""
    r = Recording()
    for i in range(count):
        r.step(i, i * 100, (i + 1) * 100)
        for k in range(10):
            r.kernel(i * 100 + k * 10 + behind, i * 100 + k * 10 + 10 + behind, launched=i * 100 + k * 6)
    return r


@pytest.mark.parametrize(
    ("count", "behind", "told", "confidence"),
    [
        (6, 90, False, 1.0),  # less than a step behind
        (6, 150, True, 1.0),  # of six steps the work of four ended inside
        (6, 390, True, 1.0),  # of two
        (6, 410, True, 0.3),  # of one: the second ends at 610 us, after the window of 600
        (3, 250, True, 0.3),
    ],
)
def test_a_host_that_runs_ahead_is_told_and_doubted_only_where_the_window_holds_less_than_two_steps_of_the_gpu(
    count, behind, told, confidence
):
    found = [doubt for doubt in doubts(ahead(count, behind).analysis()) if "runs ahead" in doubt.message]
    assert bool(found) == told
    assert [doubt.confidence for doubt in found] == [confidence] * told
    assert all(("Record more steps" in doubt.message) == (confidence < 1) for doubt in found)
