"""Published numbers on scaling, reproduced, and what its formulas have to obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.compare.scaling import scaling_of
from whyidle.model import arithmetic as by

COUNTS = st.integers(1, 4096)
TIMES = st.floats(1e-3, 1e3)


def test_a_thousand_and_twenty_four_hundred_samples_on_four_gpus():
    assert by.scaling_efficiency(1000, 1, 2400, 4) == pytest.approx(0.60)
    assert scaling_of({1: 1000, 4: 2400}).sizes[-1].efficiency.likely == pytest.approx(0.60)


# torchtitan, Llama 3.1 8B on H100: tokens/s per GPU on 8 and on 128 GPUs; FSDP, with torch.compile, with fp8, too
TORCHTITAN = [(5762, 5605, 97.3), (6667, 6514, 97.7), (8532, 8380, 98.2)]


@pytest.mark.parametrize(("eight", "many", "percent"), TORCHTITAN)
def test_torchtitan_weak_scaling(eight, many, percent):
    share = by.scaling_efficiency(eight * 8, 8, many * 128, 128)
    assert share * 100 == pytest.approx(percent, abs=0.05)
    (_, found) = scaling_of({8: eight * 8, 128: many * 128}, unit="tokens").sizes
    assert found.efficiency.likely == pytest.approx(share)
    assert by.weak_efficiency(1 / eight, 1 / many) == pytest.approx(share)  # a step with the same tokens per GPU


def test_torchtitan_on_h200():
    """4 and 8 nodes of 8."""
    assert by.scaling_efficiency(10_938 * 32, 32, 10_753 * 64, 64) * 100 == pytest.approx(98.3, abs=0.05)


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [
        (5762, 6667, 1.157), (6667, 8532, 1.280), (5762, 8532, 1.481),  # compile, fp8, both
        (829, 876, 1.057), (100, 128, 1.28),  # 70B with AsyncTP; 405B with an interleaved schedule
        (597.3, 652.4, 1.09), (809.8, 942.4, 1.16), (4378, 4809.4, 1.10), (5078.1, 5570.1, 1.10),  # asyncTP
    ],
)  # fmt: skip
def test_torchtitan_speedups(before, after, times):
    """On as many GPUs, efficiency is the speedup."""
    assert by.scaling_efficiency(before, 256, after, 256) == pytest.approx(times, abs=0.006)


def test_megascale():
    """41.2% MFU of Megatron-LM becomes 55.2% on the same 12,288 GPUs: 1.34 times the throughput."""
    assert by.scaling_efficiency(41.2, 12_288, 55.2, 12_288) == pytest.approx(1.34, abs=0.005)


@given(TIMES, COUNTS, TIMES, COUNTS)
def test_efficiency_by_time_and_by_throughput_is_the_same(base_s, base, seconds, gpus):
    strong = by.scaling_efficiency(1 / base_s, base, 1 / seconds, gpus)
    assert by.strong_efficiency(base_s, base, seconds, gpus) == pytest.approx(strong)
    weak = by.scaling_efficiency(base / base_s, base, gpus / seconds, gpus)
    assert by.weak_efficiency(base_s, seconds) == pytest.approx(weak)


@given(COUNTS, st.floats(0, 1))
def test_without_crosstalk_the_universal_law_is_amdahls(gpus, serial):
    assert by.usl(gpus, serial, 0) == pytest.approx(by.amdahl(1 - serial, gpus))


@given(st.integers(2, 4096), st.floats(0, 1), st.floats(1e-6, 1))
def test_crosstalk_never_helps(gpus, serial, crosstalk):
    assert by.usl(gpus, serial, crosstalk) < by.usl(gpus, serial, 0)
