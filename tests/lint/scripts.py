"""Scripts and cases with known stalls that lie beside the project: where they are, and what is known of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from whyidle.lint import lint
from whyidle.model.finding import Finding

CASES = Path(os.environ.get("WHYIDLE_CASES", ROOT.parent / "shared" / "cases"))


@dataclass(frozen=True)
class Script:
    """A public training script at a commit."""

    path: Path
    name: str
    verdict: str
    stalls: tuple[dict[str, object], ...]  # line, token, cause, certainty
    decoys: tuple[dict[str, object], ...]


def known(file: str) -> list[dict[str, object]]:
    """Return what a file of cases lists."""
    path = CASES / file
    if not path.is_file():
        pytest.skip(f"no {file} here: set WHYIDLE_CASES to the folder of cases")
    content = json.loads(path.read_text("utf-8"))
    return list(content["scripts"] if isinstance(content, dict) else content)


def scripts() -> list[Script]:
    """Return the scripts that are listed and that WHYIDLE_SCRIPTS holds, at <owner>__<name>/<path>."""
    folder = os.environ.get("WHYIDLE_SCRIPTS")
    if not folder:
        pytest.skip("no scripts here: set WHYIDLE_SCRIPTS to a folder with the files of lint_scripts.json")
    made = []
    for one in known("lint_scripts.json"):
        path = Path(folder) / str(one["repo"]).replace("/", "__") / str(one["path"])
        stalls = (*one["real_stalls"], *one["loader_findings"])  # type: ignore[misc]
        decoys = tuple(one["looks_like_stall_but_is_not"])  # type: ignore[arg-type, var-annotated]
        if path.is_file():
            made.append(Script(path, f"{one['repo']}/{one['path']}", str(one["verdict"]), stalls, decoys))
    return made


def findings(path: Path) -> list[Finding]:
    """Return what lint finds in a file, whatever its severity."""
    return list(lint([path]).findings)


def lines(found: list[Finding]) -> dict[int, list[Finding]]:
    """Return findings by the lines that they name."""
    at: dict[int, list[Finding]] = {}
    for finding in found:
        for place in finding.locations:
            if place.line is not None:
                at.setdefault(place.line, []).append(finding)
    return at
