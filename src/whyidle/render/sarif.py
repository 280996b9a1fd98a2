"""SARIF 2.1.0, in which code hosts and editors take findings.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; names of sections below are those of that document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias
from urllib.parse import quote

from whyidle._version import __version__
from whyidle.model.finding import Finding, Location, Report, Severity
from whyidle.render.advice import advice, unread, warnings
from whyidle.render.base import Look, Renderer
from whyidle.render.fingerprint import fingerprints
from whyidle.render.json import dumps
from whyidle.render.passages import place
from whyidle.render.places import cell, file_line
from whyidle.render.problems import Problem, known, markdown
from whyidle.render.words import clean

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # what relative paths are relative to: the folder in which whyidle was started

_LEVEL: Mapping[Severity, str] = {"high": "error", "medium": "warning", "low": "note"}
# A link within a message (3.11.6): "[text](an address, or the number of a place)".
_LINK = re.compile(r"\](?=\((?:\d+\)|[A-Za-z][\w+.\-]*:))")
_APART = "\N{ZERO WIDTH SPACE}"
_DRIVE = re.compile(r"[A-Za-z]:/")
Object: TypeAlias = dict[str, object]


class Sarif(Renderer):
    """One run of one tool."""

    format = "sarif"

    def render(self, report: Report, look: Look) -> str:
        rules = list(dict.fromkeys(finding.rule for finding in report.findings))
        problems = known()
        names = fingerprints(report.findings)
        run = {
            "tool": {
                "driver": {
                    "name": "whyidle",
                    "semanticVersion": __version__,
                    "rules": [_rule(name, problems.get(name)) for name in rules],
                }
            },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {ROOT: {"description": _message("The folder in which whyidle was started.")}},
            "invocations": [
                {"executionSuccessful": report.judged, "toolExecutionNotifications": list(_notifications(report))}
            ],
            "results": [
                _result(_placed(finding, report), rules.index(finding.rule), name)
                for finding, name in zip(report.findings, names, strict=True)
            ],
        }
        return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ascii_only=not look.unicode)


def _rule(name: str, problem: Problem | None) -> Object:
    if problem is None:
        return {"id": name}
    page = _message(markdown(problem))
    return {
        "id": name,
        "shortDescription": _message(problem.summary.replace("`", "")),
        "help": page | {"markdown": page["text"]},
        "properties": {"tags": ["performance", name.partition(".")[0]]},
    }


def _placed(finding: Finding, report: Report) -> Finding:
    """Return a finding with lines of source first, as code hosts show the first place only; it has one at least.

    GitHub takes no result without a place
    (https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning).
    """
    places = sorted(finding.locations, key=lambda place: place.line is None)
    if not places:
        places = [Location(file.path, rank=file.rank) for file in report.run.evidence[:1]]
    return replace(finding, locations=tuple(places))


def _result(finding: Finding, index: int, fingerprint: str) -> Object:
    first, *others = finding.locations or (None,)
    result: Object = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVEL[finding.severity],
        "message": _message(advice(finding)),
        "locations": [] if first is None else [_location(first)],
        "partialFingerprints": {"whyidle/v1": fingerprint},
        "properties": {"confidence": finding.confidence, "lost_share": finding.lost_share},
    }
    if others:
        result["relatedLocations"] = [_location(other) for other in others if other is not None]
    return result


def _location(location: Location) -> Object:
    """Return a place: of source with its line, of a recording with what says where in it in words."""
    physical: Object = {"artifactLocation": _artifact(location.file)}
    line = file_line(location)
    if line is None:
        return {"physicalLocation": physical, "message": _message(cell(location) or place(location))}
    region: Object = {"startLine": line}
    if location.column is not None:
        region["startColumn"] = location.column
    physical["region"] = region
    if location.excerpt:  # the whole line, which is more than the region
        physical["contextRegion"] = {"startLine": line, "snippet": {"text": clean(location.excerpt)}}
    return {"physicalLocation": physical}


def _artifact(path: str) -> Object:
    """Return a path as a URI (3.4): relative ones with what they are relative to, absolute ones by themselves."""
    path = path.replace("\\", "/").removeprefix("./")
    if _DRIVE.match(path):
        return {"uri": f"file:///{path[:2]}{quote(path[2:], errors='surrogateescape')}"}
    if path.startswith("/"):
        return {"uri": f"file://{quote(path, errors='surrogateescape')}"}
    return {"uri": quote(path, errors="surrogateescape"), "uriBaseId": ROOT}


def _notifications(report: Report) -> Iterator[Object]:
    """Yield what went wrong meanwhile (3.58): files of source that were not read, warnings, why nothing was judged."""
    for path, why in unread(report):
        where = {"physicalLocation": {"artifactLocation": _artifact(path)}}
        yield {"level": "warning", "message": _message(f"not read: {clean(why)}"), "locations": [where]}
    for warning in warnings(report):
        yield {"level": "warning", "message": _message(clean(warning))}
    if not report.judged:
        yield {"level": "error", "message": _message(clean(report.summary.verdict))}


def _message(text: str) -> Object:
    """Return a text as a message, in which single braces would be placeholders (3.11.5), and no name makes a link."""
    return {"text": _LINK.sub(f"]{_APART}", text.replace("{", "{{").replace("}", "}}"))}
