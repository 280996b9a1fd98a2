"""What a full launch queue makes the host wait is no cost of launching: with a faster GPU it is gone.

A prototype took it for one in two ways (docs/method.md, "Replay: what a prototype got wrong"), and predicted twice the
step time that a faster GPU gives.
"""

from __future__ import annotations

import pytest

from tests.laws.programmes import Programme
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit

FASTER_GPU = Edit("scale_device", {"class": "all"}, {"factor": 0.5})

# (queue, kernels of a step, us of one, host us before each, spread, pinned copy us)
BOUND_BY_THE_GPU = [
    pytest.param(512, 250, 60, 12, 0.0, 3000, id="a queue that is not as deep as most"),
    pytest.param(512, 900, 60, 6, 0.0, 3000, id="most launches wait, and the queue is not as deep"),
    pytest.param(1024, 900, 60, 6, 0.3, 0, id="most launches wait: their median is not what a launch costs"),
    pytest.param(1024, 500, 30, 12, 0.2, 200, id="a host that is only a little faster than the GPU"),
    pytest.param(2048, 900, 60, 6, 0.3, 0, id="a queue that is deeper than most"),
]


def bound(queue, kernels, kernel_us, host_us, jitter, copy_us) -> Programme:
    steps = 3 * queue // kernels + 8  # so that the queue fills, and some steps after it
    return Programme(
        steps=steps, kernels=kernels, kernel_us=kernel_us, host_us=host_us, jitter=jitter, copy_us=copy_us, queue=queue
    )


@pytest.mark.parametrize(("queue", "kernels", "kernel_us", "host_us", "jitter", "copy_us"), BOUND_BY_THE_GPU)
def test_a_faster_gpu_takes_the_wait_for_the_queue_away(queue, kernels, kernel_us, host_us, jitter, copy_us):
    job = bound(queue, kernels, kernel_us, host_us, jitter, copy_us)
    recording, step_us = job.run()
    played = replay.replay_of(measure(Run((recording.trace(),))))
    assert not played.refused
    assert played.base.mean_ns / 1e3 == pytest.approx(step_us, rel=0.03)
    faster = job.without(kernel_us=kernel_us / 2, copy_us=copy_us / 2).step_us
    assert played.play([FASTER_GPU]).mean_ns / 1e3 == pytest.approx(faster, rel=0.08)


@pytest.mark.parametrize("queue", [512, 1024, 2048])
def test_the_depth_of_the_queue_is_found_where_it_is_full(queue):
    job = bound(queue, 500, 60, 6, 0.2, 0)
    (analysis,) = measure(Run((job.recording().trace(),))).analyses
    assert replay.launch_queue(analysis) == pytest.approx(queue, rel=0.05)
