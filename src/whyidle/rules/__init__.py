"""Measurements in, findings out. One file per rule; `all_rules` finds them."""

from __future__ import annotations

from functools import cache

import whyidle.rules as package
from whyidle.discover import discover
from whyidle.model.finding import Finding, Unknown
from whyidle.model.measurement import CATALOG, Measurements
from whyidle.rules.base import Rule


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Return every rule, in order of id."""
    return tuple(sorted(discover(package, Rule), key=lambda rule: rule.id))


def ask(m: Measurements) -> tuple[list[Finding], list[Unknown]]:
    """Ask every rule that has its evidence; name what the others lack."""
    findings: list[Finding] = []
    unknown: list[Unknown] = []
    for rule in all_rules():
        missing = rule.missing(m)
        if missing:
            ways = dict.fromkeys(CATALOG[name].how for name in missing)
            how = "; ".join(way for way in ways if not any(way in other for other in ways if other != way))
            unknown.append(Unknown(rule.id, missing, how))
        else:
            findings += rule().diagnose(m)
    return findings, unknown
