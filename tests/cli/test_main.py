"""The front door: which verb is meant, every mistake, every exit code, pipes and colors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle import __version__, diagnosis
from whyidle.cli import main
from whyidle.cli._verbs import verbs
from whyidle.errors import WhyIdleError

Verdict = Callable[..., Any]
DEMO = Path(__file__).parents[2] / "src" / "whyidle" / "demo" / "before.json.gz"


def whyidle(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whyidle", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)


# Verbs


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"whyidle {__version__}\n"


def test_version_is_quick() -> None:
    before = time.process_time(), os.times()
    assert whyidle("--version").returncode == 0
    after = os.times()
    used = after.children_user + after.children_system - before[1].children_user - before[1].children_system
    assert used < 0.3, f"{used:.2f} s of CPU"


@pytest.mark.skipif(not version("typer").startswith("0.29."), reason="other versions of typer lay help out otherwise")
@pytest.mark.parametrize("verb", ["", *verbs()])
def test_help(verb: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main([verb, "--help"] if verb else ["--help"]) == 0
    assert capsys.readouterr().out == snapshot


@pytest.mark.parametrize("verb", verbs())
def test_help_speaks_as_people_do(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    told = capsys.readouterr().out
    assert re.findall(r"<.*>|default: \(", told) == []  # no types of Python, and no brackets that nobody would type


@pytest.mark.parametrize("verb", ["baseline", "check", "cost", "scaling"])
def test_help_fits_into_80_columns(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("typed", "hint"), [("rnu", "`whyidle run`?"), ("compar", "`whyidle compare`?"), ("learn", "verbs: ")]
)
def test_a_verb_is_meant_where_it_is_close(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed]) == 2
    assert hint in capsys.readouterr().err


def test_help_and_version_are_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"whyidle {__version__}\n"
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: whyidle [OPTIONS] COMMAND")
    assert main(["help", "cost"]) == 0
    assert capsys.readouterr().out.startswith("Usage: whyidle cost")


def test_nothing_asked_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: whyidle")


def test_only_verbs_that_work_are_listed() -> None:
    listed = "alarm baseline check compare cost demo diagnose explain lint loader run sagemaker scaling sweep watch"
    assert list(verbs()) == listed.split()


@pytest.mark.parametrize("arguments", [["trace.json"], ["diagnose", "trace.json"], ["--exit-zero", "trace.json"]])
def test_a_path_is_diagnosed(arguments: list[str], verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    verdict()
    assert main(arguments) == 0
    assert "Your GPU was idle 44% of the time." in capsys.readouterr().out


# Mistakes


@pytest.mark.parametrize(
    "arguments",
    [
        "diagnoze trace.json",
        "lint",
        "sweep",
        "missing.json",
        "trace.jsn",
        "s3://bucket/trace.json",
        "trace.json --al",
        "trace.json --json",
        "runs/missing",
        "--hepl",
        "diagnose",
        "diagnose trace.json --format yaml",
        "diagnose trace.json --price -1",
        "diagnose trace.json --price nan",
        "diagnose trace.json --price many",
        "diagnose trace.json --gpus 0",
        "diagnose trace.json --gpus 1.5",
        "diagnose trace.json --hours -2",
        "diagnose trace.json -o trace.json",
        "diagnose trace.json -o missing/report.json",
        "diagnose trace.json -o .",
        "cost",
        "cost --hours 24 --busy most --price 2.60",
        "cost --hours long --busy 40% --price 2.60",
        "cost --hours 0 --busy 40% --price 2.60",
        "cost --hours 24 --busy 0.4 --price 2.60 --gpu H100",
        "cost --hours 24 --busy 0.4 --gpu H100",
        "cost --hours 24 --busy 40 --price 2.60",
        "cost --hours 24 --busy 0 --price 2.60",
        "cost --hours 24 --busy 0.4",
        "cost --hours 24 --busy 0.4 --gpu A100",
        "cost --hours 24 --busy 0.4 --gpu GB200",
        "cost --hours 24 --busy 0.4 --price 1 --format yaml",
        "explain workers_zero",
        "explain input.worker_zero",
        "explain nonsense",
    ],
)
def test_mistake(
    arguments: str, verdict: Verdict, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    verdict()
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("whyidle: ")
    if arguments.startswith("explain"):
        return  # its suggestions change with every rule
    assert captured.err == snapshot


def test_a_message_is_cleaned_of_what_a_terminal_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[31mred/\ud800"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert main(["a\0b"]) == 2
    assert main(["x" * 5000]) == 2


def test_a_bug_shows_its_traceback(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict()
    monkeypatch.setattr(diagnosis, "judge", lambda run, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["trace.json"])


def test_interrupted(verdict: Verdict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    verdict()

    def interrupt(run: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnosis, "judge", interrupt)
    assert main(["trace.json", "-o", "report.txt"]) == 130
    assert capsys.readouterr() == ("", "stopped.\n")
    assert not Path("report.txt").exists()


# Exit codes


@pytest.mark.parametrize(
    ("severity", "judged", "code", "zero"),
    [
        (None, True, 0, 0),
        ("low", True, 0, 0),
        ("medium", True, 1, 0),
        ("high", True, 1, 0),
        (None, False, 2, 2),
    ],
)
def test_exit_code(severity: str | None, judged: bool, code: int, zero: int, verdict: Verdict) -> None:
    verdict(severity, judged=judged)
    assert main(["trace.json"]) == code
    assert main(["trace.json", "--exit-zero"]) == zero


def test_not_judged_is_json_all_the_same(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    verdict(judged=False)
    assert main(["trace.json", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["judged"] is False


# Where the report goes


def test_output_file(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    verdict("high")
    assert main(["trace.json", "--format", "json", "-o", "report.json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Your GPU was idle 44% of the time. Report: report.json\n"
    assert json.loads(Path("report.json").read_text("utf-8"))["findings"][0]["rule"] == "host.gc_pause"


def test_the_name_of_the_output_chooses_the_format(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    verdict()
    assert main(["trace.json", "-o", "report.json"]) == 0
    assert capsys.readouterr().err.endswith("Report: report.json (json)\n")
    assert json.loads(Path("report.json").read_text("utf-8"))["judged"] is True
    assert main(["trace.json", "-o", "text.json", "--format", "terminal"]) == 0
    assert Path("text.json").read_text("utf-8").startswith("  Your GPU was idle")


def test_a_program_gets_its_object_when_nothing_can_be_read(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict()

    def fail(run: object, **options: object) -> None:
        raise WhyIdleError("broken", "mend it")

    monkeypatch.setattr(diagnosis, "judge", fail)
    assert main(["trace.json", "--format", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "whyidle: broken\nhint: mend it\n"
    found = json.loads(captured.out)
    assert (found["judged"], found["summary"]["verdict"]) == (False, "Cannot judge: broken")


def test_a_named_file_that_cannot_be_read_is_said_first(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    run = whyidle(str(DEMO), str(missing))
    assert run.returncode == 1
    assert run.stderr == f"whyidle: warning: {missing}: no such file or folder.\n"
    assert run.stdout.count("no such file") == 1


def test_a_file_is_replaced_only_by_force_and_a_report(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict()
    old = Path("old.txt")
    old.write_text("old " * 5000, "utf-8")
    assert main(["trace.json", "-o", "old.txt"]) == 2
    assert old.read_text("utf-8").startswith("old")
    assert main(["trace.json", "-o", "old.txt", "--force"]) == 0
    assert "old" not in old.read_text("utf-8")
    kept = old.read_text("utf-8")

    def fail(run: object, **options: object) -> None:
        raise WhyIdleError("broken", "mend it")

    monkeypatch.setattr(diagnosis, "judge", fail)
    assert main(["trace.json", "-o", "old.txt", "--force"]) == 2
    assert old.read_text("utf-8") == kept
    assert main(["trace.json", "-o", "new.txt"]) == 2
    assert not Path("new.txt").exists()


def test_the_output_file_is_there_before_the_long_load(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    report = verdict()
    there = []
    monkeypatch.setattr(diagnosis, "judge", lambda run, **options: there.append(Path("new.txt").exists()) or report)
    assert main(["trace.json", "-o", "new.txt"]) == 0
    assert there == [True]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices here")
def test_a_device_can_be_the_output(verdict: Verdict) -> None:
    verdict()
    assert main(["trace.json", "-o", "/dev/null", "--force"]) == 0


# Processes


def test_a_recording_from_the_shell() -> None:
    run = whyidle(str(DEMO))
    assert run.returncode == 1, run.stderr
    assert "Your GPU was idle" in run.stdout
    assert "\x1b" not in run.stdout
    assert run.stderr == ""


def test_json_is_the_same_however_standard_output_is_encoded() -> None:
    plain, ascii_only = (
        whyidle(str(DEMO), "--format", "json", env={**os.environ, "PYTHONIOENCODING": encoding})
        for encoding in ("utf-8", "ascii")
    )
    assert ascii_only.stdout.isascii()
    assert json.loads(plain.stdout) == json.loads(ascii_only.stdout)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    run = whyidle(str(DEMO), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 1, run.stderr
    assert run.stdout.isascii()
    assert "####" in run.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX here")
def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"'{sys.executable}' -m whyidle explain; echo $? >&2"
    run = subprocess.run(["sh", "-c", f"({command}) | true"], capture_output=True, text=True, check=False)
    assert run.stderr.split() in (["0"], ["141"])


@pytest.mark.skipif(sys.platform == "win32", reason="the shell is POSIX here")
def test_a_closed_standard_output_is_said() -> None:
    run = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m whyidle demo >&-"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith("whyidle: standard output is closed")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "whyidle", "explain"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == "whyidle: cannot write the report to standard output: No space left on device"


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are POSIX here")
@pytest.mark.parametrize(
    ("arguments", "environment", "colored"),
    [
        ([], {"TERM": "xterm"}, b"\x1b[31m"),
        ([], {"TERM": "xterm", "NO_COLOR": "1"}, b""),
        ([], {"TERM": "xterm", "NO_COLOR": ""}, b"\x1b[31m"),
        ([], {"TERM": "xterm-256color"}, b"\x1b[38;5;"),
        ([], {"TERM": "dumb"}, b""),
        ([], {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, b"\x1b[38;2;"),
        (["--no-color"], {"TERM": "xterm"}, b""),
    ],
)
def test_color_on_a_terminal(arguments: list[str], environment: dict[str, str], colored: bytes) -> None:
    import pty

    main_end, terminal = pty.openpty()
    decide = {"NO_COLOR", "TERM", "COLORTERM", "COLUMNS"}
    environ = {name: value for name, value in os.environ.items() if name not in decide}
    command = [sys.executable, "-m", "whyidle", "diagnose", str(DEMO), *arguments]
    process = subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=environ | environment)
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(main_end, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(main_end)
    process.communicate()
    assert b"Your GPU was idle" in seen
    assert (b"\x1b[" in seen) == bool(colored)
    assert colored in seen


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX here")
def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.json"
    script = (
        "import signal, sys, time; from whyidle import diagnosis; from whyidle.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in what a shell starts with &
        "def wait(*_): print('ready', flush=True); time.sleep(60)\n"
        "diagnosis.load = wait\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    fifo.write_text("{}", "utf-8")
    command = [sys.executable, "-c", script, str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "stopped.\n")
