"""What a trainer printed: how long its steps took, how long they waited for data, tokens per second, the loss."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import HEAD, content_of
from whyidle.read.samples import SECOND, Samples, Subject, moment, number, steady, text_of
from whyidle.read.trainer_patterns import (
    EVENTS,
    GRAD_NORM,
    LOSS,
    LOSSES,
    NO_STEP,
    SAMPLES,
    STEP,
    STEP_TIME,
    TELLS_NO_TIME,
    TOKENS,
    TRAINERS,
    UNITS,
    Trainer,
)

LEAST_LINES: Final = 5  # with a step's time
SNIFFED: Final = 2  # such lines in the first or the last bytes make it worth a look
TRIED: Final = 5_000  # lines, to tell whose log it is
LONGEST_LINE: Final = 4096  # characters
TIME_WITHIN: Final = 64  # characters from the start of a line
LONGEST_STEP: Final = 86_400.0  # s
SPEED: Final = frozenset((STEP_TIME, TOKENS, SAMPLES))  # one of these tells how fast it is
ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
WITHOUT_YEAR: Final = re.compile(r"\[(\d\d)/(\d\d) (\d\d:\d\d:\d\d)")  # detectron2
BAR_OF: Final = re.compile(r"\|\s*\d+/(\d+)\s*\[")
HINT: Final = "`whyidle run -- python train.py` measures steps, whatever is printed."


@dataclass(frozen=True, slots=True)
class Line:
    """A line that tells of a step: its numbers by series."""

    time: int | None
    numbers: dict[str, float]


class TrainerLog(Reader):
    """The output of a trainer, as text."""

    kind = "trainer log"
    greedy = True

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:
        """See Reader. Many a log begins with pages of settings: then its last bytes tell."""
        if b"\0" in head or head.lstrip().startswith((b'{"', b"[{")):
            return False
        return any(looks_like_steps(part) for part in (head, content_of(path, HEAD, last=True)[0]))

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. The lines of one trainer are read: of that which most lines fit."""
        samples = Samples()
        lines = _lines(text_of(path, samples.warnings, progress))
        trainer, count = _whose(lines[:TRIED])
        if count < LEAST_LINES:
            trainer, count = _whose(lines[-TRIED:])
        found = _steps(lines, trainer)
        times = _times(found, samples, path)
        if trainer.times_steps:
            _time_steps(found, times, samples.clock == "wall")
        if len(found) < LEAST_LINES or not any(line.numbers.keys() & SPEED for line in found):
            why = _too_few(lines, trainer, len(found))
            trainer, found = LOSSES, _steps(lines, LOSSES)
            if len(found) < LEAST_LINES:
                raise UnreadableError(path, why, HINT)
            samples.clock, samples.warnings = "wall", []
            times = _times(found, samples, path)
        for line, time in zip(found, times, strict=True):
            for series, value in line.numbers.items():
                samples.add(Subject(), series, time, value)
        if samples.clock == "wall":
            _events(lines, samples)
        samples.tell(Subject(), "trainer", trainer.name, "the form of its lines")
        return samples.curve(path, self.kind, step_log=True)


def looks_like_steps(part: bytes) -> bool:
    """Say whether some lines of this part tell of steps."""
    lines = _lines(part.decode("utf-8", "replace"))
    if _whose(lines)[1] >= SNIFFED or sum(TELLS_NO_TIME.match(line) is not None for line in lines) >= SNIFFED:
        return True
    return sum(LOSS.search(line) is not None for line in lines) >= LEAST_LINES


def _lines(text: str) -> list[str]:
    """Return the lines of a text, a progress bar's each of its own, without colours."""
    text = ANSI.sub("", text) if "\x1b" in text else text
    return [line[:LONGEST_LINE] for line in text.replace("\r", "\n").split("\n") if line]


def _whose(lines: Iterable[str]) -> tuple[Trainer, int]:
    """Return the trainer that prints such lines, and how many of them fit."""
    count: Counter[int] = Counter()
    for line in lines:
        if any(character.isdigit() for character in line):
            count.update(
                place for place, trainer in enumerate(TRAINERS) if trainer.numbers[0].pattern.search(line) is not None
            )
    best = max(range(len(TRAINERS)), key=lambda place: (count[place], -place))
    return TRAINERS[best], count[best]


