"""What a larger batch takes: from one size, and only where it shows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.traces import Recording
from whyidle import load
from whyidle.measure.analysis import Analysis
from whyidle.replay.batch import device_factor, growing, larger_batch

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def busy(*kernels, tiny=6, optimizer=0):
    """Return a recording of kernels (us, blocks per multiprocessor) beside tiny ones of 2 us, and an optimizer's."""
    r, at = Recording(), 0.0
    for took, blocks in (*kernels, *[(2, 0.01)] * tiny):
        r.kernel(at, at + took, at, name=ADD, took=0.1, blocks=blocks)
        at += took
    if optimizer:
        r.range("Optimizer.step#AdamW.step", at, at + 1)
        r.kernel(at + 1, at + 1 + optimizer, at + 0.5, name=ADD, took=0.1, blocks=100)
    return r.analysis()


def factors(a, factor=2.0):
    return device_factor(a, np.arange(len(a.t.device)), factor).tolist()


def test_full_kernels_take_longer_small_ones_do_not():
    """Of 100 us 2 are fixed; a quarter of the GPU has room for twice as much, three quarters for a third more."""
    a = busy((100, 50), (100, 0.25), (100, 0.75))
    full, quarter, most, *tiny = factors(a)
    assert full == pytest.approx((2 + 98 * 2) / 100)
    assert quarter == 1.0
    assert most == pytest.approx((2 + 98 * 1.5) / 100)
    assert tiny == [1.0] * 6
    assert factors(a, 1.0) == [1.0] * 9


def test_what_does_not_grow():
    a = busy((100, 50), optimizer=40)
    assert factors(a)[-1] == 1.0
    cast = Recording().op("aten::addmm", 0, 4, shapes="[[64],[256,32],[32,64],[],[]]", types="")
    cast.op("aten::copy_", 1, 2, shapes="[[64,32],[64,32],[]]").kernel(10, 20, 1.2, name=ADD, took=0.1)
    cast.kernel(20, 60, 3, name=GEMM, took=0.1)
    assert len(growing(cast.analysis())) == 1  # the cast of a weight stays as it is
    reduced = Recording().kernel(0, 10, 0, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL").kernel(10, 90, 1)
    assert len(growing(reduced.analysis())) == 1


def test_batches_are_copied_in_full():
    r = Recording().kernel(0, 100, 0, blocks=50).copy("Memcpy HtoD (Pinned -> Device)", 100, 110, 50)
    assert factors(r.analysis(), 4.0)[1] == 4.0


def test_a_full_gpu_gains_little_an_empty_one_much():
    full, empty = larger_batch(busy((10_000, 50)), 2.0), larger_batch(busy((10_000, 0.2)), 2.0)
    assert not full.why_not
    assert full.share == pytest.approx(1.0, abs=0.01)
    assert not empty.why_not
    assert empty.share == pytest.approx(0.5, abs=0.01)
    for found in (full, empty):
        assert found.low <= found.likely <= found.high <= found.now


def test_latency_tells_nothing_of_growth():
    found = larger_batch(busy(*[(3, 2.0)] * 50), 2.0)
    assert "any kernel takes" in found.why_not


def test_unknown_blocks_tell_nothing():
    assert "blocks" in larger_batch(busy((1000, float("nan"))), 2.0).why_not
    assert larger_batch(Recording().copy("Memcpy DtoH (Device -> Pinned)", 0, 10).analysis(), 2.0).why_not


def sweep(corpus, size):
    return Analysis(load([corpus / "kineto" / "batch_size_sweep" / f"batch_size_{size}.json.gz"]).traces[0])


def busy_ns(a):
    return sum(device.busy.total for device in a.devices)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_small_batches_of_a_real_model_do_not_tell(corpus, size):
    assert larger_batch(sweep(corpus, size), 512 / size).why_not


@pytest.mark.parametrize("size", [128, 256])
def test_large_batches_of_a_real_model_do(corpus, size):
    found = larger_batch(sweep(corpus, size), 512 / size)
    assert not found.why_not
    assert found.likely / size == pytest.approx(busy_ns(sweep(corpus, 512)) / 512, rel=0.1)


# tokens of a sequence in the recordings: the small batches' are shorter
TOKENS = {2: 53, 4: 58, 8: 43, 16: 66, 32: 71, 64: 64, 128: 128, 256: 128, 512: 128}


@pytest.mark.parametrize("size", [size for size in TOKENS if size < 512])
def test_what_a_real_model_is_said_to_take_is_what_it_takes(corpus, size):
    """Of each larger size: what is told is near, and what is measured lies between the bounds wherever it is told."""
    a = sweep(corpus, size)
    for other in [other for other in TOKENS if other > size]:
        factor = other * TOKENS[other] / (size * TOKENS[size])
        found, took = larger_batch(a, factor), busy_ns(sweep(corpus, other)) / factor
        if not found.why_not:
            assert found.likely == pytest.approx(took, rel=0.2)
            assert 0.95 * found.low <= took <= 1.05 * found.high
