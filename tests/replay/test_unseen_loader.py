"""A loader that was never waited for: how fast it is nobody knows, and a prediction that needs to know says so."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.model.finding import Edit
from whyidle.replay.choose import choose
from whyidle.replay.pricer import KEEPS_UP, UNSEEN, Replayed
from whyidle.replay.replay import Replay

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
STEP = 10_000  # us


def job(wait=300, take=True, workers=None, steps=12):
    """Return a job of steps of 10 ms: a batch, 4 ms of Python, a kernel of 1 ms that is waited for, 4 ms of Python."""
    r = Recording()
    for i in range(steps):
        at = i * STEP
        r.step(i, at, at + STEP)
        if take:
            r.range(NEXT, at + 1, at + wait)
        r.op("aten::add", at + 4000, at + 4020).kernel(at + 4020, at + 5020, at + 4005)
        r.call("cudaDeviceSynchronize", at + 4030, at + 5030)
    return Replayed(Replay(choose([r.analysis()]), workers=workers))


def without_python(replayed, factor):
    edit = Edit("scale_host", {"cause": "python,unknown,dispatch,launch_latency"}, {"factor": factor})
    found = replayed.price([edit])
    assert not isinstance(found, str)
    return found, found.step_time_mean_s.likely / replayed.mean_s


@pytest.mark.parametrize("workers", [None, 4])
def test_what_needs_a_faster_loader_says_so(workers):
    replayed = job(workers=workers)
    assert replayed.replay.loader_unseen
    found, left = without_python(replayed, 0.1)
    assert left < UNSEEN
    assert KEEPS_UP in found.rests_on
    assert found.step_time_mean_s.high == pytest.approx(UNSEEN * replayed.mean_s)
    assert found.speedup.low == pytest.approx(1 / UNSEEN)


def test_what_hardly_needs_one_does_not():
    found, left = without_python(job(), 0.9)
    assert UNSEEN < left < 1
    assert KEEPS_UP not in found.rests_on


def test_without_a_loader_there_is_nothing_to_keep_up():
    found, left = without_python(job(take=False), 0.1)
    assert left < UNSEEN
    assert KEEPS_UP not in found.rests_on


def test_a_loader_that_was_waited_for_is_known():
    replayed = job(wait=3500, workers=2)
    assert not replayed.replay.loader_unseen
    found, _ = without_python(replayed, 0.1)
    assert KEEPS_UP not in found.rests_on
