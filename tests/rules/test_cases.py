"""Every rule proves itself on the cases that it carries, reading only what it declares."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from whyidle.model.finding import Edit, Finding
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import all_rules
from whyidle.rules.base import Case, Rule

CASES = [
    pytest.param(rule, case, id=f"{rule.id}-{'fires' if case.fires else 'silent'}-{case.why}")
    for rule in all_rules()
    for case in rule.cases
]


class Declared(Measurements):
    """Measurements that may be asked only for the names that a rule declares."""

    def __init__(self, items: Iterable[Measurement], rule: type[Rule]) -> None:
        super().__init__(items)
        self._allowed = {name for names in rule.needs for name in names} | set(rule.uses)

    def _check(self, name: str) -> None:
        assert name in self._allowed, f"reads {name}, which is neither in needs nor in uses"

    def __contains__(self, name: str) -> bool:
        self._check(name)
        return super().__contains__(name)

    def one(self, name: str) -> Measurement:
        self._check(name)
        return super().one(name)

    def each(self, name: str) -> tuple[Measurement, ...]:
        self._check(name)
        return super().each(name)

    def number(self, name: str) -> float:
        self._check(name)
        return super().number(name)

    def get(self, name: str, default: float) -> float:
        self._check(name)
        return super().get(name, default)


def diagnose(rule: type[Rule], case: Case) -> list[Finding]:
    return list(rule().diagnose(Declared(case.measurements(), rule)))


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_speaks_when_it_should(rule: type[Rule], case: Case) -> None:
    assert not rule.missing(case.measurements()), "the case lacks what the rule needs"
    assert bool(diagnose(rule, case)) is case.fires, case.why


@pytest.mark.parametrize(("rule", "case"), [case for case in CASES if case.values[1].fires])
def test_a_finding_says_what_where_and_what_to_do(rule: type[Rule], case: Case) -> None:
    for finding in diagnose(rule, case):
        assert finding.rule == rule.id
        assert finding.message.endswith(".")
        assert "\n" not in finding.message
        assert "%" in finding.message, "the cost is part of the message"
        assert any(digit.isdigit() for digit in finding.seen), "what shows it has numbers"
        assert 0 < finding.confidence <= 1
        assert bool(finding.fixes) is (rule.id != "none.compute_bound")


@pytest.mark.parametrize(("rule", "case"), [case for case in CASES if case.values[1].fires])
def test_a_fix_can_be_pasted_and_replayed(rule: type[Rule], case: Case) -> None:
    for finding in diagnose(rule, case):
        for fix in finding.fixes:
            assert fix.title
            assert fix.change
            assert fix.risk
            measures = rule.id.startswith("curve.")  # a curve asks for the next measurement, which changes nothing
            assert bool(fix.edits) is not measures, "replay needs to know what the fix does"
            assert 0 < fix.applies <= 1
            for edit in fix.edits:
                assert edit.selector or edit.kind == "larger_batch"
                assert edit.coefficients.get("prior", 1.0) == 1.0
                settings = {"workers", "prefetch"} & set(edit.coefficients)
                assert not settings or "prior" in edit.coefficients, "what settings leave of a wait nobody measured"
                least, most = (1, 4) if edit.kind == "larger_batch" else (0, 1.2 if is_side_effect(edit) else 1)
                assert all(number >= 0 for number in edit.coefficients.values())
                assert least <= edit.coefficients.get("factor", 1.0) <= most, "no fix makes a loss negative"


def is_side_effect(edit: Edit) -> bool:
    """Say whether it is what else a fix does: workers take CPUs, and collectives multiprocessors, from what runs."""
    return edit.selector.get("cause") == "host" or "slowdown" in edit.coefficients


@pytest.mark.parametrize(("rule", "case"), [case for case in CASES if case.values[1].fires])
def test_locations_are_those_of_a_measurement(rule: type[Rule], case: Case) -> None:
    from whyidle.model.finding import Location

    places = {name: (Location("trace.json", step=number),) for number, name in enumerate(case.given)}
    items = [Measurement(name, value, locations=places[name]) for name, value in case.given.items()]
    for finding in rule().diagnose(Measurements(items)):
        assert finding.locations in places.values()
