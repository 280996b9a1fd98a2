"""Every fix that a check offers, made in its own cases: it is Python, keeps comments, and leaves nothing to fix."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from textwrap import dedent

import pytest

from whyidle.lint.base import Case, Check, Invalid
from whyidle.lint.checks import all_checks
from whyidle.lint.findings import Linted, linted
from whyidle.lint.fixing import Fixed, fixed
from whyidle.lint.project import Project
from whyidle.lint.repair import Remove
from whyidle.lint.source import Source

CASES = [
    pytest.param(check, case, id=f"{check.name}-{case.why}")
    for check in all_checks()
    for case in check.cases
    if isinstance(case, Invalid)
]


def found(check: type[Check], source: Source) -> list[Linted]:
    return linted(source, Project(), [check])


def mended(check: type[Check], code: str) -> Fixed:
    source = Source(Path("job.py"), "job.py", code, ast.parse(code))
    return fixed(source, code.encode(), found(check, source), lambda new: found(check, new), unsafe=True)


def comments(code: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize(("check", "case"), CASES)
def test_a_fix_leaves_nothing_to_fix(check: type[Check], case: Case) -> None:
    result = mended(check, case.code)
    code = result.data.decode()
    if not result.applied:
        assert code == case.code
        return
    ast.parse(code)
    repairs = [one.hit.repair for one in result.applied]
    removes = any(isinstance(change, Remove) for repair in repairs if repair for change in repair.changes)
    if not removes:
        assert comments(code) == comments(case.code)
    assert mended(check, code).data == result.data
    still = {one.finding.message for one in found(check, result.source) if one.hit.repair is not None}
    assert not still, "mended, and still found"


@pytest.mark.parametrize(("check", "case"), CASES)
def test_what_to_type_is_python(check: type[Check], case: Case) -> None:
    """Commands of a shell stand in comments of it."""
    source = Source(Path("job.py"), "job.py", case.code, ast.parse(case.code))
    for one in found(check, source):
        ast.parse(dedent(one.hit.change))
        assert one.hit.repair is None or one.hit.repair.safe or one.hit.repair.note, "unsafe, and does not say why"
