"""Did a change help, by how much, with what certainty, and does the model still learn the same."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from whyidle.compare import confounders, difference, drawn, promises
from whyidle.compare.arms import Evidence, Repeat, arm_of, middle, repeat_of
from whyidle.compare.learning import learning
from whyidle.compare.same_steps import same_steps
from whyidle.compare.starts import given_twice, real
from whyidle.compare.verdict import Judged, judged
from whyidle.compare.work import SAME_WORK, common_work
from whyidle.errors import SeveralRunsError, WhyIdleError
from whyidle.model.comparison import Comparison, Confounder, Learning, Verdict
from whyidle.model.hardware import check_rented
from whyidle.read import Progress
from whyidle.watched import end

__all__ = ["Evidence", "compare"]


def compare(
    before: Evidence | Sequence[Evidence],
    after: Evidence | Sequence[Evidence],
    *,
    price: float | None = None,
    gpus: int | None = None,
    units: float | tuple[float, float] | None = None,
    force: bool = False,
    picture: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Say whether a change made a job faster, by how much and how sure that is.

    Args:
        before: a run: a path or an address. Or a list of repeats of that run, started anew each time; the evidence of
            each is a path, or a list of several.
        after: the same of the job as it was changed.
        price: US dollars per GPU-hour; without it the list price of the GPU, where we know one.
        gpus: GPUs that the job rents; without it the world size, else the devices seen.
        units: of work (samples, tokens, iterations) that each recording holds, one number for both or one for each.
            It is needed where nothing tells of steps.
        force: give a verdict also where the two differ in what makes one worthless, as the GPU or the model.
        picture: whether the answer holds what the HTML page draws: timelines and charts.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: when there is nothing to read, or the numbers cannot be.
    """
    check(price=price, gpus=gpus, units=units)
    counted = units if isinstance(units, tuple) else (units, units)
    one = [_read(evidence, counted[0], progress) for evidence in _repeats(before)]
    other = [_read(evidence, counted[1], progress) for evidence in _repeats(after)]
    _check_ranks(one, other)
    one, other = same_steps(one, other)
    had, has = middle(one), middle(other)
    apart = _apart(one), _apart(other)
    found = (*_unlike("BEFORE", apart[0]), *_unlike("AFTER", apart[1]), *confounders.between(had, has))
    by_pace = judged(one, other)
    blocks = [each for each in found if each.weight == "blocks"]
    verdict, message = _held_against(by_pace, found, [] if force else blocks)
    learns = learning(had.run, has.run, _changed(found, one, other), [each.run for each in one if each is not had])
    return Comparison(
        verdict=verdict,
        message=_with_learning(verdict, message, learns),
        before=arm_of(one, price, gpus, picture=picture),
        after=arm_of(other, price, gpus, picture=picture),
        speedup=by_pace.speedup,
        throughput_ratio=by_pace.throughput,
        per=by_pace.per,
        smallest_detectable=by_pace.smallest,
        between_runs=by_pace.between_runs,
        learning=learns,
        confounders=found,
        not_recorded=confounders.not_recorded(had, has),
        predicted=() if blocks else promises.kept(promises.given(had), has, found, by_pace),
        changes=difference.changes(had.measured, has.measured),
        changes_per=difference.per(had.measured, has.measured),
        warnings=tuple(_warnings((one, other), apart)),
        charts=drawn.charts(one, other) if picture else (),
    )


def _changed(found: Sequence[Confounder], one: Sequence[Repeat], other: Sequence[Repeat]) -> set[str]:
    """Return the settings in which the two sides differ, as far as that may change what the model learns."""
    changed = {each.name for each in found if each.weight == "noted"}
    work = common_work(one, other)
    if not isinstance(work, str) and abs(work[1] - 1) > SAME_WORK:
        changed.add("batch_size")
    return changed


def check(
    *, price: float | None = None, gpus: int | None = None, units: float | tuple[float, float] | None = None
) -> None:
    """Refuse numbers that cannot be; None is not given.

    Raises:
        WhyIdleError: for a price below 0, no GPU, or no work.
    """
    check_rented(price, gpus)
    for number in units if isinstance(units, tuple) else (units,):
        if number is not None and not (math.isfinite(number) and number > 0):
            raise WhyIdleError(
                f"the units of work are more than 0, not {number:g}", "--units 5000, or --units 512,1024"
            )


