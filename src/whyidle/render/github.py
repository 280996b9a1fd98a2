"""Annotations for GitHub Actions: lines of a job's log that show at the lines of a pull request.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from whyidle.model.finding import Finding, Report, Severity
from whyidle.render.advice import advice, unread
from whyidle.render.base import Look, Renderer
from whyidle.render.places import file_line, in_source
from whyidle.render.words import clean

_COMMAND: Mapping[Severity, str] = {"high": "error", "medium": "warning", "low": "notice"}
_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


class GitHub(Renderer):
    """One workflow command per finding, below the verdict as a line of the log."""

    format = "github"

    def render(self, report: Report, look: Look) -> str:
        # The name stands before it, so that no text of a file can begin a line and be taken for a command.
        lines = [f"whyidle: {clean(report.summary.verdict)}", *map(_annotation, report.findings), *_unread(report)]
        text = "\n".join(lines) + "\n"
        return text if look.unicode else text.encode("ascii", "replace").decode("ascii")


def _annotation(finding: Finding) -> str:
    properties = {}
    place = in_source(finding)
    if place is not None:
        properties["file"] = clean(place.file)
        if (line := file_line(place)) is not None:
            properties |= {"line": str(line)} | ({"col": str(place.column)} if place.column is not None else {})
    return command(_COMMAND[finding.severity], properties | {"title": clean(finding.rule)}, advice(finding))


def _unread(report: Report) -> Iterator[str]:
    for path, why in unread(report):
        yield command("warning", {"file": clean(path), "title": "not read"}, clean(why))


def command(name: str, properties: Mapping[str, str], message: str) -> str:
    """Return a workflow command: "error", "warning" or "notice"."""
    told = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{name} {told}::{message.translate(_MESSAGE)}"
