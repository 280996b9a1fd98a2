"""Find how bad a fault has to be for its cure to be worth a wanted share of the step time.

Severity is 1 - T_without / T_with, both measured by running the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from world.faults import Fault
from world.job import Job
from world.simulation import step_us

TOLERANCE = 0.01  # of severity: what a calibrated job may be off
AIM = 0.003  # what the search stops at
ROUNDS = 24  # evaluations for one fault
PASSES = 5  # over both faults of a pair


class UnreachableError(Exception):
    """A severity that this fault cannot have in this job."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Faults with their amounts, and what each is worth."""

    job: Job  # before any fault
    faults: tuple[Fault, ...]
    amounts: tuple[float, ...]
    together: bool = True  # severities hold in each other's presence

    def with_all(self) -> Job:
        """Return the job with all faults."""
        return self.without(frozenset())

    def without(self, cured: frozenset[str]) -> Job:
        """Return the job without some of them."""
        job = self.job
        for fault, amount in zip(self.faults, self.amounts, strict=True):
            if amount > fault.neutral:  # else there is no fault, and nothing around it either
                job = fault.change(job, amount, cured=fault.id in cured)
        return job

    def severity(self, fault: str) -> float:
        """Return what the job would gain without one fault."""
        return 1 - step_us(self.without(frozenset({fault}))) / step_us(self.with_all())


def calibrate(job: Job, wanted: Mapping[Fault, float]) -> Calibrated:
    """Return the faults with amounts that make each worth its severity, in each other's presence.

    Two faults that hide each other cannot both be worth something: then each is given the amount at which it is worth
    its severity alone, and `together` is False.

    Raises:
        UnreachableError: a severity cannot be reached to within TOLERANCE.
    """
    faults = tuple(wanted)
    step = step_us(job)
    guesses = {fault: fault.guess(step, severity) for fault, severity in wanted.items()}
    alone = [_one(Calibrated(job, (fault,), (fault.neutral,)), 0, wanted[fault], guesses[fault]) for fault in faults]
    found = Calibrated(job, faults, tuple(one.amounts[0] for one in alone))
    if len(faults) < 2:
        return found
    both = found
    try:
        for _ in range(PASSES):
            if all(abs(both.severity(fault.id) - wanted[fault]) <= TOLERANCE for fault in faults):
                return both
            for place, fault in enumerate(faults):
                both = _one(both, place, wanted[fault], guesses[fault])
    except UnreachableError:
        pass
    return replace(found, together=False)


def _one(found: Calibrated, place: int, wanted: float, guess: float) -> Calibrated:
    """Set the amount of one fault."""
    fault = found.faults[place]

    def at(amount: float) -> Calibrated:
        amounts = (*found.amounts[:place], amount, *found.amounts[place + 1 :])
        return Calibrated(found.job, found.faults, amounts)

    if wanted <= 0:
        return at(fault.neutral)
    current = found.amounts[place]
    start = current if current > fault.neutral else guess
    amount = _search(lambda a: at(a).severity(fault.id) - wanted, wanted, fault, start)
    if amount is None:
        raise UnreachableError(f"{fault.id} cannot be worth {wanted:.0%} of the step in this job.")
    return at(amount)


def _search(off: Callable[[float], float], wanted: float, fault: Fault, guess: float) -> float | None:
    """Return the amount at which a function that grows with it is zero, by bracketing and the Illinois method."""
    low, low_off = fault.neutral, -wanted
    high = min(max(guess, fault.neutral * 1.01), fault.most)
    best: tuple[float, float] | None = None

    def tried(amount: float) -> float:
        nonlocal best
        value = off(amount)
        if best is None or abs(value) < abs(best[1]):
            best = amount, value
        return value

    high_off = tried(high)
    rounds = 1
    while high_off < 0:
        if high >= fault.most or rounds > ROUNDS:
            break
        low, low_off = high, high_off
        high = min(fault.neutral + (high - fault.neutral) * (2.0 if high_off < -0.03 else 1.3), fault.most)
        high_off, rounds = tried(high), rounds + 1
    while rounds < ROUNDS and best is not None and abs(best[1]) > AIM and high_off > 0:
        middle = high - high_off * (high - low) / (high_off - low_off)
        if rounds % 3 == 0 or not low < middle < high:
            middle = (low + high) / 2
        value, rounds = tried(middle), rounds + 1
        if value < 0:
            low, low_off = middle, value
        else:
            high, high_off = middle, value
    return best[0] if best is not None and abs(best[1]) <= TOLERANCE * 0.9 else None
