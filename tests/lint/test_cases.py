"""Every check proves itself on the cases that it carries."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.base import Case, Check
from whyidle.lint.checks import all_checks, ask
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
