from __future__ import annotations

import pytest

from whyidle.model.peaks import KNOWN_GPUS, peak_of_clock, peaks

TERA = 1e12


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA B200", "B200 SXM"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI250X", "MI250X, one half"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_gpu_is_known_by_its_name(name, gpu):
    found = peaks(name)
    assert found is not None
    assert found.gpu == gpu
    assert found.gpu in KNOWN_GPUS


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA H100",  # of which kind?
        "NVIDIA H20",
        "NVIDIA L40",
        "NVIDIA A100-PG509-200",
        "Tesla V100-FHHL-16GB",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A10-24Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "AMD Instinct MI210",
    ],
)
def test_no_peak_is_guessed(name):
    assert peaks(name) is None


def test_what_a_gpu_has_no_units_for_has_no_peak():
    v100, a100 = peaks("Tesla V100-SXM2-16GB"), peaks("NVIDIA A100-SXM4-80GB")
    assert v100 is not None
    assert a100 is not None
    assert v100.flops("tf32") is None
    assert v100.flops("bf16") is None
    assert v100.flops("fp16") == 125 * TERA
    assert a100.flops("tf32") == 156 * TERA
    assert a100.flops("fp8") is None
    assert a100.flops("fp64") is None


@pytest.mark.parametrize(
    ("mhz", "fma", "units", "tera", "name", "number"),
    [
        (1830, 512, 528, 989.4, "NVIDIA H100 80GB HBM3", "bf16"),
        (1410, 256, 432, 311.9, "NVIDIA A100-SXM4-80GB", "bf16"),
        (2100, 256, 1216, 1307.4, "AMD Instinct MI300X", "bf16"),
        (2400, 2048, 256, 2516.6, "AMD Instinct MI355X", "bf16"),
        (1700, 512, 110, 191.5, "AMD Instinct MI250X", "fp16"),  # of a card 383.0
        (1700, 128, 110, 47.9, "AMD Instinct MI250X", "fp32"),  # of a card 95.7, matrices; vectors half as much
    ],
)
def test_peaks_follow_from_clocks(mhz, fma, units, tera, name, number):
    computed = peak_of_clock(mhz, fma, units)
    assert computed == pytest.approx(tera * TERA, rel=1e-3)
    known = peaks(name)
    assert known is not None
    assert known.flops(number) == pytest.approx(computed, rel=0.01)
