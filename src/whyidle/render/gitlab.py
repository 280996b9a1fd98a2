"""GitLab's Code Quality report: findings that show in a merge request.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

from collections.abc import Mapping

from whyidle.model.finding import Finding, Location, Report, Severity
from whyidle.render.advice import advice
from whyidle.render.base import Look, Renderer
from whyidle.render.fingerprint import fingerprints
from whyidle.render.json import dumps
from whyidle.render.places import file_line, in_source

_SEVERITY: Mapping[Severity, str] = {"high": "critical", "medium": "major", "low": "minor"}


class GitLab(Renderer):
    """A list with one object per finding."""

    format = "gitlab"

    def render(self, report: Report, look: Look) -> str:
        files = [file.path for file in report.run.evidence]
        issues = [
            {
                "description": advice(finding),
                "check_name": finding.rule,
                "fingerprint": name,
                "severity": _SEVERITY[finding.severity],
                "location": _location(finding, files),
            }
            for finding, name in zip(report.findings, fingerprints(report.findings), strict=True)
        ]
        return dumps(issues, ascii_only=not look.unicode)


def _location(finding: Finding, files: list[str]) -> dict[str, object]:
    """Return a path and a line, which the format asks for: of recordings and notebooks the first."""
    place = in_source(finding) or next(iter(finding.locations), None) or Location(files[0] if files else ".")
    path = place.file.replace("\\", "/").removeprefix("./")
    return {"path": path, "lines": {"begin": file_line(place) or 1}}
