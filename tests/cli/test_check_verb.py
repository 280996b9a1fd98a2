"""`whyidle baseline save` and `whyidle check`: from run directories to an exit code."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.cli import main

RUNS = Path(__file__).parents[1] / "runs"
WATCHED = RUNS / "watched"
FAST, SLOW = str(WATCHED / "workers-two"), str(WATCHED / "workers-one")


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Save a baseline and stand beside it."""
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "save", FAST]) == 0
    capsys.readouterr()
    return "baseline.json"


def test_saving_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "save", FAST, "-o", "b.json"]) == 0
    assert capsys.readouterr().out == snapshot
    kept = json.loads(Path("b.json").read_text("utf-8"))["baseline"]
    assert (kept["batch_size"], kept["model"], kept["warm_up"]) == (8, "__main__.Model", 10)
    assert [len(steps) for steps in kept["step_seconds"]] == [139]
    assert main(["baseline", "save", FAST, "-o", "b.json"]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main(["baseline", "save", FAST, "-o", "b.json", "--overwrite", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"]["steps_from"] == "Optimizer.step"


def test_a_regression_is_told(baseline: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    asked = ["--max-step-time-regression", "5%", "--max-idle", "20%", "--max-data-wait", "10%"]
    assert main(["check", SLOW, "--baseline", baseline, *asked]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if not line.startswith("  baseline: of ")] == snapshot


@pytest.mark.parametrize(
    ("run", "limit", "code"),
    [
        (FAST, ("--max-step-time-regression", "20%"), 0),
        (FAST, ("--max-step-time-regression", "0.01"), 2),  # the same run, and too few steps for so narrow a limit
        (SLOW, ("--max-step-time-regression", "5%"), 1),
        (SLOW, ("--max-throughput-loss", "5%"), 1),
        (SLOW, ("--max-data-wait", "80%"), 0),
        (SLOW, ("--max-idle", "80%"), 2),
        (str(RUNS / "healthy"), ("--max-idle", "5%"), 0),
        (str(RUNS / "workers_2021"), ("--max-idle", "5%"), 1),
        (str(RUNS / "curve"), ("--max-idle", "5%"), 1),
        (SLOW, ("--max-step-time-regression", "-5%"), 2),
        (SLOW, ("--max-step-time-regression", "5 percent"), 2),
        (SLOW, (), 2),
        ("nowhere", ("--max-idle", "5%"), 2),
    ],
)
def test_exit_codes(baseline: str, run: str, limit: tuple[str, ...], code: int) -> None:
    relative = any("regression" in word or "throughput" in word for word in limit)
    assert main(["check", run, *limit, *(["--baseline", baseline] if relative else [])]) == code


def test_what_grows_needs_a_baseline(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", FAST, "--max-step-time-regression", "5%"]) == 2
    assert "whyidle baseline save" in capsys.readouterr().err
    assert main(["check", FAST, "--max-step-time-regression", "5%", "--baseline", "none.json"]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err


def test_another_setup_is_refused_unless_forced(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = json.loads(Path(baseline).read_text("utf-8"))
    file["baseline"] |= {"gpus": [{"name": "NVIDIA H100 80GB HBM3\x1b[31m", "count": 1}], "batch_size": 16}
    Path(baseline).write_text(json.dumps(file), "utf-8")
    asked = ["check", SLOW, "--baseline", baseline, "--max-step-time-regression", "5%"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "another setup: GPU H100 80GB HBM3, now none; batch size 16, now 8" in said
    assert main([*asked, "--force"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "note: compared all the same, as --force asks: GPU H100 80GB HBM3, now none; batch" in told
    assert "\x1b" not in told


def test_limits_of_a_project(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text(
        "[tool.whyidle.check]\nbaseline = 'baseline.json'\nmax-step-time-regression = '5%'\nmax-data-wait = 0.1\n",
        "utf-8",
    )
    Path("below").mkdir()
    assert main(["check", SLOW, "-f", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(one["limit"], one["allowed"], one["outcome"]) for one in found["checks"]] == [
        ("step_time_regression", 0.05, "fail"),
        ("data_wait", 0.1, "fail"),
    ]
    assert main(["check", SLOW, "-f", "json", "--max-data-wait", "80%"]) == 1  # what is given comes first
    assert [one["allowed"] for one in json.loads(capsys.readouterr().out)["checks"]] == [0.05, 0.8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-idel = '5%'", "no setting 'max-idel'"),
        ("max-idle = 'much'", "max-idle is a share, and not 'much'"),
        ("max-idle = true", "max-idle is a share, and not True"),
        ("max-idle = 20", "the limit of idle is a share, 0 to 1, not 20"),
        ("max-idle = nan", "the limit of idle is a share, 0 to 1, not nan"),
        ("max-idle = 0.2\nbaseline = 5", "baseline is a file, and not 5"),
    ],
)
def test_mistakes_of_a_project(baseline: str, text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text(f"[tool.whyidle.check]\n{text}\n", "utf-8")
    assert main(["check", SLOW]) == 2
    assert message in capsys.readouterr().err


def test_json(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SLOW, "--baseline", baseline, "--max-throughput-loss", "5%", "-f", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["outcome"]) == (1, "fail")
    (only,) = found["checks"]
    assert only["measured"]["low"] > 0.05
    assert (found["run"]["steps"], found["baseline"]["steps"]) == (139, 139)
    assert "step_seconds" not in found["run"]


def test_junit(baseline: str) -> None:
    limits = ["--max-throughput-loss", "5%", "--max-idle", "3%", "--max-data-wait", "90%"]
    asked = ["check", SLOW, "--baseline", baseline, *limits, "-o", "check.xml"]
    assert main(asked) == 1
    suite = ET.parse("check.xml").getroot()[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors")}
    assert counts == {"tests": "3", "failures": "1", "errors": "1"}
    assert [case.get("name") for case in suite] == ["throughput", "GPU idle", "data wait"]
    assert main(asked) == 2  # the file is there
    assert main([*asked, "--overwrite"]) == 1


def test_what_is_written_to_a_file_is_said_in_a_line(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SLOW, "--max-data-wait", "10%", "-f", "junit", "-o", "check.xml"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "The limit is broken: data wait. Report: check.xml\n")


@pytest.mark.parametrize("run", [SLOW, "nowhere"])
def test_what_is_not_judged_is_an_error_of_a_ci_server(
    baseline: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = json.loads(Path(baseline).read_text("utf-8"))
    file["baseline"] |= {"batch_size": 16}
    Path(baseline).write_text(json.dumps(file), "utf-8")
    said = "batch size 16, now 8" if run == SLOW else "no such file or folder: nowhere"
    asked = ["check", run, "--baseline", baseline, "--max-throughput-loss", "5%"]
    assert main([*asked, "-f", "junit", "-o", "check.xml"]) == 2
    assert said in capsys.readouterr().err
    suite = ET.parse("check.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("errors"), suite[0].get("name")) == ("1", "1", "verdict")
    assert said in str(suite[0][0].get("message"))
    assert main([*asked, "-f", "github"]) == 2
    told = capsys.readouterr().out
    assert told.startswith("::error title=whyidle check%3A not judged::")
    assert (said in told, told.count("\n")) == (True, 1)
    assert main([*asked, "-f", "json", "-o", "check.json"]) == 2
    assert not Path("check.json").exists()


def test_a_run_that_is_not_there_is_said_before_a_file_that_is(
    baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", "save", "nowhere"]) == 2
    assert "no such file or folder: nowhere" in capsys.readouterr().err
    assert main(["baseline", "save", FAST, "--repeat", "nowhere", "--force"]) == 2
    assert "no such file or folder: nowhere" in capsys.readouterr().err
    assert main(["baseline"]) == 2
    assert "missing argument 'save'\n" in capsys.readouterr().err


def test_throughput_is_that_of_compare(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", FAST, SLOW, "-f", "json"]) in {0, 1}
    compared = json.loads(capsys.readouterr().out)
    kept = json.loads(Path(baseline).read_text("utf-8"))["baseline"]
    assert kept["samples_per_s"] == pytest.approx(compared["before"]["samples_per_s"], rel=1e-3)
    assert kept["samples_per_s"] == pytest.approx(kept["batch_size"] / kept["step_time_mean_s"], rel=1e-4)


def test_github(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--max-throughput-loss", "5%", "--max-idle", "3%", "--max-data-wait", "90%"]
    assert main(["check", SLOW, "--baseline", baseline, *limits, "-f", "github"]) == 1
    first, broken, unknown, kept, within = capsys.readouterr().out.splitlines()
    assert first == "whyidle: 1 of 3 limits is broken: throughput."
    assert broken.startswith("::error title=throughput%3A fail::32%25 less (")
    assert unknown.startswith("::warning title=GPU idle%3A cannot tell::not measured, limit 3%25; record it on a GPU")
    assert kept == "whyidle: data wait: 72% of the time, limit 90%"
    assert within.startswith("::warning title=whyidle check::the interval knows how steps vary within a run")


def test_an_unknown_format_is_refused_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere", "--max-idle", "5%", "-f", "sarif"]) == 2
    assert "formats: github, json, junit, terminal" in capsys.readouterr().err


def test_nothing_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    Path("trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}), "utf-8")
    assert main(["baseline", "save", "trace.json"]) == 2
    assert "there is nothing to keep" in capsys.readouterr().err
    assert not Path("baseline.json").exists()


def test_a_baseline_of_several_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "save", FAST, "-o", "one.json"]) == 0
    assert "it is of one start of the job" in capsys.readouterr().err
    again = tmp_path / "again"
    shutil.copytree(FAST, again)
    assert main(["baseline", "save", FAST, "--repeat", str(again), "-f", "json"]) == 0
    told = capsys.readouterr()
    assert [len(steps) for steps in json.loads(told.out)["baseline"]["step_seconds"]] == [139, 139]
    assert "one start" not in told.err
    asked = ["check", SLOW, "--baseline", "baseline.json", "--max-throughput-loss", "5%", "-f", "json"]
    assert main(asked) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["baseline"]["starts"], found["run"]["starts"], found["warnings"]) == (2, 1, [])
    assert main(["check", SLOW, "--repeat", SLOW, "--max-idle", "5%"]) == 2
    assert "is given twice" in capsys.readouterr().err


def test_repeats_of_another_setup_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "save", FAST, "--repeat", str(RUNS / "healthy")]) == 2
    assert "the repeats are of different setups: GPU none, now A100-SXM4-80GB" in capsys.readouterr().err
    assert not Path("baseline.json").exists()


def test_a_recording_that_cannot_be_believed_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with gzip.open(next((RUNS / "healthy").iterdir())) as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            event["dur"] = 0
    Path("trace.json").write_text(json.dumps(trace), "utf-8")
    for asked in (["check", "trace.json", "--max-idle", "100%"], ["baseline", "save", "trace.json"]):
        assert main(asked) == 2
        assert "trace.json cannot be believed" in capsys.readouterr().err


def test_a_moment_of_a_curve_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"2026/01/01 00:00:{second:02d}.000, 0, NVIDIA H100 80GB HBM3, 99 %" for second in range(60)]
    head = "timestamp, index, name, utilization.gpu [%]"
    for count, code in ((6, 2), (60, 0)):
        path = tmp_path / f"{count}.csv"
        path.write_text("\n".join([head, *rows[:count]]) + "\n", "utf-8")
        assert main(["check", str(path), "--max-idle", "5%"]) == code
    assert "cannot tell GPU idle     not measured" in capsys.readouterr().out


def test_a_job_that_failed_is_told(baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = tmp_path / "failed"
    shutil.copytree(FAST, failed)
    (node,) = failed.glob("node-*/node.json")
    told = json.loads(node.read_text("utf-8"))
    told["ended"] |= {"exit_code": 1}
    node.write_text(json.dumps(told), "utf-8")
    assert main(["check", str(failed), "--baseline", baseline, "--max-step-time-regression", "20%"]) == 0
    assert "note: The job ended with exit code 1." in capsys.readouterr().out
