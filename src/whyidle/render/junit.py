"""JUnit's XML, which every CI server reads: a test case per finding."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from whyidle.model.finding import Finding, Report
from whyidle.render.advice import advice, unread
from whyidle.render.base import Look, Renderer
from whyidle.render.places import file_line, in_source, spot
from whyidle.render.words import clean

# What XML 1.0 has no way to write, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnit(Renderer):
    """Test cases fail where the exit code says so: at medium severity and above."""

    format = "junit"

    def render(self, report: Report, look: Look) -> str:
        cases = [_case(finding) for finding in report.findings] + list(_others(report))
        return document(cases, look)


def document(cases: Sequence[str], look: Look) -> str:
    """Return test cases, each an element, as a document."""
    counts = {
        "tests": len(cases),
        "failures": sum("<failure " in case for case in cases),
        "errors": sum("<error " in case for case in cases),
        "skipped": sum("<skipped " in case for case in cases),
    }
    about = {"name": "whyidle"} | {name: str(count) for name, count in counts.items()}
    suites = element("testsuites", about, element("testsuite", about, *cases))
    whole = f'<?xml version="1.0" encoding="UTF-8"?>\n{suites}'
    return whole if look.unicode else whole.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _case(finding: Finding) -> str:
    place = in_source(finding)
    about = {"classname": finding.rule, "name": finding.rule}
    if place is not None:
        about |= {"name": spot(place), "file": place.file}
        about |= {"line": str(line)} if (line := file_line(place)) is not None else {}
    if finding.severity == "low":
        return element("testcase", about, element("system-out", {}, text(advice(finding)) + "\n"))
    said = {"type": finding.rule, "message": clean(finding.message)}
    return element("testcase", about, element("failure", said, text(advice(finding)) + "\n"))


def _others(report: Report) -> Iterator[str]:
    """Yield what could not be read or judged, and where all is well a test case that passes."""
    for path, why in unread(report):
        about = {"classname": "whyidle", "name": path, "file": path}
        yield element("testcase", about, element("skipped", {"message": f"not read: {clean(why)}"}))
    verdict = clean(report.summary.verdict)
    if not report.judged:
        told = element("error", {"type": "not judged", "message": verdict})
        yield element("testcase", {"classname": "whyidle", "name": "verdict"}, told)
    elif not report.findings:
        yield element("testcase", {"classname": "whyidle", "name": verdict})


def element(name: str, attributes: dict[str, str], *inside: str) -> str:
    """Return an element with what stands in it: elements, or text that is escaped already."""
    told = "".join(f' {key}="{text(clean(value))}"' for key, value in attributes.items())
    if not inside:
        return f"<{name}{told} />\n"
    first = "\n" if inside[0].startswith("<") else ""
    return f"<{name}{told}>{first}{''.join(inside)}</{name}>\n"


def text(said: str) -> str:
    """Return text as XML has it."""
    return html.escape(_FORBIDDEN.sub("", said))
