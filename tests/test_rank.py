"""The order in which to fix things."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.finding import Estimate, Finding, Fix, Predicted, severity_of
from whyidle.rank import rank


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
