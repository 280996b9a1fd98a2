"""Numbers and names as a person reads them: never a bare number, never a control character out of a file."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

NONE = 1e-9  # of the whole: sums of shares are off by less

# Control, format (they turn the direction of text), surrogate, line and paragraph separator.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}

# One column each, so that nothing moves.
_ASCII = str.maketrans(
    dict(zip("▁▂▃▄▅▆▇", "_.,-=+*", strict=True)) |
    {"█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "|", "▎": "|", "▏": "|", "\N{MULTIPLICATION SIGN}": "x"}
    | {"÷": "/", "·": "-", "\N{EN DASH}": "-", "→": ">", "…": "~", "µ": "u", "≥": ">", "≤": "<"}
    | {"\N{NO-BREAK SPACE}": " "}
)  # fmt: skip


def clean(text: str) -> str:
    """Return text from a file without anything that a terminal would act on; line breaks become spaces."""
    if text.isprintable():  # nothing of all that, as nearly always
        return text
    spaced = re.sub(r"[\t\r\n\v\f\u2028\u2029]+", " ", text)
    # An escape sequence goes as a whole, so that no "[31m" is left of it.
    spaced = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)", "", spaced)
    return legible(spaced)


def told(text: str) -> str:
    """Return a line for a person, clean; of a word that is longer than any name of a file, its two ends."""
    return re.sub(r"\S{256,}", lambda word: f"{word[0][:60]}...{word[0][-60:]}", clean(text))


def legible(text: str) -> str:
    """Return text without characters that nobody sees, but with its line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _HIDDEN)


def ascii_only(text: str) -> str:
    """Return what a screen without Unicode can show of a text; "?" where that has nothing alike."""
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def shorten(text: str, width: int) -> str:
    """Return the text in at most `width` characters, its end cut off."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def middle(text: str, width: int) -> str:
    """Return the text in at most `width` characters, cut in its middle: both ends tell it from others."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def duration(seconds: float) -> str:
    """Return a time with three digits and its unit: "850 ns", "12.3 µs", "176 ms", "1.24 s", "2.5 h"."""
    if seconds <= 0:
        return "0 s"
    if seconds >= 7200:
        return f"{_digits(seconds / 3600)} h"
    if seconds >= 1000:
        return f"{_digits(seconds / 60)} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        # 0.9995 so that what rounds to a thousand takes the larger unit
        if seconds >= size * 0.9995:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-9)} ns"


def _digits(number: float) -> str:
    """Return three significant digits, whole above 100, without zeros at the end."""
    if number >= 99.95:
        return f"{number:,.0f}"
    text = f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
    return text.rstrip("0").rstrip(".")


def change(before: float, after: float) -> str:
    """Return two times, in s, as "176 → 117 ms"; each has its unit where they differ. They stay on one line."""
    first, second = duration(before), duration(after)
    number, _, unit = first.rpartition(" ")
    said = number if second.endswith(f" {unit}") else first
    return f"{said} → {second}".replace(" ", "\N{NO-BREAK SPACE}")


def times(factor: float, decimals: int) -> str:
    """Return a ratio as "1.5x"."""
    return f"{factor:,.{decimals}f}x"


def rate(per_second: float) -> str:
    """Return a number per second with three digits, whole from a hundred on: "4.27", "1,240", "98,000"."""
    return _digits(float(f"{per_second:.3g}")) if per_second > 0 else "0"


def percent(share: float) -> str:
    """Return a share as a whole percentage; "<1%" for what is there but is nothing so, ">99%" for what is not all."""
    return rounded(share, f"{share:.0%}")


def rounded(share: float, whole: str) -> str:
    """Return that whole percentage of a share, but no 0% of what is there, and no 100% of what is not all."""
    if whole == "0%" and share > NONE:
        return "<1%"
    return ">99%" if whole == "100%" and share < 1 - NONE else whole


def percents(shares: Sequence[float], total: float) -> list[int]:
    """Return whole percentages that add up to that of `total`, their sum (largest remainder)."""
    exact = [share * 100 for share in shares]
    whole = [int(value) for value in exact]
    left = round(total * 100) - sum(whole)
    by_remainder = sorted(range(len(exact)), key=lambda index: whole[index] - exact[index])
    for index in by_remainder[: max(left, 0)]:
        whole[index] += 1
    return whole


def money(usd: float) -> str:
    """Return US dollars to the cent."""
    return f"${usd:,.2f}"


def unit_price(usd: float) -> str:
    """Return US dollars for a unit of work: to the cent, and below a dollar with three digits that say something."""
    return f"${figure(usd)}"


def figure(number: float) -> str:
    """Return a number with two decimals, below one with three digits that say something: "1,203.70", "0.0835"."""
    digits = 2 if number >= 1 or number <= 0 else 2 - math.floor(math.log10(number))
    return f"{number:,.{digits}f}"


def size(count: float) -> str:
    """Return bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_digits(count)} {unit}" if count > 0 else "0 B"
        count /= 1024
    return f"{_digits(count)} TiB"


def decimal(count: float) -> str:
    """Return a number with a decimal prefix, as FLOP and the speed of links are told: "785 G", "25.1 T"."""
    for prefix, one in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= one * 0.9995:
            return f"{_digits(count / one)} {prefix}"
    return f"{_digits(count)} " if count > 0 else "0 "


def basename(path: str) -> str:
    """Return the last part of a path of any system."""
    return clean(path).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def plural(count: int, noun: str) -> str:
    """Return "1 rank", "2 ranks"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def gpu_name(name: str) -> str:
    """Return a device name without its maker, as people say it."""
    return re.sub(r"^(?:NVIDIA|AMD|Tesla|Instinct|GeForce|Quadro|\s)+", "", clean(name)) or clean(name)


# What tells one instance of a template from another: the function that it applies, the product that it computes.
_WORKER = re.compile(r"(?<!\w)\w*(?:[Ff]unctor|_kernel_cuda|_kernel_impl|gemm|fprop|dgrad|wgrad|ReduceOp|Ops\b)\w*")


# What C++ writes: a return type, or template arguments or parameters behind a qualified name.
_SIGNATURE = re.compile(r"^void\s|^(?!.*\.py\().*\w::.*[<(]|^\w+<.*>")


def kernel_name(name: str) -> str:
    """Return a kernel name without return type and parameters, and of its template arguments only what it works on."""
    text = clean(name)
    if not _SIGNATURE.search(text):
        return text  # a Python frame, a range or a copy, in which brackets say something else
    text = re.sub(r"^void\s+", "", text)
    text = text.replace("(anonymous namespace)::", "")
    kept: list[str] = []
    depth = 0
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(char)
    short = "".join(kept).strip() or text
    worker = _WORKER.search(text, text.find("<") + 1) if "<" in text else None
    return short if worker is None or worker[0] in short else f"{short} {worker[0]}"
