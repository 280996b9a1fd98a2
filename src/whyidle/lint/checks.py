"""Every check that there is, found by walking the package."""

from __future__ import annotations

from functools import cache

import whyidle.lint.rules
from whyidle.discover import discover
from whyidle.lint.base import Check


@cache
def all_checks() -> tuple[type[Check], ...]:
    """Return every check, in order of its name."""
    return tuple(discover(whyidle.lint.rules, Check))