def _steps(lines: list[str], trainer: Trainer) -> list[Line]:
    """Return the lines that tell of a step, one for each: ranks and bars say the same again."""
    first = trainer.numbers[0].pattern
    told = [line for line in lines if first.search(line) and not NO_STEP.search(line)]
    if trainer.is_progress_bar:
        of = Counter(total.group(1) for line in told if (total := BAR_OF.search(line)))
        most = of.most_common(1)[0][0] if of else ""
        told = [line for line in told if not of or ((total := BAR_OF.search(line)) and total.group(1) == most)]
    found: list[Line] = []
    before: float | None = None
    for line in told:
        numbers = _numbers(line, trainer)
        step = numbers.get(STEP)
        if trainer.numbers[0].series in numbers and (step is None or step != before):
            found.append(Line(_time(line), numbers))
        before = step
    return found


def _numbers(line: str, trainer: Trainer) -> dict[str, float]:
    numbers = {}
    for known in trainer.numbers:
        if known.pattern is LOSS or (told := known.pattern.search(line)) is None:
            continue
        groups = told.groupdict()
        unit = groups.get("unit") or groups.get("of") or "s"
        value = number(groups["number"]) * known.factor * UNITS[unit.lower()]
        if known.is_rate:
            value = 1 / value if value > 0 else math.nan
        if not math.isnan(value) and (known.series != STEP_TIME or 0 < value <= LONGEST_STEP):
            numbers[known.series] = value
    return numbers | _losses(line)


def _losses(line: str) -> dict[str, float]:
    """Return the loss in a line, and that it is no finite number where it is none: then it is not unknown."""
    numbers = {}
    if (told := LOSS.search(line)) is not None:
        loss = float(told["number"])
        numbers["loss"] = loss if math.isfinite(loss) else math.nan
        if not math.isfinite(loss):
            numbers["loss_not_finite"] = 1.0
    if (told := GRAD_NORM.search(line)) is not None and math.isfinite(norm := float(told["number"])):
        numbers["grad_norm"] = norm
    return numbers


def _time(line: str) -> int | None:
    start = line[:TIME_WITHIN]
    if told := WITHOUT_YEAR.search(start):
        return moment(f"1972-{told.group(1)}-{told.group(2)} {told.group(3)}")  # a leap year: only differences count
    return moment(start)


def _times(found: list[Line], samples: Samples, path: Path) -> list[int]:
    """Return when each line was printed: as it says, else the steps' own times one after another."""
    told = [line.time for line in found if line.time is not None]
    if len(told) == len(found):
        times = steady(told, path, samples.warnings)
    else:
        samples.clock = "assumed"
        times, now, before = [], 0.0, 0.0
        for line in found:
            step = line.numbers.get(STEP, before + 1)
            now += line.numbers.get(STEP_TIME, 0.0) * max(step - before, 1) if times else 0.0
            before = step
            times.append(round(min(now, 1e9) * SECOND))
    for place in range(1, len(times)):
        times[place] = max(times[place], times[place - 1] + 1)  # several in the second that the log tells
    return times


def _time_steps(found: list[Line], times: list[int], is_told: bool) -> None:
    """Add step times by the times of two lines and the steps between them."""
    for (before, start), (line, end) in zip(zip(found, times), list(zip(found, times))[1:]):  # noqa: B905
        steps = line.numbers.get(STEP, 0) - before.numbers.get(STEP, 0)
        if is_told and steps > 0 and end - start >= SECOND // 1000:
            line.numbers[STEP_TIME] = (end - start) / SECOND / steps


def _events(lines: list[str], samples: Samples) -> None:
    for series, words, pattern in EVENTS:
        for line in lines:
            small = line.lower()
            if any(word in small for word in words) and pattern.search(line) and (time := _time(line)) is not None:
                samples.add(Subject(), series, time, 1.0)


def _too_few(lines: list[str], trainer: Trainer, count: int) -> str:
    if count >= LEAST_LINES:
        return f"a log of {trainer.name} that tells neither step times nor the time, nor losses."
    if any(TELLS_NO_TIME.match(line) for line in lines):
        return "a log of Hugging Face's Trainer without its progress bar: it does not tell how long steps took."
    return f"a trainer's log that tells of {count:,} steps, and {LEAST_LINES} are the least."
