"""`whyidle run`: what is wrong with a command line, whose words are whose, and where the verdict goes.

tests/launch has the jobs; here most are too short to notice.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whyidle.cli import main

linux = pytest.mark.skipif(sys.platform != "linux", reason="whyidle run measures jobs on Linux only")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whyidle(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whyidle", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


# A job that writes what a process that trains would leave, so that there is something to judge and no torch.
RECORDS = """
import os, struct, pathlib
folder = pathlib.Path(os.environ["WHYIDLE_CAPTURE"])
records = b"".join(struct.pack("<BBHIqqq", 2, 0, 0, n, n * 10**8, 10**6, 0) for n in range(8))
(folder / "1-2.events").write_bytes(b"WHYIDLE1".ljust(4096, b"\\0") + records)
print("trained")
raise SystemExit(5)
"""
JUDGED = """
import sys
from whyidle import diagnosis
from whyidle.cli import main
from whyidle.model.finding import Finding, Report, RunInfo, Summary
def diagnose(paths, progress=None, **judging):
    if sys.argv[1] == "broken":
        return {}["a mistake"]
    if sys.argv[1] == "stopped":
        import os, signal, time
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    if sys.argv[1] == "asked":
        return Report(RunInfo(), Summary(f"predict: {judging['predict']}"))
    if sys.argv[1] == "drawn":
        return Report(RunInfo(), Summary(f"Idle; a picture was asked for: {judging['picture']}."))
    return Report(RunInfo(), Summary("Your GPU was idle 44% of the time."))
diagnosis.diagnose = diagnose
sys.exit(main(["run", *sys.argv[2:]]))
"""


def judged(how: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a job that leaves records, with a judge that says what the test wants."""
    command = [sys.executable, "-c", JUDGED, how, "-o", "out", *options, "--", sys.executable, "-c", RECORDS]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@linux
def test_the_report_is_written_as_its_file_is_named(here: Path) -> None:
    assert judged("drawn", "--report", "r.html").returncode == 5
    page = (here / "r.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "Idle; a picture was asked for: True." in page


@linux
def test_the_verdict_follows_the_output_of_the_job(here: Path) -> None:
    ran = judged("well", "--report", "r.json", "--no-color")
    assert (ran.returncode, ran.stdout) == (5, "trained\n")
    assert "Your GPU was idle 44% of the time." in ran.stderr
    assert ran.stderr.endswith("evidence: out (whyidle out --all shows everything)\n")
    for file in ("r.json", "out/report.json"):
        assert (
            json.loads((here / file).read_text("utf-8"))["summary"]["verdict"] == "Your GPU was idle 44% of the time."
        )
    assert sorted(path.name for path in (here / "out").iterdir() if not path.name.startswith("node-")) == [
        "report.json"
    ]


@linux
def test_quiet_says_nothing_and_saves_all(here: Path) -> None:
    ran = judged("well", "-q", "--report", "r.txt")
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "trained\n", "")
    assert "idle 44%" in (here / "r.txt").read_text("utf-8")
    assert (here / "out" / "report.json").is_file()


@linux
def test_only_the_recording(here: Path) -> None:
    ran = judged("broken", "--no-verdict")
    assert (ran.returncode, ran.stdout) == (5, "trained\n")
    assert ran.stderr == "whyidle: recorded in out\nhint: whyidle out\n"
    assert [path.name.partition("-")[0] for path in (here / "out").iterdir()] == ["node"]
    assert judged("broken", "--no-verdict", "-q", "-o", "second").stderr == ""


@linux
def test_predictions_can_be_left_out(here: Path) -> None:
    assert "predict: True" in judged("asked").stderr
    assert "predict: False" in judged("asked", "--no-predict", "-o", "second").stderr


@linux
def test_a_mistake_of_ours_is_a_sentence_and_the_exit_code_is_kept(here: Path) -> None:
    ran = judged("broken", "--report", "r.txt")
    assert (ran.returncode, ran.stdout) == (5, "trained\n")
    assert ran.stderr.startswith("whyidle: no verdict, by a mistake of ours: KeyError: 'a mistake'\nhint: out/node-")
    (errors,) = (here / "out").glob("node-*/errors.txt")
    assert "Traceback" in errors.read_text("utf-8")
    assert not (here / "r.txt").exists()


@linux
def test_who_stops_the_verdict_gets_the_exit_code_of_the_job() -> None:
    ran = judged("stopped")
    assert (ran.returncode, ran.stderr) == (5, "whyidle: stopped before the verdict\nhint: whyidle out\n")


