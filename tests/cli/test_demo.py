"""The demo: evidence that ships, is labelled as simulated, is what the script makes, and tells the whole story."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from whyidle.cli import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "whyidle" / "demo"
BUDGET = 300_000  # bytes in the wheel


def recording(path: Path) -> dict[str, Any]:
    with gzip.open(path) as file:
        found: dict[str, Any] = json.load(file)
    return found


def test_tells_the_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    screen = capsys.readouterr().out
    for part in ("simulated", "Your GPU was idle", "input.workers_zero", "num_workers=4", "ms/step", "--record"):
        assert part in screen


def test_fits_a_small_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 38
    assert max(map(len, lines)) <= 80


def test_how_to_record_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--record"]) == 0
    recipe = capsys.readouterr().out
    compile(recipe, "recipe", "exec")
    assert max(map(len, recipe.splitlines())) <= 80
    assert "prof.step()" in recipe


def test_json_is_the_report_on_the_recording_from_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["run"]["settings"]["simulated"] is True
    assert report["findings"][0]["rule"] == "input.workers_zero"


def test_a_page_has_the_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    assert main(["demo", "-o", str(file)]) == 0
    assert 'data-island="timeline"' in file.read_text("utf-8")
    assert main(["demo", "-o", str(file)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert main(["demo", "--format", "html"]) == 0
    assert capsys.readouterr().out == file.read_text("utf-8")


def test_a_terminal_needs_no_templates() -> None:
    """What writes pages takes a fifth of a second to import."""
    code = "import sys; from whyidle.cli import main; main(['demo']); print({'jinja2', 'markdown_it'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


def test_shipped_recordings_fit_the_wheel() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < BUDGET


@pytest.mark.parametrize("name", ["before", "after"])
def test_recordings_are_causal_and_labelled(name: str) -> None:
    found = recording(FOLDER / f"{name}.json.gz")
    assert found["simulated"] is True
    assert "simulated" in found["deviceProperties"][0]["name"]
    slices = [event for event in found["traceEvents"] if event["ph"] == "X"]
    launches = {event["args"]["correlation"]: event for event in slices if event["cat"] == "cuda_runtime"}
    device = sorted((event for event in slices if event["pid"] == 0), key=lambda event: event["ts"])
    began = min(event["ts"] for event in launches.values())
    for event in device:
        launch = launches.get(event["args"]["correlation"])
        assert event["ts"] > launch["ts"] if launch else event["ts"] < began + 100_000  # in flight when recording began
    for one, following in pairwise(device):
        assert following["ts"] >= one["ts"] + one["dur"]
