"""What a rule is, and the cases that it carries to prove itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from whyidle.model.evidence import Value
from whyidle.model.finding import Edit, Finding, Fix, Location, Severity, severity_of
from whyidle.model.measurement import Measurement, Measurements


class Threshold(float):
    """A number that remembers its unit and why it has that value."""

    unit: str
    source: str

    def __new__(cls, value: float, unit: str, *, source: str) -> Self:
        self = super().__new__(cls, value)
        self.unit, self.source = unit, source
        return self


@dataclass(frozen=True)
class Case:
    """Measurements to give to a rule, and whether it should speak."""

    given: Mapping[str, Value]
    fires: bool
    why: str

    def measurements(self) -> Measurements:
        """Return the given values as a run would have measured them."""
        return Measurements(Measurement(name, value) for name, value in self.given.items())


class Fires(Case):
    """The rule has to speak."""

    def __init__(self, why: str, **given: Value) -> None:
        super().__init__(given, True, why)


class Silent(Case):
    """The rule has to hold its tongue."""

    def __init__(self, why: str, **given: Value) -> None:
        super().__init__(given, False, why)


class Rule:
    """Turns measurements into findings. One subclass, one file, one docs page (its docstring).

    The file's place is its id: rules/input/workers_zero.py holds input.workers_zero.
    """

    id: ClassVar[str]
    needs: ClassVar[tuple[tuple[str, ...], ...]]  # alternatives, each a set of measurements
    uses: ClassVar[tuple[str, ...]] = ()  # read if there
    explains: ClassVar[tuple[str, ...]] = ()  # causes of idle time that a finding of this rule speaks for
    busy: ClassVar[tuple[str, ...]] = ()  # what of its loss is no idle time
    cases: ClassVar[tuple[Case, ...]]

    def __init_subclass__(cls) -> None:
        cls.id = ".".join(cls.__module__.split(".")[-2:])
        cls.uses = tuple(dict.fromkeys(cls.uses))  # several of what rules share may read the same
        for part in ("needs", "cases", "__doc__"):
            if not getattr(cls, part, None):
                raise TypeError(f"{cls.id} has no {part}")
        if {case.fires for case in cls.cases} != {True, False}:
            raise TypeError(f"{cls.id} needs a case that fires and one that is silent")

    @classmethod
    def busy_share(cls, m: Measurements) -> float:
        """Return how much of the loss that a finding tells is no idle time; more than that may not be said to be."""
        return sum(m.get(name, 0.0) for name in cls.busy)

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        """Yield what is wrong. Asked only when one alternative of `needs` was measured; reads no other name."""
        raise NotImplementedError

    @classmethod
    def missing(cls, m: Measurements) -> tuple[str, ...]:
        """Return what is missing from the alternative that comes closest; empty if the rule can be asked."""
        return min((tuple(name for name in names if name not in m) for names in cls.needs), key=len)

    def finding(
        self,
        message: str,
        *,
        lost_share: float | None,
        confidence: float,
        seen: str,
        locations: tuple[Location, ...] = (),
        fixes: tuple[Fix, ...] = (),
        candidates: tuple[str, ...] = (),
    ) -> Iterator[Finding]:
        """Yield a finding of this rule; nothing if the loss is below what is worth telling (2% of the time).

        `lost_share` None: what is lost cannot be told from this evidence, only that it is worth a look (medium).
        """
        lost_share = None if lost_share is None else float(min(max(lost_share, 0.0), 1.0))
        severity: Severity | None = "medium" if lost_share is None else severity_of(lost_share)
        if severity is not None:
            yield Finding(
                self.id,
                severity,
                float(confidence),
                message,
                lost_share,
                seen,
                locations,
                tuple(_plain(fix) for fix in fixes),
                candidates,
            )


def _plain(fix: Fix) -> Fix:
    """Return the fix with plain floats for thresholds, which encoders of reports do not know."""
    edits = tuple(
        Edit(edit.kind, edit.selector, {name: float(value) for name, value in edit.coefficients.items()})
        for edit in fix.edits
    )
    return replace(fix, applies=float(fix.applies), edits=edits)
