"""Every question put to the same outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scoring.alarms import Alarms, score_alarms
from scoring.attribution import Attribution, score_attribution
from scoring.calibration import Bin, calibrate
from scoring.causes import CauseScore, Confusion, false_claims, missed, score_all_causes, score_causes
from scoring.loss import Loss, score_loss
from scoring.order import Order, score_order
from scoring.peer_answers import PeerScore, score_peers
from scoring.records import Outcome
from scoring.targets import Target, targets


@dataclass(frozen=True, slots=True)
class Failed:
    """A job for which whyidle has no verdict: counted as missed wherever something was to be found."""

    job: str
    failure: str
    why: str


@dataclass(frozen=True, slots=True)
class Board:
    """The answers."""

    jobs: int
    failed: tuple[Failed, ...]
    all_causes: CauseScore
    causes: tuple[CauseScore, ...]
    missed: tuple[Confusion, ...]
    false_claims: tuple[Confusion, ...]
    attribution: Attribution
    order: Order
    loss: Loss
    alarms: tuple[Alarms, ...]
    calibration: tuple[Bin, ...]
    peers: tuple[PeerScore, ...]
    targets: tuple[Target, ...]


def score(outcomes: Iterable[Outcome]) -> Board:
    """Return the board of some jobs. What is mis-specified belongs on a board of its own: see `worlds`."""
    jobs = sorted(outcomes, key=lambda outcome: outcome.truth.name)
    causes, attribution = score_causes(jobs), score_attribution(jobs)
    order, alarms = score_order(jobs), score_alarms(jobs)
    return Board(
        jobs=len(jobs),
        failed=tuple(Failed(o.truth.name, o.failure, o.why) for o in jobs if o.failure),
        all_causes=score_all_causes(jobs),
        causes=causes,
        missed=missed(jobs),
        false_claims=false_claims(jobs),
        attribution=attribution,
        order=order,
        loss=score_loss(jobs),
        alarms=alarms,
        calibration=calibrate(jobs),
        peers=score_peers(jobs),
        targets=targets(causes, attribution, order, alarms),
    )


def worlds(outcomes: Iterable[Outcome]) -> dict[str, Board]:
    """Return a board for jobs as we think that they run, and one for those of worlds that break our assumptions."""
    jobs = list(outcomes)
    matched = [outcome for outcome in jobs if outcome.truth.misspecified is None]
    other = [outcome for outcome in jobs if outcome.truth.misspecified is not None]
    return {name: score(some) for name, some in (("matched", matched), ("mis-specified", other)) if some}
