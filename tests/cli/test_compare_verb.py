"""`whyidle compare` on the command line: what it prints, where it writes, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.cli import main

RUNS = Path(__file__).parents[1] / "runs"
WATCHED = RUNS / "watched"
ZERO, ONE, TWO = (str(WATCHED / f"loader-workers-{count}") for count in range(3))
CURVE = str(RUNS / "curve" / "gpu.csv.gz")


def test_an_improvement(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["compare", ZERO, ONE]) == 0
    shown = capsys.readouterr().out
    assert shown == snapshot
    assert len(shown.splitlines()) <= 40


def test_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", ONE, ZERO]) == 1
    assert capsys.readouterr().out.startswith("  Regressed: 0.62x the steps per second")
    assert main(["compare", ONE, ZERO, "--exit-zero"]) == 0


def test_traces_of_jobs_on_gpus(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["compare", str(RUNS / "scalar_read"), str(RUNS / "healthy"), "--price", "2.60", "--force"]) in {0, 1}
    assert capsys.readouterr().out == snapshot


def test_curves_are_not_judged(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["compare", CURVE, CURVE]) == 2
    assert capsys.readouterr().out == snapshot


def test_units_make_curves_comparable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", CURVE, CURVE, "--units", "1000,2000"]) == 0
    assert capsys.readouterr().out.startswith("  Improved: 2.00x the units of work per second (1.28x–3.12x, 95%).")


def test_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", ZERO, ONE, "--before", ZERO, "--after", TWO]) == 0
    shown = capsys.readouterr().out
    assert "By 2 and 2 repeats, 278 and 278 steps." in shown
    assert "BEFORE holds a recording twice" in shown


def test_markdown(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["compare", ZERO, ONE, "--format", "markdown"]) == 0
    assert capsys.readouterr().out == snapshot


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    assert main(["compare", ZERO, ONE, "-o", str(file)]) == 0
    assert str(file) in capsys.readouterr().err
    found = json.loads(file.read_text("utf-8"))
    assert found["schema_version"] == 1
    assert (found["verdict"], found["per"], found["exit_code"]) == ("improved", "step", 0)
    assert found["speedup"]["low"] < found["speedup"]["likely"] < found["speedup"]["high"]
    assert found["before"]["summary"]["steps"] == 149 or found["before"]["steps"] == 139
    assert {each["name"]: each["weight"] for each in found["confounders"]}["num_workers"] == "noted"
    assert found["predicted"][0]["rule"] == "input.workers_zero"
    assert found["predicted"][0]["came_true"] is True


def test_a_range_without_limits_is_null(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert main(["compare", CURVE, CURVE, "-o", str(file)]) == 2
    assert json.loads(file.read_text("utf-8"))["throughput_ratio"] is None


def test_a_file_is_replaced_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.md"
    file.write_text("old", "utf-8")
    assert main(["compare", ZERO, ZERO, "-o", str(file)]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main(["compare", ZERO, ZERO, "-o", str(file), "--overwrite"]) == 0
    assert file.read_text("utf-8").startswith("**No detectable change")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([ZERO], "missing argument 'AFTER'"),
        ([ZERO, "nowhere/run"], "nowhere"),
        ([ZERO, ONE, "--units", "many"], "'many' is not one number of units, or two"),
        ([ZERO, ONE, "--units", "1,2,3"], "is not one number of units, or two"),
        ([ZERO, ONE, "--units", "0"], "the units of work are more than 0"),
        ([ZERO, ONE, "--price", "-1"], "the price is US dollars per GPU-hour"),
        ([ZERO, ONE, "--gpus", "0"], "the number of GPUs is 1 or more"),
        ([ZERO, ONE, "--format", "xml"], "no format is called 'xml'"),
    ],
)
def test_bad_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "change.html"
    assert main(["compare", ONE, ZERO, "-o", str(file)]) == 1
    page = file.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "Regressed: 0.62x the steps per second" in page
    assert main(["compare", ONE, ZERO, "-o", str(file)]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main(["compare", ONE, ZERO, "-o", str(file), "--overwrite", "--exit-zero"]) == 0


def test_a_terminal_needs_no_templates() -> None:
    """Jinja takes a fifth of a second."""
    code = "import sys; from whyidle.cli import main; main(['compare', *sys.argv[1:]]); print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, ZERO, ONE], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