@linux
def test_lines_of_step_time_and_throughput(here: Path) -> None:
    ran = judged("well", "-q", "--emit-metrics")
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        5,
        "trained\n",
        "step_time_sec=0.100000;\n",
    )
    (here / "out").rename(here / "first")
    (here / "lines").write_text("of before\n", "utf-8")
    ran = judged("well", "-q", "--metrics-file", "lines")
    assert ran.stderr == ""
    lines = (here / "lines").read_text("utf-8").splitlines()
    assert lines == ["of before", "step_time_sec=0.100000;"]


@linux
def test_every_word_from_the_command_on_is_the_command_s() -> None:
    echo = "import sys; print(sys.argv[1:])"
    for front in ([], ["--"]):
        ran = whyidle("run", "-q", *front, sys.executable, "-c", echo, "-o", "x", "--help", "--", "--quiet", "")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "['-o', 'x', '--help', '--', '--quiet', '']\n", "")


@linux
def test_without_a_name_the_folder_has_that_of_the_job_and_the_time(here: Path) -> None:
    assert whyidle("run", "true").returncode == 0
    (run,) = (here / "whyidle-runs").iterdir()
    assert re.fullmatch(r"true-\d{8}-\d{6}", run.name)
    (node,) = run.iterdir()
    told = json.loads((node / "node.json").read_text("utf-8"))
    assert told["command"] == ["true"]
    assert (told["ended"]["exit_code"], told["ended"]["signal"]) == (0, None)


@linux
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--interval", "0.1"], "--interval is 0.2 to 60 seconds, not 0.1"),
        (["--interval", "nan"], "--interval is 0.2 to 60 seconds, not nan"),
        (["--format", "json"], "--format is the format of --report FILE"),
        (["--format", "xml", "--report", "r"], "no format is called 'xml'"),
        (["--trace-ranks", "1"], "--trace-ranks is 0 or all, not '1'"),
        (["--trace-steps", "0"], "torch.profiler records 1 step or more"),
        (["--gpus", "0"], "the number of GPUs is 1 or more, not 0"),
        (["--report", "taken"], "taken exists already"),
        (["-o", "taken"], "taken is a file; a recording is a folder"),
        (["--metrics-file", "."], "cannot write to .: Is a directory"),
        (["--no-verdict", "--report", "r"], "--no-verdict gives no report"),
        (["--no-such-option"], "no such option: --no-such-option"),
    ],
)
def test_what_is_wrong_is_said_before_the_job_starts(
    options: list[str], said: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "taken").write_text("mine", "utf-8")
    assert main(["run", *options, "--", "sh", "-c", "echo started"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"whyidle: {said}")
    assert "hint: " in err
    assert [path.name for path in here.iterdir()] == ["taken"]


@linux
def test_a_folder_that_holds_a_recording_of_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-q", "-o", "out", "true"]) == 0
    assert main(["run", "-q", "-o", "out", "sh", "-c", "echo started"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("whyidle: out holds a recording of this machine already (node-")


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert capsys.readouterr().err == "whyidle: missing argument 'COMMAND...'\nhint: see `whyidle run --help`\n"


def test_linux_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["run", "true"]) == 2
    expected = "whyidle: `whyidle run` measures jobs on Linux only\nhint: to record one here: whyidle demo --record\n"
    assert capsys.readouterr().err == expected


@linux
def test_an_exit_code_that_looks_like_an_interrupt_is_only_a_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-q", "sh", "-c", "exit 130"]) == 130
    assert capfd.readouterr().err == ""


@linux
def test_closed_streams_are_the_job_s_business(here: Path) -> None:
    """As with the bare command: what cannot be written is the job's to notice."""
    job = f"{sys.executable} -m whyidle run -q -- sh -c 'echo x 2> /dev/null || exit 8'"
    ran = subprocess.run(["sh", "-c", f"{job} >&-"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (8, "")
    ran = subprocess.run(["sh", "-c", f"{job} 2>&-"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "x\n")


def test_lines_of_metrics_that_cannot_be_written_cost_neither_recording_nor_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from whyidle.cli import _watching

    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    asked = SimpleNamespace(metrics=True, metrics_file=Path("/dev/full"))
    emit = _watching._emitter(asked)  # type: ignore[arg-type]
    assert emit is not None
    for _ in range(3):
        emit("step_time_sec=1;")
    assert capsys.readouterr().err == "whyidle: cannot write lines of metrics: No space left on device\n"
