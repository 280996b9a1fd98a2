"""A column of cells as numbers or as keys. Eight bytes are looked at at once: a cell is a word of 64 bits.

The arithmetic on words is SWAR, as simdjson and fast_float do it (Lemire, "Number parsing at a gigabyte per second",
2021); here numpy does it for a column of words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Floats64, Ints

Words: TypeAlias = NDArray[np.uint64]

PADDING: Final = 64  # zero bytes behind a block, so that words may be read beyond its end
WORD: Final = 8  # bytes
BLANKS: Final = np.isin(np.arange(256), [ord(char) for char in " \t\r\"'"])
MOST_BLANKS: Final = 64  # around a cell; with more it is no number
MOST_DIGITS: Final = 19  # that a word holds; beyond 15 the last bit of the float may be off
LONGEST_NUMBER: Final = 64  # bytes

NUMBER: Final = re.compile(rb"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\d\s]\S{0,15})?")
HEX: Final = re.compile(rb"0[xX][0-9a-fA-F]{1,16}")
ZEROS: Final = np.uint64(0x3030303030303030)
ONES: Final = np.uint64(0x0101010101010101)


@dataclass(frozen=True, slots=True)
class Text:
    """A block of bytes, as bytes and as the words that begin at each of them."""

    content: bytes
    data: NDArray[np.uint8]
    words: Words

    @classmethod
    def of(cls, content: bytes) -> Text:
        padded = content + bytes(PADDING)
        words: Words = np.ndarray(len(padded) - WORD + 1, np.dtype("<u8"), padded, strides=(1,))
        return cls(content, np.frombuffer(padded, np.uint8), words)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a column of cells says: values, and the unit that stands behind each as a word (0: none)."""

    value: Floats64  # NaN: missing, or no number
    unit: Words
    wrong: int  # cells that are neither a number nor a word for "not measured"


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one column: where they begin and end in the text."""

    text: Text
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: Ints | NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        return Cells(self.text, self.start[rows], self.end[rows])

    def text_at(self, row: int) -> bytes:
        """Return one cell."""
        return self.text.content[self.start[row] : self.end[row]]

    def trimmed(self) -> Cells:
        """Return the cells without the blanks and quotes around them."""
        start, end = self.start, self.end
        for _ in range(MOST_BLANKS):
            blank = BLANKS[self.text.data[start]] & (start < end)
            if not blank.any():
                break
            start = start + blank
        for _ in range(MOST_BLANKS):
            blank = BLANKS[self.text.data[end - 1]] & (start < end)
            if not blank.any():
                break
            end = end - blank
        return Cells(self.text, start, end)

    def word(self, number: int = 0) -> Words:
        """Return the bytes of each cell from 8 * number on, as a word; what is behind the cell is zero."""
        start = self.start + number * WORD
        return _first(self.text.words[np.minimum(start, len(self.text.words) - 1)], self.end - start)

    def equal(self, text: bytes) -> NDArray[np.bool_]:
        """Return which cells hold this text."""
        same: NDArray[np.bool_] = self.end - self.start == len(text)
        for number in range(-(-len(text) // WORD)):
            part = int.from_bytes(text[number * WORD : (number + 1) * WORD], "little")
            same &= self.word(number) == np.uint64(part)
        return same

    def keys(self) -> Words:
        """Return a number for each cell that is the same for equal texts only, short of an accident in 2^64."""
        length = self.end - self.start
        key = self.word()
        for number in range(1, -(-int(length.max(initial=0)) // WORD)):
            key = mixed(key, self.word(number))
        return key

    def same_as_before(self) -> NDArray[np.bool_]:
        """Return which cells hold what the one before holds."""
        length = self.end - self.start
        same = np.empty(len(self), np.bool_)
        same[:1] = False
        same[1:] = length[1:] == length[:-1]
        for number in range(-(-int(length.max(initial=0)) // WORD)):
            word = self.word(number)
            same[1:] &= word[1:] == word[:-1]
        return same

    def numbers(self) -> Numbers:
        """Return the number and the unit in each cell."""
        data = self.text.data
        sign = data[self.start]
        signed = ((sign == ord("-")) | (sign == ord("+"))) & (self.end > self.start)
        start = self.start + signed if signed.any() else self.start
        mantissa, digits = self._digits(start, np.zeros(len(self), np.uint64))
        at = start + digits
        point = data[at] == ord(".")
        places = np.zeros(len(self), np.int64)
        if point.any():
            rows = np.flatnonzero(point)
            mantissa[rows], places[rows] = self.at(rows)._digits(at[rows] + 1, mantissa[rows])
            at = at + point + places
        value = mantissa.astype(np.float64)
        if point.any():
            value /= 10.0 ** np.minimum(places, MOST_DIGITS)
        value[sign == ord("-")] *= -1
        at = at + ((data[at] == ord(" ")) & (at < self.end))
        unit = _first(self.text.words[np.minimum(at, len(self.text.words) - 1)], self.end - at)
        count = digits + places
        odd = (count == 0) | (count > MOST_DIGITS) | (self.end - at > WORD) | (data[at] == ord("e"))
        odd |= (data[at] == ord("E")) | (data[at] == ord("x"))
        wrong = self._one_by_one(np.flatnonzero(odd), value, unit) if odd.any() else 0
        return Numbers(value, unit, wrong)

    def _digits(self, start: Ints, value: Words) -> tuple[Words, Ints]:
        """Return `value` with the decimal digits from `start` on behind it, and how many they are."""
        word = self.text.words[start]
        count = _leading_digits(word)
        value = value * _POWERS[count] + _decimal(word, count)
        rows = np.flatnonzero(count == WORD)
        while len(rows):
            word = self.text.words[np.minimum(start[rows] + count[rows], len(self.text.words) - 1)]
            more = _leading_digits(word)
            value[rows] = value[rows] * _POWERS[more] + _decimal(word, more)
            count[rows] += more
            rows = rows[(more == WORD) & (count[rows] < LONGEST_NUMBER)]
        return value, count

    def _one_by_one(self, rows: Ints, value: Floats64, unit: Words) -> int:
        """Read the cells that the fast way cannot; equal ones once. Return how many are wrong."""
        odd = self.at(rows)
        _, first, which = np.unique(odd.keys(), return_index=True, return_inverse=True)
        told = [_number(odd.text_at(row)) for row in first.tolist()]
        value[rows] = np.array([number for number, _, _ in told])[which]
        unit[rows] = np.array([int.from_bytes(behind[:WORD], "little") for _, behind, _ in told], np.uint64)[which]
        return int(np.count_nonzero(np.array([bad for _, _, bad in told])[which]))


def mixed(key: Words, other: Words) -> Words:
    """Return one number for two."""
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (key ^ (key >> np.uint64(32))) * np.uint64(0x94D049BB133111EB) + other * np.uint64(0x9E3779B97F4A7C15)


def is_missing(text: bytes) -> bool:
    """Say whether a cell says that there is no value: empty, `-`, `N/A`, `[Not Supported]`, NaN, None."""
    lower = text.strip(b" \t\r\"'").lower()
    return (
        lower in {b"", b"-", b"--", b"n/a", b"na", b"nan", b"none", b"null", b"unknown", b"err!"}
        or (lower.startswith(b"[") and b"]" in lower)
        or lower in {b"inf", b"-inf", b"+inf", b"infinity", b"-nan"}
    )


def _number(text: bytes) -> tuple[float, bytes, bool]:
    """Return value and unit of a cell, and whether it is wrong: no number where one should be."""
    if HEX.fullmatch(text):
        return float(int(text, 16)), b"", False
    if text.lower() in {b"active", b"not active"}:
        return float(text.lower() == b"active"), b"", False
    if len(text) <= LONGEST_NUMBER and (match := NUMBER.fullmatch(text)):
        value = float(match[1])
        return (value if np.isfinite(value) else np.nan), match[2] or b"", False
    return np.nan, b"", not is_missing(text)


_POWERS: Final[Words] = np.array([10**power for power in range(WORD + 1)], np.uint64)
_MASKS: Final[Words] = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)


def _first(word: Words, size: Ints) -> Words:
    """Return words of which only the first `size` bytes are left."""
    return word & _MASKS[np.clip(size, 0, WORD)]


def _leading_digits(word: Words) -> Ints:
    """Return how many bytes at the front of each word are decimal digits."""
    less = word ^ ZEROS  # a digit is now 0 to 9: its upper half is zero, and stays so when 6 is added
    others = (less | ((less & np.uint64(0x0F0F0F0F0F0F0F0F)) + np.uint64(0x0606060606060606))) & np.uint64(
        0xF0F0F0F0F0F0F0F0
    )
    lowest = others & (~others + np.uint64(1))
    below = (((lowest - np.uint64(1)) & ONES) * ONES) >> np.uint64(56)  # bytes up to that of the lowest bit
    return np.where(others == 0, WORD, below.astype(np.int64) - 1)


def _decimal(word: Words, count: Ints) -> Words:
    """Return the value of the first `count` bytes, which are digits."""
    up = ((WORD - count) * 8).astype(np.uint64)
    # a shift by 64 is undefined: of no digits all is shifted out in two steps
    half = up >> np.uint64(1)
    digits = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) << half) << (up - half)
    pairs = (digits * np.uint64(10)) + (digits >> np.uint64(8))
    low = (pairs & np.uint64(0x000000FF000000FF)) * np.uint64(0x000F424000000064)
    high = ((pairs >> np.uint64(16)) & np.uint64(0x000000FF000000FF)) * np.uint64(0x0000271000000001)
    return (low + high) >> np.uint64(32)
