"""SARIF as code hosts read it: it follows the standard, each place can be found, and names outlive moved lines."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.render import linted
from tests.render.sarif_schema import LOG
from whyidle.diagnosis import diagnose
from whyidle.model.finding import Location, Report
from whyidle.render import render
from whyidle.render.problems import known

REPORTS = ["one_finding", "many", "ranks", "healthy", "not_judged", "predicted"]


def schemas() -> list[Any]:
    """Return what to validate against: what we wrote of the standard, and the published schema where it is named."""
    named = os.environ.get("WHYIDLE_SARIF_SCHEMA")
    return [LOG, *([json.loads(Path(named).read_text("utf-8"))] if named else [])]


def log(report: Report) -> Any:
    return json.loads(render(report, "sarif"))


def run(report: Report) -> Any:
    (only,) = log(report)["runs"]
    return only


def valid(report: Report) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason='pip install -e ".[test]"')
    for schema in schemas():
        jsonschema.validate(log(report), schema)


@pytest.mark.parametrize("make", [linted.linted, linted.much_linted, linted.clean_source])
def test_a_lint_report_is_valid(make: Any) -> None:
    valid(make())


@pytest.mark.parametrize("name", REPORTS)
def test_the_report_of_a_recording_is_valid(name: str, request: pytest.FixtureRequest) -> None:
    valid(request.getfixturevalue(name))


def test_a_slip_is_seen() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason='pip install -e ".[test]"')
    wrong = log(linted.linted())
    wrong["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    for schema in schemas():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_results_name_their_rules() -> None:
    found = run(linted.much_linted())
    rules = found["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules) == 3
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in found["results"])
    read = next(rule for rule in rules if rule["id"] == "sync.scalar_read")
    assert "`" not in read["shortDescription"]["text"]
    assert "## When to ignore it" in read["help"]["markdown"]


def test_level_is_severity() -> None:
    report = linted.linted()
    report = replace(report, findings=(replace(report.findings[0], severity="high"), *report.findings[1:]))
    assert [result["level"] for result in run(report)["results"]] == ["error", "warning", "warning", "note", "note"]


def test_a_place_in_source() -> None:
    first, second, *_ = run(linted.linted())["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 41, "startColumn": 20}
    assert place["contextRegion"]["snippet"]["text"] == "        running += loss.item()"
    assert [other["physicalLocation"]["region"]["startLine"] for other in first["relatedLocations"]] == [52]
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "data/images%20%26%20more.py"


@pytest.mark.parametrize(
    ("path", "uri", "relative"),
    [
        ("./a/b.py", "a/b.py", True),
        ("a\\b.py", "a/b.py", True),
        ("ünï.py", "%C3%BCn%C3%AF.py", True),
        ("a:b#c?.py", "a%3Ab%23c%3F.py", True),
        ("broken\udcff.py", "broken%FF.py", True),
        ("/srv/a b.py", "file:///srv/a%20b.py", False),
        ("C:\\code\\a.py", "file:///C:/code/a.py", False),
    ],
)
def test_paths_are_uris(path: str, uri: str, relative: bool) -> None:
    report = linted.linted()
    finding = replace(report.findings[0], locations=(Location(path, 1, 1, "x"),))
    (result,) = run(replace(report, findings=(finding,)))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": uri} | ({"uriBaseId": "%SRCROOT%"} if relative else {})


def test_a_place_in_a_recording_is_said_in_words(one_finding: Report) -> None:
    (result,) = run(one_finding)["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("trace.json.gz")
    assert "region" not in place["physicalLocation"]
    assert "rank 0, step 7" in place["message"]["text"]


def test_of_a_recording_with_its_source_the_line_comes_first(one_finding: Report) -> None:
    recorded = one_finding.findings[0].locations
    finding = replace(one_finding.findings[0], locations=(*recorded, Location("train.py", 12, 14, "loader = x")))
    report = replace(one_finding, findings=(finding,))
    valid(report)
    (result,) = run(report)["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 12
    assert len(result["relatedLocations"]) == len(recorded)


def test_every_result_has_a_place(many: Report) -> None:
    report = replace(many, findings=tuple(replace(one, locations=()) for one in many.findings))
    valid(report)
    for result in run(report)["results"]:
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == many.run.evidence[0].path


def test_a_real_run_with_its_source(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from torch.utils.data import DataLoader\n\nloader = DataLoader(data, batch_size=64)\n", "utf-8")
    recording = Path(__file__).parents[1] / "runs" / "watched" / "loader-workers-0"
    report = diagnose(recording, source=script)
    valid(report)
    assert all(result["locations"] for result in run(report)["results"])


def test_what_was_not_read_is_a_notification(not_judged: Report) -> None:
    (invocation,) = run(linted.linted())["invocations"]
    assert invocation["executionSuccessful"] is True
    unread, warned = invocation["toolExecutionNotifications"]
    assert unread["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "old/two.py"
    assert warned["message"]["text"].startswith("old/settings.ini")
    (invocation,) = run(not_judged)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [told["level"] for told in invocation["toolExecutionNotifications"]] == ["error"]


def test_braces_are_no_placeholders() -> None:
    report = linted.linted()
    finding = replace(report.findings[0], message='f"{loss}" reads.', fixes=())
    (result,) = run(replace(report, findings=(finding,)))["results"]
    assert result["message"]["text"] == 'f"{{loss}}" reads.'


def prints(report: Report) -> list[str]:
    return [result["partialFingerprints"]["whyidle/v1"] for result in run(report)["results"]]


def test_names_outlive_moved_lines_and_tell_equal_ones_apart() -> None:
    report = linted.much_linted()
    before = prints(report)
    assert len(set(before)) == len(before)
    moved = []
    for finding in report.findings:
        place, *others = finding.locations
        assert place.line is not None
        place = replace(place, line=place.line + 7, excerpt=f"    {place.excerpt}")
        moved.append(replace(finding, message="99 times", locations=(place, *others)))
    assert prints(replace(report, findings=tuple(moved))) == before
    other = replace(report.findings[0], locations=(replace(report.findings[0].locations[0], excerpt="y.item()"),))
    assert prints(replace(report, findings=(other,)))[0] not in before


def test_a_rule_that_nobody_knows_is_named() -> None:
    report = linted.linted()
    finding = replace(report.findings[0], rule="made.up")
    assert "made.up" not in known()
    assert run(replace(report, findings=(finding,)))["tool"]["driver"]["rules"] == [{"id": "made.up"}]


def test_a_notebook_has_cells_and_no_lines() -> None:
    valid(linted.notebook())
    (result,) = run(linted.notebook())["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]
    assert result["locations"][0]["message"]["text"] == "cell 3, line 5"


def test_a_name_makes_no_link(one_finding: Report) -> None:
    """Of "[text](address)" code hosts make one (3.11.6); code to type stays as it is."""
    message = "[mend](https://evil.example) [1](1), layers[0](batch)"
    evil = replace(one_finding, findings=tuple(replace(one, message=message) for one in one_finding.findings))
    text = run(evil)["results"][0]["message"]["text"]
    assert "](https" not in text
    assert "](1)" not in text
    assert "layers[0](batch)" in text