def _repeats(given: Evidence | Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence of each repeat.

    Raises:
        WhyIdleError: there is none.
    """
    found: list[Evidence] = [given] if isinstance(given, str | Path) else list(given)
    if not found:
        raise WhyIdleError("nothing to compare: a side has no run", "whyidle compare BEFORE AFTER")
    return found


def _read(evidence: Evidence, units: float | None, progress: Progress | None) -> Repeat:
    """Return one start of a job.

    Raises:
        WhyIdleError: there is nothing to read, or several runs.
    """
    try:
        return repeat_of(evidence, units, progress)
    except SeveralRunsError as error:
        said = evidence if isinstance(evidence, str | Path) else ", ".join(map(str, evidence))
        hint = "name one of them for each side; repeats of it are --before RUN or --after RUN"
        raise WhyIdleError(f"{said}: {error.message}", hint) from None


def _apart(repeats: Sequence[Repeat]) -> list[Confounder]:
    """Return in what the starts of a side differ from its first."""
    return [each for one in repeats[1:] for each in confounders.between(repeats[0], one)]


def _unlike(side: str, apart: Sequence[Confounder]) -> Iterator[Confounder]:
    """Yield what makes starts of a side no repeats of one job, once each."""
    for each in {each.name: each for each in apart if each.weight == "blocks"}.values():
        yield replace(each, message=f"the repeats of {side} are not of one job: {each.message}")


def _check_ranks(*sides: Sequence[Repeat]) -> None:
    """Refuse the ranks of one job as repeats of it.

    Raises:
        WhyIdleError: for that.
    """
    for side in sides:
        ranks = [{trace.rank for trace in each.run.traces} for each in side]
        known = [found for found in ranks if found and None not in found]
        if len(known) == len(side) and len(set(map(frozenset, known))) > 1:
            said = " and ".join(str(min(rank for rank in found if rank is not None)) for found in known[:2])
            hint = "give the folder that holds all ranks of a run; in Python a list in the list is one run"
            raise WhyIdleError(f"ranks {said} are given as repeats of one run", hint)


def _held_against(found: Judged, differs: Sequence[Confounder], blocks: Sequence[Confounder]) -> tuple[Verdict, str]:
    """Return the verdict and its sentence once it is known what differs, and what makes the two incomparable."""
    if not blocks:
        called = found.verdict in {"improved", "regressed"}
        if called and not found.between_runs and confounders.CROWDS & {each.name for each in differs}:
            return found.verdict, _behind(found.message, ", but other programs used the CPUs: repeat")
        return found.verdict, found.message
    reasons = "; ".join(each.message.rstrip(".") for each in blocks)
    return "cannot judge", f"Cannot judge: {reasons}. --force compares them all the same."


def _with_learning(verdict: Verdict, message: str, learns: Learning | None) -> str:
    """Return the sentence with what matters more than speed: before the answer what is bad, else right behind it."""
    if learns is None:
        return message
    if learns.verdict == "worse":
        if verdict == "cannot judge":
            return f"Learns worse: {learns.short}. {message}"
        speed = message if verdict == "no detectable change" else message.partition(": ")[2]
        return f"Learns worse: {learns.short}; {speed[:1].lower()}{speed[1:]}"
    if verdict == "cannot judge" or not (learns.lacks_proof or learns.short):
        return message
    said = learns.short
    if learns.lacks_proof:
        said = f"it is not shown that the model learns the same, as a change of {learns.required} asks for"
    return _behind(message, f". But {said}")


def _behind(message: str, said: str) -> str:
    """Return a message with something said right behind its answer."""
    answer, _, rest = message.partition(". ")
    return f"{answer.rstrip('.')}{said}. {rest}".rstrip()


def _warnings(sides: Sequence[Sequence[Repeat]], apart: Sequence[Sequence[Confounder]]) -> Iterator[str]:
    """Yield what a person has to know of the two recordings, and of in what the repeats of each lie apart."""
    files = [[path for one in side for path in one.paths] for side in sides]
    if {*map(real, files[0])} & {*map(real, files[1])}:
        yield "BEFORE and AFTER are the same recording."
    for side, repeats, paths, differs in zip(("BEFORE", "AFTER"), sides, files, apart, strict=True):
        if given_twice(paths) is not None:
            yield f"{side} holds a recording twice, which makes its repeats look more alike than they are."
        if noted := sorted({each.message for each in differs if each.weight == "noted"}):
            yield f"the repeats of {side} are not alike: {'; '.join(noted)}."
        told = [warning for one in repeats for warning in (*one.report.warnings, *end(one.run))]
        yield from (f"{side}: {warning}" for warning in dict.fromkeys(told))


class _Callable(ModuleType):
    """`whyidle.compare` is the public function and, once imported, this package: let both be called."""

    def __call__(self, *args: object, **options: object) -> Comparison:
        return compare(*args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Callable
