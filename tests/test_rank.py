"""The order in which to fix things."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.finding import Edit, Estimate, Finding, Fix, Predicted, severity_of
from whyidle.rank import asked, priced, rank, sequence
from whyidle.replay.interval import ranged


def finding(rule, lost, confidence=1.0, fixes=(("argument", 1.0),)):
    built = tuple(Fix("title", "change", effort, applies) for effort, applies in fixes)
    return Finding(rule, severity_of(lost) or "low", confidence, "message", lost, fixes=built)


def predicted(found, *speedups):
    """Return the finding with its fixes predicted to make the step so much faster; None is not predicted."""
    worth = (s and Predicted(*[Estimate(s, s, s)] * 3) for s in speedups)
    fixes = tuple(
        Fix(f.title, f.change, f.effort, f.applies, predicted=p) for f, p in zip(found.fixes, worth, strict=True)
    )
    return Finding(found.rule, found.severity, found.confidence, found.message, found.lost_share, fixes=fixes)


def order(*findings):
    return [f.rule for f in rank(findings)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding("b", 0.3), finding("a", 0.2)),
        (finding("b", 0.2, confidence=0.9), finding("a", 0.2, confidence=0.5)),
        (finding("b", 0.2, fixes=[("argument", 0.9)]), finding("a", 0.2, fixes=[("argument", 0.5)])),
        # 0.1 / 1 is more than 0.3 / 4, and 0.3 / 2 more than 0.1 / 1
        (finding("b", 0.1, fixes=[("argument", 1.0)]), finding("a", 0.3, fixes=[("code", 1.0)])),
        (finding("b", 0.3, fixes=[("setting", 1.0)]), finding("a", 0.1, fixes=[("argument", 1.0)])),
        # the best fix counts: 0.2 x 0.8 against 0.2 x 0.5
        (finding("b", 0.2, fixes=[("code", 1.0), ("argument", 0.8)]), finding("a", 0.2, fixes=[("argument", 0.5)])),
        # without a fix it is as much work as code
        (finding("b", 0.2, fixes=[("setting", 1.0)]), finding("a", 0.2, fixes=())),
        # equal ones by loss, then by id
        (finding("b", 0.4, fixes=[("code", 1.0)]), finding("a", 0.2, fixes=[("setting", 1.0)])),
        (finding("a", 0.2), finding("b", 0.2)),
        # what is predicted counts, not what is lost: 1 - 1 / 1.25 = 0.2 against 0.3 and 0.1
        (finding("b", 0.3), predicted(finding("a", 0.5), 1.25)),
        (predicted(finding("b", 0.05), 1.25), finding("a", 0.1)),
        (predicted(finding("b", 0.05), 1.5), predicted(finding("a", 0.5), 1.25)),
        # what saves nothing, or makes it worse, comes last
        (finding("b", 0.02), predicted(finding("a", 0.5), 1.0)),
        (finding("b", 0.02), predicted(finding("a", 0.5), 0.8)),
        # of several fixes the best that is predicted: 0.5 / 4 against 0.2 / 1; one that is not has no say
        (predicted(finding("b", 0.6, fixes=[("code", 1.0), ("argument", 1.0)]), 2.0, 1.25), finding("a", 0.15)),
        (finding("b", 0.3), predicted(finding("a", 0.5, fixes=[("argument", 1.0), ("argument", 1.0)]), None, 1.25)),
        # a loss in source only, of which the size is not known, comes last
        (finding("b", 0.02), Finding("a", "high", 1.0, "message", None)),
    ],
)
def test_order(first, second):
    assert order(second, first) == order(first, second) == [first.rule, second.rule]


@pytest.mark.parametrize(("other", "kept"), [(0.21, False), (0.06, False), (0.03, True)], ids=["high", "medium", "low"])
def test_nothing_to_do_is_said_only_where_nothing_graver_was_found(other, kept):
    assert ("none.compute_bound" in order(finding("none.compute_bound", 0.0), finding("a.b", other))) == kept


def test_nothing_to_do_alone():
    assert order(finding("none.compute_bound", 0.0)) == ["none.compute_bound"]
    assert order() == []


def test_what_a_finding_saves():
    two = finding("a", 0.5, fixes=[("argument", 1.0), ("code", 1.0)])
    assert two.saved_share == 0.5
    assert predicted(two, 1.25, 2.0).saved_share == pytest.approx(0.5)
    assert predicted(two, 1.25, None).saved_share == pytest.approx(0.2)
    assert predicted(two, 0.5, None).saved_share == 0.0
    assert predicted(two, 1.25, 2.0).score == pytest.approx(0.2)
    assert finding("a", 0.3, fixes=()).saved_share == 0.3
    assert Finding("a", "high", 1.0, "message", None).saved_share == 0.0


@given(st.permutations([finding(f"r{i}", lost) for i, lost in enumerate((0.3, 0.1, 0.1, 0.02, 0.5))]))
def test_reports_do_not_depend_on_the_order_of_rules(findings):
    assert order(*findings) == ["r4", "r0", "r1", "r2", "r3"]


@dataclass
class Halves:
    """Prices edits of a step of 1 s: each leaves `factor` of its own part of it, and is unsure by `off` of that."""

    steps_differ: float = 0.05  # s, half the range that has nothing to do with fixes
    mean_s: float = 1.0

    def price(self, edits):
        if any(edit.kind == "larger_batch" for edit in edits):
            return "does not show"
        saved = sum(1 - edit.coefficients["factor"] for edit in edits)
        mean = ranged(1 - saved, math.hypot(self.steps_differ, self.unsure(edits) * saved))
        return Predicted(mean, mean, Estimate(1 / mean.high, 1 / mean.likely, 1 / mean.low)) if edits else "nothing"

    def unsure(self, edits):
        return max((edit.coefficients["off"] for edit in edits), default=0.0)

    def why_not(self, rule):
        return "takes a trace" if rule == "trace" else ""


def fixed(rule, saved, off=0.1, kind="scale_host"):
    edit = Edit(kind, {"cause": rule}, {"factor": 1 - saved, "off": off})
    return replace(finding(rule, saved), fixes=(Fix("title", "change", "argument", 1.0, edits=(edit,)),))


def half(estimate):
    return (estimate.high - estimate.low) / 2


def test_the_first_of_the_order_is_as_unsure_as_it_is_alone():
    pricer = Halves()
    (found,), _ = priced([fixed("a", 0.3)], pricer)
    (made,) = sequence([found], pricer)
    alone = found.fixes[0].predicted
    assert half(made.predicted.step_time_mean_s) == pytest.approx(half(alone.step_time_mean_s))
    assert made.predicted.speedup.low == pytest.approx(alone.speedup.low)
    assert made.predicted.speedup.high == pytest.approx(alone.speedup.high)


def test_what_fixes_are_worth_together_is_no_surer_than_steps_are_alike():
    pricer = Halves()
    found, _ = priced([fixed("a", 0.3), fixed("b", 0.2, off=0.5)], pricer)
    first, both = sequence(found, pricer)
    parts = math.hypot(0.3 * 0.1, 0.2 * 0.5)
    assert half(first.predicted.step_time_mean_s) == pytest.approx(math.hypot(0.05, 0.3 * 0.1))
    assert half(both.predicted.step_time_mean_s) == pytest.approx(math.hypot(0.05, parts))


def test_what_is_asked_and_cannot_be_told_is_not_counted_in_silence():
    pricer = Halves()
    nothing = replace(finding("nothing", 0.2), fixes=(Fix("title", "change", "code"),))
    found, _ = priced(
        [fixed("a", 0.3), nothing, fixed("larger", 0.2, kind="larger_batch"), fixed("trace", 0.1)], pricer
    )
    told = asked(["a", "nothing", "larger", "trace", "gone"], found, pricer)
    assert told.predicted.step_time_mean_s.likely == pytest.approx(0.7)
    assert told.why_not == (
        "not found in this recording: gone; nothing is not counted: nothing; larger is not counted: does not show; "
        "trace is not counted: takes a trace"
    )
    alone = asked(["larger"], found, pricer)
    assert (alone.predicted, alone.why_not) == (None, "does not show")


def test_all_findings_of_a_rule_that_is_asked_for_count():
    pricer = Halves()
    found, _ = priced([fixed("a", 0.3), fixed("a", 0.1)], pricer)
    assert asked(["a"], found, pricer).predicted.step_time_mean_s.likely == pytest.approx(0.6)


def test_a_loss_that_nobody_knows_ranks_as_its_severity():
    unknown = replace(finding("a", 0.1), lost_share=None)
    assert order(finding("b", 0.03), unknown, finding("c", 0.2)) == ["c", "a", "b"]
