"""What every rule has to declare: identity, evidence, thresholds with sources, and a docs page."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import whyidle.rules
from whyidle.model.measurement import CATALOG, Measurements
from whyidle.rules import all_rules, ask
from whyidle.rules.base import Rule, Threshold

HEADINGS = ["## Why it costs time", "## How we know", "## When to ignore it"]
EVERY_RULE = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in all_rules()]
    assert len(ids) == len(set(ids))


@EVERY_RULE
def test_a_file_holds_one_rule_and_names_it(rule: type[Rule]) -> None:
    file = Path(inspect.getfile(rule)).relative_to(Path(whyidle.rules.__file__).parent)
    assert rule.id == ".".join(file.with_suffix("").parts)
    assert rule.__name__ == "".join(word.capitalize() for word in file.stem.split("_"))
    assert [other.id for other in all_rules() if other.__module__ == rule.__module__] == [rule.id]


def test_ids_are_those_of_the_taxonomy(corpus: Path) -> None:
    taxonomy = corpus.parent / "cases" / "taxonomy.json"
    if not taxonomy.is_file():
        pytest.skip("no taxonomy of causes beside the corpus")
    ours = {"curve.data_wait"}  # what a trainer prints is no cause of its own: its candidates are
    assert {rule.id for rule in all_rules()} - ours <= set(json.loads(taxonomy.read_text(encoding="utf-8")))


@EVERY_RULE
def test_evidence_is_in_the_catalog(rule: type[Rule]) -> None:
    assert rule.needs
    for name in [name for names in (*rule.needs, rule.uses) for name in names]:
        assert name in CATALOG


@EVERY_RULE
def test_nothing_is_read_twice(rule: type[Rule]) -> None:
    assert len(rule.uses) == len(set(rule.uses))


@EVERY_RULE
def test_numbers_are_thresholds_with_unit_and_source(rule: type[Rule]) -> None:
    for name, value in vars(rule).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert isinstance(value, Threshold), name
            assert value.unit, name
            assert value.source, name


@EVERY_RULE
def test_the_docstring_is_a_page(rule: type[Rule]) -> None:
    page = inspect.getdoc(rule)
    assert page is not None
    lines = page.splitlines()
    assert lines[0].endswith("."), "the first line says what it is"
    headings = [line for line in lines if line.startswith("#")]
    assert headings == HEADINGS
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = page.split(heading, 1)[1]
        assert len((body.split(following, 1)[0] if following else body).split()) >= 10, f"{heading} says nothing"


def test_without_evidence_all_is_unknown_and_nothing_healthy() -> None:
    findings, unknown = ask(Measurements())
    assert findings == []
    assert {item.rule for item in unknown} == {rule.id for rule in all_rules()}
    assert all(item.missing and item.how for item in unknown)
