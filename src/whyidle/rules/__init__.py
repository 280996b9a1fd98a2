"""Measurements in, findings out. One file per rule; `all_rules` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import whyidle.rules as package
from whyidle.discover import discover
from whyidle.model.finding import Finding, Unknown
from whyidle.model.measurement import CATALOG, Measurements
from whyidle.rules.base import Rule


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Return every rule, in order of id."""
    return tuple(sorted(discover(package, Rule), key=lambda rule: rule.id))


def ask(m: Measurements, done: Mapping[str, str] = MappingProxyType({})) -> tuple[list[Finding], list[Unknown]]:
    """Ask every rule that has its evidence; name what the others lack.

    Args:
        m: what was measured.
        done: ways to measure that were gone already, and what else they take: what they did not give now there is
            not, and a rule that needs it does not apply, where nothing is said.
    """
    findings: list[Finding] = []
    unknown: list[Unknown] = []
    for rule in all_rules():
        if not rule.missing(m):
            findings += rule().diagnose(m)
            continue
        lacks = (tuple(name for name in names if name not in m) for names in rule.needs)
        missing = min(
            (names for names in lacks if all(done.get(CATALOG[n].how, "more") for n in names)), key=len, default=()
        )
        if missing:
            ways = dict.fromkeys(done.get(CATALOG[name].how, CATALOG[name].how) for name in missing)
            how = "; ".join(way for way in ways if not any(way in other for other in ways if other != way))
            unknown.append(Unknown(rule.id, missing, how))
    return findings, unknown
