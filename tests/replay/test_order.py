"""The order in which to make fixes: each on top of those before it, and what they are worth together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from whyidle.model.finding import Edit, Effort, Estimate, Finding, Fix, Predicted
from whyidle.rank import asked, best, priced, rank, sequence

DATA, HOST, NONE = (Edit("scale_host", {"cause": cause}) for cause in ("data_wait", "python", "gc"))


class Job:
    """A step of 100 ms: 60 are waits for data, of which 20 are also the host's; 10 more are the host's alone."""

    mean_s = 0.1

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        if NONE in edits:
            return "nobody knows"
        left = {(False, False): 100, (True, False): 40, (False, True): 70, (True, True): 30}[
            DATA in edits, HOST in edits
        ]
        one = Estimate(left * 0.9e-3, left * 1e-3, left * 1.1e-3)
        speedup = Estimate(*(self.mean_s / step for step in (one.high, one.likely, one.low)))
        return Predicted(one, one, speedup)

    def why_not(self, rule: str) -> str:
        return "not this rule" if rule == "hw.thermal" else ""

    def unsure(self, edits: Sequence[Edit]) -> float:
        return 0.1


def finding(rule: str, edit: Edit, effort: Effort = "argument", **more: float) -> Finding:
    fix = Fix(f"mend {rule}", "…", effort, 1.0, edits=(edit,), **more)
    return Finding(rule, "high", 1.0, "", 0.5, fixes=(fix,))


@pytest.fixture
def found() -> tuple[Finding, ...]:
    findings = [
        finding("host.python_overhead", HOST),
        finding("input.workers_zero", DATA),
        finding("host.gc_pause", NONE),
    ]
    return rank(priced(findings, Job())[0])


def test_the_best_first_then_what_it_leaves(found: tuple[Finding, ...]) -> None:
    first, second = sequence(found, Job())
    assert (first.rule, first.then, first.saved_share) == (
        "input.workers_zero",
        "host.python_overhead",
        pytest.approx(0.6),
    )
    assert (second.rule, second.then, second.saved_share) == ("host.python_overhead", "", pytest.approx(0.1))
    assert second.predicted.step_time_mean_s.likely == pytest.approx(0.03)  # not 100 - 60 - 30


def test_together_they_are_as_unsure_as_their_parts(found: tuple[Finding, ...]) -> None:
    last = sequence(found, Job())[-1].predicted.step_time_mean_s
    assert last.high - last.likely == pytest.approx((6**2 + 1**2) ** 0.5 * 1e-3, rel=1e-6)
    assert last.likely - last.low == pytest.approx(last.high - last.likely)


def test_effort_and_probability_decide_between_savings() -> None:
    cheap = priced([finding("a.cheap", HOST), finding("b.dear", DATA, "code")], Job())[0]
    assert [one.rule for one in sequence(cheap, Job())] == ["a.cheap", "b.dear"]
    assert sequence(cheap, Job())[0].then == "b.dear"


def test_what_saves_nothing_is_not_in_it(found: tuple[Finding, ...]) -> None:
    again = (*found, *priced([finding("input.storage", DATA)], Job())[0])
    assert [one.rule for one in sequence(again, Job())] == ["input.workers_zero", "host.python_overhead"]
    assert sequence((), Job()) == ()


def test_why_a_fix_has_no_price() -> None:
    findings, why = priced([finding("hw.thermal", HOST), finding("host.gc_pause", NONE)], Job())
    assert why == {"hw.thermal": "not this rule", "host.gc_pause": "nobody knows"}
    assert all(fix.predicted is None for one in findings for fix in one.fixes)


def test_a_combination_that_somebody_asks_for(found: tuple[Finding, ...]) -> None:
    both = asked(["host.python_overhead", "input.workers_zero"], found, Job())
    assert both.predicted is not None
    assert both.predicted.step_time_mean_s.likely == pytest.approx(0.03)
    part = asked(["input.workers_zero", "sync.scalar_read"], found, Job())
    assert part.predicted is not None
    assert "sync.scalar_read" in part.why_not
    assert asked(["host.gc_pause"], found, Job()).predicted is None


def test_of_several_fixes_the_one_that_its_rule_prefers() -> None:
    """Unless another is worth twice as much; a larger batch, which changes what is learned, comes last."""

    def fix(title: str, saves: float, per: Literal["step", "sample"] = "step") -> Fix:
        step = Estimate(0.1 - saves, 0.1 - saves, 0.1 - saves)
        return Fix(title, "…", "setting", 1.0, predicted=Predicted(step, step, step, per=per))

    def chosen(*fixes: Fix) -> str | None:
        first = best(Finding("host.launch_bound", "high", 1.0, "", 0.5, fixes=fixes), 0.1)
        return first.title if first else None

    assert chosen(fix("graphs", 0.02), fix("other", 0.03)) == "graphs"
    assert chosen(fix("graphs", 0.01), fix("other", 0.03)) == "other"
    assert chosen(fix("graphs", 0.01), fix("batch", 0.05, "sample")) == "graphs"
    assert chosen(fix("graphs", -0.01), fix("batch", 0.05, "sample")) == "batch"
    assert chosen(fix("graphs", 0.0)) is None
