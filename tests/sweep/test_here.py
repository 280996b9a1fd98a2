"""What a cell costs by the hour, by what was given and by the GPUs that are here."""

from __future__ import annotations

import pytest

from whyidle.sweep.budget import Rate
from whyidle.sweep.here import rate, this_machine

H200 = "NVIDIA H200"


def test_a_price_that_was_given_counts() -> None:
    assert rate(2.6, "your price", [H200, H200], None) == Rate(2.6, "your price", 2)
    assert rate(2.6, "your price", [H200, H200], 1) == Rate(2.6, "your price", 1)
    assert rate(2.6, "your price", [], None).usd(3600) == pytest.approx(2.6)  # as for one GPU


def test_else_the_list_price_of_what_is_here() -> None:
    listed = rate(None, "", [H200] * 8, None)
    assert listed.usd_per_gpu_hour == pytest.approx(63.296 / 8, abs=0.01)
    assert listed.source.startswith("H200: AWS")
    assert listed.gpus == 8


@pytest.mark.parametrize("names", [[], ["NVIDIA Nothing"], [H200, "Tesla T4"]])
def test_no_price_is_none(names: list[str]) -> None:
    assert rate(None, "", names, None) == Rate(gpus=len(names) or None)
    assert rate(None, "", names, None).usd(3600) is None


def test_this_machine_has_a_cpu() -> None:
    assert (this_machine().cpus or 0) > 0
