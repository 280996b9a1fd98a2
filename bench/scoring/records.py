"""What is scored: the truth of a job, and what was said about it. Plain values, so that scoring is arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from scoring.alike import right

# A finding below this is a suggestion and no claim: it says of itself that it is more likely wrong than right.
CLAIM_CONFIDENCE = 0.5
# Faults below it count for nothing but the table by severity: less than a medium finding, and near what a step varies.
LEAST_SEVERITY = 0.05
# Where v1 has to be right.
MAIN_SEVERITY = 0.10

# What a job would gain by besides its fault excuses a finding that promises up to this much more.
EXCESS = 0.05

Failure: TypeAlias = Literal["crash", "refused", "not judged"]


def at_least(severity: float, limit: float) -> bool:
    """Compare in whole points: a fault that was asked for at 5% and came out at 4.96% is one of 5%."""
    return round(severity, 2) >= limit


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was put into a job."""

    id: str
    asked: float
    severity: float  # reached: 1 - step time without it / step time with it


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of a simulated job."""

    name: str
    family: str
    seed: int
    ranks: int
    faults: tuple[Fault, ...] = ()
    also: tuple[Fault, ...] = ()  # what else the job would gain by, shown by running it without
    control: str | None = None
    misspecified: str | None = None
    idle_by_cause: Mapping[str, float] = field(default_factory=dict)  # shares of the window, mean over devices
    busy_share: float = 1.0

    @property
    def healthy(self) -> bool:
        return not self.faults and self.control is None

    @property
    def harmless(self) -> bool:
        """Healthy, or a negative control: whoever finds something here is wrong."""
        return not self.faults

    @property
    def counted(self) -> tuple[Fault, ...]:
        """Return the faults that are large enough to have to be found."""
        return tuple(fault for fault in self.faults if at_least(fault.severity, LEAST_SEVERITY))

    @property
    def single(self) -> Fault | None:
        return self.faults[0] if len(self.faults) == 1 else None


def truth_of(written: Mapping[str, Any]) -> Truth:
    """Return the truth that a simulation wrote, devices averaged by their windows as reports do."""
    job, devices = written["job"], written["devices"]
    faults = tuple(Fault(fault["id"], fault["asked"], fault["severity"]) for fault in written["faults"])
    also = tuple(Fault(other["id"], other["severity"], other["severity"]) for other in written.get("also", ()))
    total = sum(device["window_s"] for device in devices) or 1.0
    idle: dict[str, float] = {}
    for device in devices:
        for cause, share in device["idle_by_cause"].items():
            idle[cause] = idle.get(cause, 0.0) + share * device["window_s"] / total
    control, misspecified = written.get("control"), written.get("misspecified")
    what = [f"{fault.id}={fault.asked:g}" for fault in faults] or [control or "healthy"]
    what += [f"({misspecified})"] if misspecified else []
    return Truth(
        name=f"{job['family']} {' '.join(what)} ranks {job['ranks']} seed {job['seed']}",
        family=job["family"],
        seed=job["seed"],
        ranks=job["ranks"],
        faults=faults,
        also=also,
        control=control,
        misspecified=misspecified,
        idle_by_cause=idle,
        busy_share=sum(device["busy_share"] * device["window_s"] for device in devices) / total,
    )


@dataclass(frozen=True, slots=True)
class Said:
    """A finding, as far as it is scored."""

    rule: str
    severity: str
    confidence: float
    lost_share: float | None = None

    @property
    def grave(self) -> bool:
        return self.severity in {"high", "medium"}

    @property
    def claim(self) -> bool:
        return round(self.confidence, 6) >= CLAIM_CONFIDENCE


@dataclass(frozen=True, slots=True)
class PeerSaid:
    """What another tool said about the same files; `words` are its own, the one it gives most weight first."""

    peer: str
    idle_share: float | None = None
    words: tuple[str, ...] = ()
    crashed: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job, and what whyidle made of it."""

    truth: Truth
    findings: tuple[Said, ...] = ()  # in the order of the report, without those that say that nothing is wrong
    idle_by_cause: Mapping[str, float] | None = None
    busy_share: float | None = None
    failure: Failure | None = None
    why: str = ""
    peers: tuple[PeerSaid, ...] = ()

    def is_right(self, finding: Said, *, strict: bool, worth: float = 0.0) -> bool:
        """Say whether a finding names what is wrong with the job; unless strict, or what else it would gain by.

        The latter counts only as far as it is worth: a finding that promises more by EXCESS points is wrong.
        """
        ids = tuple(fault.id for fault in self.truth.faults)
        if right(finding.rule, ids, strict=strict):
            return True
        if strict:
            return False
        least = worth * max((fault.severity for fault in self.truth.faults), default=0.0)
        lost = finding.lost_share or 0.0
        return any(
            other.id == finding.rule and other.severity >= least and lost <= other.severity + EXCESS
            for other in self.truth.also
        )

    @property
    def ranked(self) -> tuple[Said, ...]:
        """Return the findings that can be right: who ends with "could not judge" has missed whatever it lists."""
        return () if self.failure else self.findings

    @property
    def claims(self) -> tuple[Said, ...]:
        return tuple(finding for finding in self.ranked if finding.claim)
