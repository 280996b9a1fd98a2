"""What a recording shows of the job's settings, and how many GPUs of which kind worked."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.measure import measure
from whyidle.model.evidence import Gpu, Run
from whyidle.model.finding import GpuCount

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


def measured(*traces):
    return measure(Run(tuple(traces)))


def recording(*devices):
    r = Recording()
    for device in devices or (0,):
        r.kernel(0, 10, device=device)
    return r


@pytest.mark.parametrize(
    ("name", "workers"), [("_SingleProcessDataLoaderIter", 0), ("_MultiProcessingDataLoaderIter", None)]
)
def test_workers(name, workers):
    r = recording().range(f"enumerate(DataLoader)#{name}.__next__", 0, 5)
    assert measured(r.trace()).settings.get("num_workers") == workers


def test_switches_of_the_profiler_are_booleans():
    found = measured(recording().trace(record_shapes=1, with_stack=0, simulated="yes", other=3)).settings
    assert found == {"compiled": False, "record_shapes": True, "with_stack": False, "simulated": "yes"}


def test_nothing_known_of_copies_alone():
    assert measured(Recording().copy("Memcpy HtoD (Pinned -> Device)", 0, 10).trace()).settings == {}


@pytest.mark.parametrize(
    ("devices", "gpus", "counts"),
    [
        ((0,), [Gpu(0, A100)], [GpuCount(A100, 1)]),
        ((0, 1), [Gpu(0, A100), Gpu(1, H100)], [GpuCount(A100, 1), GpuCount(H100, 1)]),
        ((0,), [Gpu(0, A100), Gpu(1, A100)], [GpuCount(A100, 1)]),  # only GPUs that worked
        ((3,), [Gpu(0, A100)], [GpuCount(A100, 1)]),  # numbered anew by CUDA_VISIBLE_DEVICES
        ((0,), [], [GpuCount("unknown GPU", 1)]),
        ((0,), [Gpu(0)], [GpuCount("unknown GPU", 1)]),
    ],
)
def test_gpus(devices, gpus, counts):
    assert list(measured(recording(*devices).trace(gpus=gpus)).gpus) == counts


def test_gpus_of_all_ranks():
    traces = [recording().trace(rank=rank) for rank in range(3)]
    assert measured(*traces).gpus == (GpuCount(A100, 3),)
