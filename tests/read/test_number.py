"""No nanosecond may get lost."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.read.number import EXACT_BELOW, LIMIT, NO_TIME, from_floats, from_text, whole_numbers

EPOCH_US = 2_000_000_000_000_000  # 2033


def as_kineto_writes(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


@given(st.integers(0, int(EXACT_BELOW) * 1000 - 1))
def test_floats_below_101_days_are_exact(nanoseconds):
    assert from_floats(np.array([float(as_kineto_writes(nanoseconds))]))[0] == nanoseconds


@given(st.integers(0, EPOCH_US * 1000))
def test_text_is_exact_since_1970(nanoseconds):
    assert from_text(as_kineto_writes(nanoseconds).encode()) == nanoseconds


@given(st.decimals(-(2**61) // 1000, 2**61 // 1000, allow_nan=False, places=None))
def test_text_is_the_decimal_that_it_says(number):
    expected = int((number * 1000).to_integral_value()) if len(str(number)) <= 64 else NO_TIME
    assert from_text(str(number).encode()) == expected
    assert from_text(f'"{number}"'.encode()) == expected


@given(st.floats(-EXACT_BELOW, EXACT_BELOW))
def test_floats_are_the_nearest_nanosecond_or_next_to_it(number):
    assert abs(int(from_floats(np.array([number]))[0]) - Decimal(number) * 1000) <= 1


@pytest.mark.parametrize(
    "text", ["", "null", "NaN", "Infinity", "-Infinity", "1e400", "1e999999999", "9" * 30, "[1]", "-", "."]
)
def test_what_is_no_time(text):
    assert from_text(text.encode()) == NO_TIME


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1.5e3", 1_500_000),
        ("-2.25", -2250),
        ("+1", 1000),
        ("102.95699890136719", 102_957),
        ("7.", 7000),
        ('"12.345"', 12_345),
    ],
)
def test_other_ways_to_write_a_number(text, nanoseconds):
    assert from_text(text.encode()) == nanoseconds


def test_floats_that_are_no_time():
    times = from_floats(np.array([np.nan, np.inf, -np.inf, LIMIT, 1.0]))
    assert times.tolist() == [NO_TIME] * 4 + [1000]


def test_numbers_as_text_and_numbers_that_are_none():
    values = [3, "4", "stream 7", 2.0, None, "x", 2**64 - 1, "-1", float("nan"), "9" * 99]
    assert whole_numbers(values).tolist() == [3, 4, 7, 2, -1, -1, -1, -1, -1, -1]
