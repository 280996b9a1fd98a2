"""How large a batch, in small cases whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sweep.trials import Given, about, asked, ran, values
from whyidle.model.trial import Cell
from whyidle.sweep.strategies import Machine, strategy
from whyidle.sweep.strategies.batch import gain

GIB = 2**30


def search(*given: str):
    return strategy("batch", (Given("batch_size", given),), Machine())


def fed(half: float, each: int = 0, has: int = 0):
    """A job whose throughput is b / (half + b), and whose memory is `each` for a sample."""

    def measure(params):
        batch = int(params["batch_size"])
        if has and batch * each > has:
            return Cell(params, "out of memory", memory_bytes=has)
        memory = {"peak_memory_bytes": batch * each, "memory_bytes": has} if has else {}
        pace = about(batch / (half + batch))
        return ran(params, half + batch, throughput=pace, throughput_unit="samples", **memory)

    return measure


def tried(measure, *given: str) -> list[int]:
    return values(asked(search(*given), measure), "batch_size")


def test_it_doubles_until_that_gains_less_than_5_percent() -> None:
    # b / (100 + b): 0.91 at 1024 -> 0.95 at 2048 gains 4.7%
    assert tried(fed(100.0), "64") == [64, 128, 256, 512, 1024, 2048]
    assert search("64").why(asked(search("64"), fed(100.0))) == (
        "From 1024 to 2048 throughput changes by +4.7% per doubling (+2.6% to +6.8%): "
        "below +5% it is not doubled again."
    )


def test_it_begins_small_where_nobody_says() -> None:
    assert tried(fed(10.0))[:2] == [8, 16]


def test_full_memory_ends_it() -> None:
    cells = asked(search("16"), fed(1e6, each=GIB, has=72 * GIB))
    assert values(cells, "batch_size") == [16, 32, 64]
    assert search("16").why(cells) == "At 64 the device's memory is 89% full: twice that does not fit."


def test_out_of_memory_has_the_middle_tried_once() -> None:
    cells = asked(search("16"), fed(1e6, each=GIB, has=110 * GIB))
    assert values(cells, "batch_size") == [16, 32, 64, 128, 96]
    assert search("16").why(cells) == "96 is the largest batch that works: at 128 it runs out of memory."


def test_the_middle_may_fail_too() -> None:
    cells = asked(search("16"), fed(1e6, each=GIB, has=80 * GIB))
    assert values(cells, "batch_size") == [16, 32, 64, 128, 96]
    assert search("16").why(cells) == "64 is the largest batch that works: at 96 it runs out of memory."


def test_a_memory_too_full_to_recommend_counts_as_too_much() -> None:
    cells = asked(search("16"), fed(1e6, each=GIB, has=66 * GIB))
    assert values(cells, "batch_size") == [16, 32, 64, 48]
    assert search("16").why(cells) == "48 is the largest batch that works: at 64 it fills 97% of the device's memory."


def test_of_several_values_only_those() -> None:
    assert tried(fed(1e6), "32", "64", "96", "256") == [32, 64, 256]
    cells = asked(search("32", "64", "96", "256"), fed(1e6))
    assert search("32", "64", "96", "256").why(cells) == "256 is the largest value that was given."
    assert tried(fed(1e6, each=GIB, has=110 * GIB), "32", "64", "96", "256") == [32, 64, 256, 96]


@pytest.mark.parametrize(
    ("status", "said"), [("failed", "it fails"), ("no steps", "it shows no steps"), ("out of memory", "runs out of")]
)
def test_the_first_that_fails_ends_it(status, said) -> None:
    cells = asked(search("64"), lambda params: Cell(params, status))
    assert values(cells, "batch_size") == [64]
    assert said in search("64").why(cells)
    assert "-p batch_size=32" in search("64").why(cells)


def test_without_samples_the_batch_size_over_the_step_counts() -> None:
    steps = {"4": ran({"batch_size": "4"}, 1.0), "16": ran({"batch_size": "16"}, 2.0)}
    gained = gain({int(value): cell for value, cell in steps.items()}, 16)
    assert gained.likely == pytest.approx(2**0.5 - 1)
    assert gained.low < gained.likely < gained.high


def test_a_number_of_a_failed_job_is_none() -> None:
    failed = replace(ran({"batch_size": "64"}, 1.0), status="failed")
    assert search("64").following([failed], ()) is None
