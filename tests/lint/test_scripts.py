"""What lint says of public training scripts whose stalls are known, and of public cases told as source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.scripts import findings, known, lines, scripts

FOUND = 0.9  # of provable stalls, at least
FLAGGED = 0.05  # of lines that only look like one, at most


def test_stalls_of_public_scripts_are_found_and_look_alikes_left_alone() -> None:
    missed, flagged, provable, decoys = [], [], 0, 0
    for script in scripts():
        found = lines(findings(script.path))
        for stall in script.stalls:
            if stall["certainty"] == "provable":
                provable += 1
                if stall["line"] not in found:
                    missed.append(f"{script.name}:{stall['line']} {stall['token']}")
        for decoy in script.decoys:
            decoys += 1
            if decoy["line"] in found:
                flagged.append(f"{script.name}:{decoy['line']} {decoy['token']}")
    assert len(missed) <= (1 - FOUND) * provable, missed
    assert len(flagged) <= FLAGGED * decoys, flagged


def test_clean_scripts_are_clean() -> None:
    for script in scripts():
        if script.verdict in {"clean", "clean_in_train"}:
            grave = [one for one in findings(script.path) if one.severity != "low"]
            assert not grave, script.name


def test_faults_of_public_cases_are_found_and_look_alikes_left_alone(tmp_path: Path) -> None:
    missed, flagged, faults, decoys = [], [], 0, 0
    for case in known("cases.json"):
        given = case["minimal_input"]
        assert isinstance(given, dict)
        if given["kind"] != "source":
            continue
        path = tmp_path / f"{case['id']}.py"
        path.write_text(given["code"], "utf-8")
        found = lines(findings(path))
        faults += len(given["fault_lines"])
        decoys += len(given["decoy_lines"])
        missed += [f"{case['id']}:{line}" for line in given["fault_lines"] if line not in found]
        flagged += [f"{case['id']}:{line}" for line in given["decoy_lines"] if line in found]
        rules = {finding.rule for place in found.values() for finding in place}
        assert case["expected_cause"] in rules | {"none.clean"}, case["id"]
    if not faults:
        pytest.skip("no cases of kind source here")
    assert len(missed) <= (1 - FOUND) * faults, missed
    assert len(flagged) <= FLAGGED * decoys, flagged
