"""The order in which to fix things."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.finding import Finding, Fix, severity_of
from whyidle.rank import rank


def finding(rule, lost, confidence=1.0, fixes=(("argument", 1.0),)):
    built = tuple(Fix("title", "change", effort, applies) for effort, applies in fixes)
    return Finding(rule, severity_of(lost) or "low", confidence, "message", lost, fixes=built)


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


@given(st.permutations([finding(f"r{i}", lost) for i, lost in enumerate((0.3, 0.1, 0.1, 0.02, 0.5))]))
def test_reports_do_not_depend_on_the_order_of_rules(findings):
    assert order(*findings) == ["r4", "r0", "r1", "r2", "r3"]
