"""The boards as plain text of at most 120 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from scoring.attribution import WITHIN_POINTS
from scoring.board import Board
from scoring.cases import KindScore
from scoring.causes import CauseScore
from scoring.corpus import Corpus
from scoring.jobs import LeftOut
from scoring.order import TopScore
from scoring.rates import Rate, Spread
from scoring.targets import F1

WIDTH = 120
LISTED = 12  # lines of a list; the JSON has all
TERMS = """\
A claim is a finding with confidence >= 0.5; below that it is a suggestion. Recall: jobs whose fault reached 5% of the
step (whole points) and is claimed, at any severity. Precision: claims whose cause is there.
Accepted: also an answer that a trace cannot tell from the cause (scoring/alike.py); strict: the very id. [a–b]: Wilson
95%. A crash, a refusal or exit code 2 is a miss."""


def boards(scored: Mapping[str, Board]) -> Iterator[str]:
    for name, board in scored.items():
        yield from ("", f"==== {name} worlds: {board.jobs} jobs ".ljust(WIDTH, "="))
        yield from _targets(board)
        yield from _causes(board)
        yield from _order(board)
        yield from _attribution(board)
        yield from _loss(board)
        yield from _alarms(board)
        yield from _calibration(board)
        yield from _peers(board)
        yield from _failed(board)


def _targets(board: Board) -> Iterator[str]:
    words = {True: "met", False: "NOT MET", None: "not measured"}
    rows = [(target.goal, target.reached, words[target.met]) for target in board.targets]
    yield from table(("target of v1", "reached", ""), rows, left=3)


def _causes(board: Board) -> Iterator[str]:
    head = ("cause", "jobs", "recall", "95%", "claims", "precision", "95%", "F1", "", "strict: rec.", "prec.", "F1")
    yield from table(head, [_cause(score) for score in (*board.causes, board.all_causes)])
    for title, rows in (("missed", board.missed), ("injected", board.false_claims)):
        said = "said instead" if rows is board.missed else "wrongly claimed"
        cells = [(row.injected, row.said, str(row.jobs)) for row in rows[:LISTED]]
        yield from table((title, said, "jobs"), cells, left=2)
        yield from more(len(rows))


def _cause(score: CauseScore) -> tuple[str, ...]:
    accepted, strict = score.accepted, score.strict
    low = accepted.recall.n and (accepted.f1 is None or accepted.f1 < F1)
    return (
        score.cause,
        str(accepted.recall.n),
        share(accepted.recall.ratio),
        bounds(accepted.recall),
        str(accepted.precision.n),
        share(accepted.precision.ratio),
        bounds(accepted.precision),
        number(accepted.f1),
        "<" if low else "",
        share(strict.recall.ratio),
        share(strict.precision.ratio),
        number(strict.f1),
    )


def _order(board: Board) -> Iterator[str]:
    order = board.order
    head = ("one fault", "jobs", "top-1", "95%", "top-3", "95%", "strict: top-1", "top-3")
    tops = [order.main, *order.by_severity, *order.by_family]
    yield from table(head, [_top(top) for top in tops if top.top1.n])
    pairs = order.pairs
    if pairs.top1.n:
        yield (
            f"   pairs: first is one of both {interval(pairs.top1_accepted)}, both in three"
            f" {interval(pairs.both_in_top3_accepted)};"
        )
        yield (
            f"   strict {counted(pairs.top1)} and {counted(pairs.both_in_top3)}; {pairs.left_out} left out, a fault"
            " below 5%"
        )


def _top(top: TopScore) -> tuple[str, ...]:
    return (
        top.label,
        str(top.top1.n),
        share(top.top1_accepted.ratio),
        bounds(top.top1_accepted),
        share(top.top3_accepted.ratio),
        bounds(top.top3_accepted),
        share(top.top1.ratio),
        share(top.top3.ratio),
    )


SPREAD = ("n", "mean", "p95", "max", "bias")


def _attribution(board: Board) -> Iterator[str]:
    a = board.attribution
    rows = [("worst cause of each job", *spread(a.points)), ("busy share", *spread(a.busy_points))]
    rows += [(f"idle by {cause.cause}", *spread(cause.points)) for cause in a.by_cause]
    yield from table(("error in points of the window", *SPREAD), rows)
    yield f"   within {WITHIN_POINTS:g} points: {interval(a.within)} of the jobs; {a.without} without attribution"
    yield from table(
        ("furthest off", "cause", "points"), [(w.job, w.cause, f"{w.points:+.1f}") for w in a.worst[:5]], left=2
    )


def _loss(board: Board) -> Iterator[str]:
    rows = [(cause.cause, *spread(cause.points)) for cause in board.loss.by_cause]
    if rows:
        head = ("lost_share of the right finding - severity", *SPREAD)
        yield from table(head, [*rows, ("all", *spread(board.loss.points))])


def _alarms(board: Board) -> Iterator[str]:
    head = ("jobs without a fault", "jobs", "with high", "with medium", "with a claim", "failed")
    rows = [
        (a.kind, str(a.high.n), counted(a.high), counted(a.medium), counted(a.claim), str(a.failed))
        for a in board.alarms
        if a.high.n
    ]
    if not rows:
        return
    yield from table(head, rows)
    listed = [
        (a.job, a.rule, a.severity, f"{a.confidence:.2f}", share(a.lost_share))
        for kind in board.alarms
        for a in sorted(kind.listed, key=lambda alarm: -(alarm.lost_share or 0.0))
    ]
    yield from table(("false alarm", "rule", "severity", "confidence", "lost"), listed[:LISTED], left=3)
    yield from more(len(listed))


def _calibration(board: Board) -> Iterator[str]:
    rows = [
        (
            f"{row.low:.1f}–{row.high:.1f}",
            str(row.right.n),
            number(row.said),
            share(row.right.ratio),
            bounds(row.right),
            share(row.right_strict.ratio),
        )
        for row in board.calibration
        if row.right.n
    ]
    if rows:
        yield from table(("confidence", "findings", "mean", "right", "95%", "strict"), rows)


def _peers(board: Board) -> Iterator[str]:
    if not board.peers:
        return
    rows = [
        (
            p.peer,
            str(p.jobs),
            str(p.crashed),
            counted(p.covers),
            counted(p.names),
            counted(p.alarms),
            number(p.idle_points.mean, 1),
            number(p.idle_points.bias, 1),
        )
        for p in board.peers
    ]
    head = ("tool", "jobs", "failed", "right, however coarse", "names the cause", "alarms", "idle off, points", "bias")
    yield from table(head, rows)
    yield "   alarms: healthy jobs and controls where it names something; ours: a claim"
    by_cause = ("right, however coarse / names the cause", "jobs", *(peer.peer for peer in board.peers))
    yield from table(by_cause, _by_cause(board))
    for peer in board.peers:
        yield from (f"   {peer.peer}: {crash}"[:WIDTH] for crash in peer.crashes[:2])


def _by_cause(board: Board) -> Iterator[tuple[str, ...]]:
    ours, *theirs = board.peers
    rows = [{row.cause: f"{row.covers.hits} / {row.names.hits}" for row in peer.by_cause} for peer in theirs]
    for row in ours.by_cause:
        yield (row.cause, str(row.covers.n), str(row.covers.hits), *(peer.get(row.cause, "-") for peer in rows))


def _failed(board: Board) -> Iterator[str]:
    if board.failed:
        rows = [(failed.job, failed.failure, failed.why) for failed in board.failed]
        yield from table(("whyidle has no verdict", "", "why"), rows[:LISTED], left=3)
        yield from more(len(rows))


def left_out(jobs: Sequence[LeftOut], not_offered: int) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for job in jobs:
        reasons.setdefault(job.why.split(":")[0], []).append(job.job)
    yield ""
    yield f"not simulated: {not_offered} at severities that the fault is said not to reach"
    for reason, names in sorted(reasons.items()):
        yield f"   {len(names)} {reason}: {', '.join(sorted(names)[:3])}"[:WIDTH]
    crashed = [job for job in jobs if "crashed" in job.why]
    yield from (f"   {job.job}: {job.why}"[:WIDTH] for job in crashed[:3])


def corpus(score: Corpus) -> Iterator[str]:
    yield from ("", f"==== recordings of real jobs: {score.recordings} ".ljust(WIDTH, "="))
    yield from table(("error in points", *SPREAD), [("busy share of a device", *spread(score.busy_points))])
    rows = [(v.path, v.expected, v.first, "right" if v.right else "WRONG") for v in score.known]
    yield from table(("known cause", "", "first finding", ""), rows, left=4)
    yield f"   right: {interval(score.known_right)}"
    yield from table(("no busy share", "why"), [(failed.path, failed.why) for failed in score.failed], left=2)


def cases(kinds: Sequence[KindScore]) -> Iterator[str]:
    yield from ("", f"==== public cases: {sum(kind.cases for kind in kinds)} ".ljust(WIDTH, "="))
    rows = [
        (kind.kind, str(kind.cases), str(kind.read), counted(kind.reported), counted(kind.filled_in))
        if kind.read
        else (kind.kind, str(kind.cases), "no reader", "-", "-")
        for kind in kinds
    ]
    yield from table(("kind of input", "cases", "read", "right, all reported", "right, partly filled in"), rows)


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def counted(rate: Rate) -> str:
    return f"{rate.hits}/{rate.n}" + (f" {rate.ratio:.0%}" if rate.ratio is not None else "")


def bounds(rate: Rate) -> str:
    return "-" if rate.low is None or rate.high is None else f"[{100 * rate.low:.0f}–{100 * rate.high:.0f}]"


def interval(rate: Rate) -> str:
    return f"{counted(rate)} {bounds(rate)}"


def spread(errors: Spread) -> tuple[str, ...]:
    signed = "-" if errors.bias is None else f"{errors.bias:+.2f}"
    return (str(errors.n), number(errors.mean), number(errors.p95), number(errors.max), signed)


def more(n: int) -> Iterator[str]:
    if n > LISTED:
        yield f"   and {n - LISTED} more in the JSON"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> Iterator[str]:
    """Yield an aligned table and an empty line before it, `left` columns to the left; nothing without rows.

    A table too wide for the screen loses the ends of its widest left columns.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip_longest(head, *cells, fillvalue="")]
    while sum(widths) + 2 * len(widths) > WIDTH:
        widest = max(range(left), key=lambda i: widths[i])
        widths[widest] -= 1
    yield ""
    for row in (list(head), *cells):
        texts = [
            (text if len(text) <= width else text[: width - 1] + "…").ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
