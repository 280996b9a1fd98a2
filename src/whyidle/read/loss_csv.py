"""A table of losses by step: what W&B exports, Lightning's CSVLogger writes, or one's own.

It tells nothing of time or of a GPU, and is no curve of one: it shows whether two runs learn the same.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import HEAD
from whyidle.read.generic_csv import has_curve
from whyidle.read.samples import Samples, Subject, text_of
from whyidle.read.table.names import plain
from whyidle.read.table.opening import header_in
from whyidle.read.table.rows import WHITESPACE, split_line

LOSS: Final = tuple(  # from the name that says it best; W&B puts the run's before it: "run-7 - train/loss"
    re.compile(pattern)
    for pattern in (
        r"(?:train(?:ing)? )?(?:total )?loss(?: step)?",
        r"(?!.*\b(?:val|valid|validation|eval|evaluation|test)\b)(?:.* )?train(?:ing)? loss(?: step)?",
        r"(?!.*\b(?:val|valid|validation|eval|evaluation|test)\b).* - (?:.* )?loss",
    )
)
NORM: Final = re.compile(r"(?:.* )?(?:grad(?:ient)? norm|gnorm)")
STEP: Final = re.compile(r"(?:train(?:er)? )?(?:global )?(?:step|iter(?:ation)?)s?")
PART: Final = re.compile(r"split|mode|phase|stage|subset|set")
EVALUATION: Final = re.compile(rb"\W*(?:val|valid|validation|eval|evaluation|test|testing)\W*", re.IGNORECASE)
COLUMNS: Final = "step,loss as the first line tells whyidle what the columns are."


class LossCsv(Reader):
    """Reads tables whose header names a loss, and no utilization."""

    kind = "CSV of losses"
    greedy = True

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        found = header_in(head, _has_losses)
        return found is not None and found[2] != WHITESPACE  # the lines of a log may have equally many words, too

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. Rows without a loss, as those of an evaluation, are left out."""
        samples = Samples(clock="assumed")
        content = text_of(path, samples.warnings, progress).encode()
        found = header_in(content[:HEAD], _has_losses)
        if found is None:
            raise UnreadableError(path, "a table of losses whose header is gone.", COLUMNS)
        at, header, delimiter = found
        words = [plain(cell) for cell in header]
        columns = _loss(words), _first(words, STEP), _first(words, NORM)
        part = _first(words, PART)
        if len(rest := _as_good(words)) > 1:
            told = f"{path}: {len(rest)} columns are losses of a training; {header[rest[0]]!r} is read."
            samples.warnings.append(told)
        count = 0
        for line in content[at:].splitlines():
            cells = split_line(line, delimiter)
            if part is not None and part < len(cells) and EVALUATION.fullmatch(cells[part]):
                continue
            if delimiter == b";":  # a comma separates decimals then, as in half of Europe
                cells = [cell.replace(b",", b".") for cell in cells]
            count += add_losses(samples, count, *(_number(cells, column) for column in columns))
        if not count:
            raise UnreadableError(path, "a table of losses without a loss in it.", COLUMNS, damaged=True)
        return samples.curve(path, self.kind, step_log=True)


def add_losses(samples: Samples, time: int, loss: float | None, step: float | None, norm: float | None) -> bool:
    """Note what is told of a step, None where it is not, and say whether a loss is.

    A loss that is no finite number is unknown as a value, and counted in a series of its own.

    Args:
        samples: gathers it.
        time: ns, on a clock that only orders.
        loss: in its own unit.
        step: its number.
        norm: of the gradient.
    """
    if loss is None:
        return False
    samples.add(Subject(), "loss", time, loss if math.isfinite(loss) else math.nan)
    if not math.isfinite(loss):
        samples.add(Subject(), "loss_not_finite", time, 1.0)
    for name, told in (("step", step), ("grad_norm", norm)):
        if told is not None and math.isfinite(told):
            samples.add(Subject(), name, time, told)
    return True


def _has_losses(header: list[str]) -> bool:
    words = [plain(cell) for cell in header]
    return len(header) > 1 and _loss(words) is not None and not has_curve(header)


def _loss(words: list[str]) -> int | None:
    return next(iter(_as_good(words)), None)


def _as_good(words: list[str]) -> list[int]:
    """Return the columns whose names say equally well, and best, that they hold the loss."""
    found = ([at for at, word in enumerate(words) if pattern.fullmatch(word)] for pattern in LOSS)
    return next((columns for columns in found if columns), [])


def _first(words: list[str], pattern: re.Pattern[str]) -> int | None:
    return next((at for at, word in enumerate(words) if pattern.fullmatch(word)), None)


def _number(cells: list[bytes], column: int | None) -> float | None:
    """Return the number in a cell, NaN and infinity too; None: there is none."""
    if column is None or column >= len(cells):
        return None
    try:
        return float(cells[column])
    except ValueError:
        return None
