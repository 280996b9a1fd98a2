"""Every check proves itself on the cases that it carries."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.base import Case, Check
from whyidle.lint.checks import _watching, all_checks, ask
from whyidle.lint.project import Project
from whyidle.lint.source import Source

CASES = [
    pytest.param(check, case, id=f"{check.name}-{type(case).__name__.lower()}-{case.why}")
    for check in all_checks()
    for case in check.cases
]


@pytest.mark.parametrize(("check", "case"), CASES)
def test_speaks_where_it_should_and_nowhere_else(check: type[Check], case: Case) -> None:
    source = Source(Path("job.py"), "job.py", case.code, ast.parse(case.code))
    found = ask([check], source, Project())
    assert sorted({one.hit.node.lineno for one in found}) == list(case.lines), case.why
    for one in found:
        assert one.hit.message.endswith(".")
        assert "\n" not in one.hit.message
        assert one.hit.severity in {"medium", "low"}, "only a run can say high"
        assert 0 < one.hit.confidence <= 1
        assert bool(one.hit.title) is bool(one.hit.change)


TOLD_OF_SOME = [check for check in all_checks() if check.calls]


@pytest.mark.parametrize("check", TOLD_OF_SOME, ids=lambda check: check.name)
def test_the_calls_that_a_check_is_told_of_are_all_that_it_speaks_of(
    check: type[Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [
        case.code
        for other in all_checks()
        if other.rule.split(".")[0] == check.rule.split(".")[0]
        for case in other.cases
    ]
    sources = [Source(Path("job.py"), "job.py", code, ast.parse(code)) for code in codes]

    def said() -> list[list[tuple[int, str]]]:
        return [[(one.hit.node.lineno, one.hit.message) for one in ask([check], each, Project())] for each in sources]

    some = said()
    monkeypatch.setattr(check, "calls", frozenset())
    _watching.cache_clear()
    assert said() == some
    _watching.cache_clear()
