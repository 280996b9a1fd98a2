"""The board of predictions as plain text of at most 120 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scoring.predictions import SAVING_FROM, ChangeScore, KindScore, Predictions
from scoring.rates import Spread
from scoring.show import LISTED, SPREAD, WIDTH, counted, interval, number, share, spread, table

TERMS = f"""\
Errors in percent of the true mean step time: predicted / true - 1, where true is the same job run without the fault.
saving: the same of the share of the step that is saved, where that is {SAVING_FROM:.0%} of it or more.
rule: lost_share taken off the step; naive: all time of the cause taken off; as is: who says that nothing changes."""
WORDS = {True: "met", False: "NOT MET", None: "not measured"}


def boards(scored: Mapping[str, Predictions]) -> Iterator[str]:
    for name, board in scored.items():
        yield from ("", f"==== what fixes are worth, {name} worlds: {board.jobs} jobs ".ljust(WIDTH, "="))
        rows = [(target.goal, target.reached, WORDS[target.met]) for target in board.targets]
        yield from table(("target", "reached", ""), rows, left=3)
        yield from _whole(board)
        yield from _changes("cure of one fault", (*board.cures, board.all_cures))
        yield from _changes("what else it would gain by", board.also)
        yield from _changes("two faults", (board.together,))
        yield from _kinds(board.kinds)
        for title, reasons in (("refused", board.refused), ("cure without a prediction", board.unpriced)):
            rows = [(row.why, row.first, str(row.jobs)) for row in reasons[:LISTED]]
            yield from table((title, "such as", "jobs"), rows, left=2)
        worst = [
            (
                f.job,
                f.promise.rule,
                f"{1e3 * f.step_s:.1f}",
                f"{1e3 * f.base_s:.1f}",
                f"{1e3 * f.truth_s:.1f}",
                f"{1e3 * f.promise.likely:.1f}",
                f"{100 * f.step_error:+.0f}%",
            )
            for f in board.worst
        ]
        yield from table(("furthest off, ms", "rule", "step", "ours", "cured", "predicted", ""), worst, left=2)


def _whole(board: Predictions) -> Iterator[str]:
    rows = [
        ("each step replayed as it is", *spread(board.identity)),
        ("mean step against the one that ran", *spread(board.base)),
    ]
    yield from table(("error in percent", *SPREAD), rows)
    yield f"   median error of a step: {number(board.identity_median)}%"
    yield (
        f"   first finding right: {interval(board.first_finding)};"
        f" first of the sequence: {interval(board.first_of_sequence)}"
    )
    yield f"   CPU time of a report: mean {number(board.cpu_s.mean)} s, p95 {number(board.cpu_s.p95)} s"


HEAD = ("n", "mean", "p95", "bias", "saving n", "mean", "p95", "bias", "80% holds", "rule", "naive", "as is")


def _changes(title: str, scores: Sequence[ChangeScore]) -> Iterator[str]:
    rows = [
        (
            score.change,
            *_short(score.step),
            *_short(score.saving),
            share(score.covered.ratio),
            number(score.own.mean, 1),
            number(score.naive.mean, 1),
            number(score.unchanged.mean, 1),
        )
        for score in scores
        if score.step.n
    ]
    yield from table((title, *HEAD), rows)


def _short(errors: Spread) -> tuple[str, ...]:
    bias = "-" if errors.bias is None else f"{errors.bias:+.1f}"
    return str(errors.n), number(errors.mean, 1), number(errors.p95, 1), bias


def _kinds(kinds: Sequence[KindScore]) -> Iterator[str]:
    rows = [
        (
            kind.kind,
            *_short(kind.saving),
            counted(kind.covered),
            number(kind.sigma, 3),
            number(kind.sigma_step, 4),
        )
        for kind in kinds
    ]
    head = ("error of the saving, by edits", "n", "mean", "p95", "bias", "80% holds", "sigma", "of the step")
    yield from table(head, rows)
    if rows:
        yield "   sigma: of a normal distribution whose 80% interval would hold 80% of these, as a share of the saving"
