"""Time in a trace is a decimal number of microseconds; ours is int64 nanoseconds, and none of them may get lost."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Ints

NO_TIME: Final = int(np.iinfo(np.int64).min)  # where the recording holds no number

# A float64 below this many microseconds (101 days) lies within half a nanosecond of the decimal that was written.
EXACT_BELOW: Final = 2.0**43

# Microseconds; twice that is still an int64 of nanoseconds, so that the end of a slice is one, too. 146 years.
LIMIT: Final = 2.0**62 / 1000

MOST_DIGITS: Final = 64  # no clock writes longer numbers


def from_floats(microseconds: NDArray[np.float64]) -> Ints:
    """Return nanoseconds; NO_TIME for NaN, infinity and what lies beyond LIMIT. Exact below EXACT_BELOW."""
    usable = np.abs(microseconds) < LIMIT
    microseconds = np.where(usable, microseconds, 0.0)
    whole = np.floor(microseconds)
    nanoseconds = whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)
    nanoseconds[~usable] = NO_TIME
    return nanoseconds


def from_text(text: bytes) -> int:
    """Return nanoseconds of a JSON number, or of one in a string; NO_TIME if it is none. Ties go to even."""
    text = text.strip(b'" ')
    whole, _, fraction = text.partition(b".")
    if len(whole) < 16 + 1 and len(fraction) < 3 + 1 and whole.isdigit() and (fraction.isdigit() or not fraction):
        nanoseconds = int(whole) * 1000 + int(fraction.ljust(3, b"0"))
        return nanoseconds if nanoseconds < LIMIT * 1000 else NO_TIME
    return _from_decimal(text)


def _from_decimal(text: bytes) -> int:
    if len(text) > MOST_DIGITS:
        return NO_TIME
    try:
        microseconds = Decimal(text.decode("ascii", "replace"))
    except InvalidOperation:
        return NO_TIME
    if not microseconds.is_finite() or microseconds.adjusted() > 18 or abs(microseconds) >= Decimal(LIMIT):
        return NO_TIME
    return int((microseconds * 1000).to_integral_value())


def whole_numbers(values: list[object], absent: int = -1) -> Ints:
    """Return int64 of what a recording writes as a number or as text ("stream 7"); `absent` where it is neither."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter((_whole(value, absent) for value in values), np.int64, len(values))


def _whole(value: object, absent: int) -> int:
    if isinstance(value, str):
        digits = value.split(" ")[-1]
        value = int(digits) if digits.isdecimal() and len(digits) < MOST_DIGITS else absent
    if isinstance(value, float) and np.isfinite(value):
        value = int(value)
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        return absent
    return value
