from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.render.bars import draw
from whyidle.render.words import clean, duration, gpu_name, kernel_name, money, percent, percents, size, unit_price


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3e-9, "3 ns"),
        (8.3e-6, "8.3 µs"),
        (0.00123, "1.23 ms"),
        (0.176, "176 ms"),
        (0.99996, "1 s"),
        (1.0, "1 s"),
        (12.34, "12.3 s"),
        (1200, "20 min"),
        (9000, "2.5 h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Tesla V100-DGXS-32GB", "V100-DGXS-32GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("", ""),
    ],
)
def test_gpu_name(name: str, text: str) -> None:
    assert gpu_name(name) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("void at::native::reduce_kernel<4, at::AddFunctor<float> >(int)", "at::native::reduce_kernel AddFunctor"),
        ("volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("void (anonymous namespace)::softmax<(int)4>(float*)", "softmax"),
        ("void cutlass::Kernel2<cutlass_80_s16816gemm>(int)", "cutlass::Kernel2 cutlass_80_s16816gemm"),
        ("<<<", "<<<"),
    ],
)  # fmt: skip
def test_kernel_name(name: str, text: str) -> None:
    assert kernel_name(name) == text


def test_small_words() -> None:
    shares = (0, 1e-4, 0.005, 0.5, 0.994, 0.997, 1 - 1e-12, 1)
    assert [*map(percent, shares)] == ["0%", "<1%", "<1%", "50%", "99%", ">99%", "100%", "100%"]
    assert [money(usd) for usd in (0, 499.2, 1234567.891)] == ["$0.00", "$499.20", "$1,234,567.89"]
    assert [unit_price(usd) for usd in (0, 4.2e-5, 0.0042, 0.1253, 0.9999, 1, 2311.114)] == [
        "$0.00", "$0.0000420", "$0.00420", "$0.125", "$1.000", "$1.00", "$2,311.11",
    ]  # fmt: skip
    assert [size(count) for count in (0, 512, 38_535_168, 2**45)] == ["0 B", "512 B", "36.8 MiB", "32 TiB"]


@given(st.text())
def test_clean_text_is_printable_and_stays_so(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert "\x1b" not in once
    once.encode("utf-8")


@given(st.lists(st.floats(0, 1), max_size=20))
def test_percents_add_up(shares: list[float]) -> None:
    whole = percents(shares, sum(shares))
    assert sum(whole) == round(sum(shares) * 100)
    assert all(abs(part - share * 100) <= 1 for part, share in zip(whole, shares, strict=True))


@given(st.floats(0, 1), st.integers(1, 60))
def test_bars_grow_and_never_overflow(share: float, width: int) -> None:
    assert len(draw(share, width)) <= width
    assert (draw(share, width) == "") == (share == 0)
