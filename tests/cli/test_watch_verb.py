"""`whyidle watch` as a user starts it, on GPUs that a stand-in for NVML plays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collect.conftest import Scenario, nvml_library, nvml_stub
from whyidle.cli import PIPE_CLOSED, main
from whyidle.cli._numbers import seconds
from whyidle.errors import WhyIdleError
from whyidle.watch.asked import address

__all__ = ("nvml_library", "nvml_stub")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in for NVML is a Linux library")
BUSY = "row 0 0 95 41 40000 600 1755 66 0 1200 800\n"
IDLE = "row 0 0 0 0 40000 90 1755 40 0 0 0\n"
HEAT = "row 0 0 95 41 40000 600 900 90 20 1200 800\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "whyidle", "watch", *arguments]


def watched(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **environ}
    return subprocess.run(command(*arguments), env=environ, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize(
    ("scenario", "code", "verdict"),
    [
        (BUSY, 0, "busy"),
        (IDLE + f"process 0 0 {os.getpid()} 39000\n", 1, "idle"),
        (HEAT, 1, "throttled"),
        (BUSY + "lost 0 0.2\n", 2, "unknown"),
        ("mig\n" + BUSY, 2, "unknown"),
    ],
    ids=["busy", "idle-held", "throttled", "failing midway", "split"],
)
def test_a_single_look(nvml_stub: Scenario, scenario: str, code: int, verdict: str) -> None:
    run = watched(nvml_stub(scenario), "--once", "--for", "0.5", "--interval", "0.1", "--json")
    assert run.stderr == ""
    told = json.loads(run.stdout)
    assert (run.returncode, told["gpus"][0]["verdict"]) == (code, verdict)
    assert told["gpus"][0]["usd_per_hour"] == 6.88


@pytest.mark.parametrize("form", ["terminal", "json"])
def test_a_name_that_the_terminal_cannot_write(nvml_stub: Scenario, form: str) -> None:
    environ = {**nvml_stub("name 0 NVIDIA \u201codd\u201d\n" + BUSY), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    run = watched(environ, "--once", "--for", "0.2", "--interval", "0.1", "--format", form)
    assert (run.returncode, run.stderr) == (0, "")
    assert "\\u201codd" in run.stdout


def test_one_of_four_lags(nvml_stub: Scenario) -> None:
    rows = [f"row 0 {gpu} {40 if gpu == 3 else 95} 41 40000 600 1755 66 0 1 1\n" for gpu in range(4)]
    held = [f"process 0 {gpu} {os.getpid()} 39000\n" for gpu in range(4)]
    run = watched(nvml_stub("gpus 4\n" + "".join(rows + held)), "--once", "--for", "0.6", "--interval", "0.1", "--json")
    assert run.returncode == 1
    assert [gpu["verdict"] for gpu in json.loads(run.stdout)["gpus"]] == ["busy"] * 3 + ["lagging"]


@pytest.mark.parametrize(
    ("row", "foreign", "rule", "code"),
    [
        ("0 0 40000 90 1755 40 0", "", "curve.idle_held", 1),
        ("95 41 40000 600 900 90 20", "", "hw.thermal", 1),
        ("97 41 40000 600 1900 60 0", "process 0 0 1 20000\n", "hw.gpu_shared", 1),
        ("97 41 40000 600 1900 60 0", "", None, 0),
    ],
    ids=["left", "hot", "shared", "busy"],
)
def test_the_gpu_of_one_job(nvml_stub: Scenario, row: str, foreign: str, rule: str | None, code: int) -> None:
    """A training that waits for its GPU looks like one that sleeps: the GPU tells."""
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) as job:
        try:
            environ = nvml_stub(f"row 0 0 {row} 0 0\nprocess 0 0 {job.pid} 39000\n{foreign}")
            run = watched(environ, "--pid", str(job.pid), "--for", "3", "--no-stacks", "--json")
        finally:
            job.kill()
    assert run.returncode == code, run.stdout + run.stderr
    assert [finding["rule"] for finding in json.loads(run.stdout)["findings"]] == ([rule] if rule else [])


def test_no_driver(nvml_stub: Scenario) -> None:
    run = watched({**nvml_stub("init 9\n"), "PATH": ""}, "--once")
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == "whyidle: no GPU can be watched here: the NVIDIA driver is not loaded"


def test_an_alarm_ends_it_and_runs_a_command(nvml_stub: Scenario, tmp_path: Path) -> None:
    alarm = f"{sys.executable} -c \"import sys; open('{tmp_path}/out', 'w').write(sys.stdin.read())\""
    options = ("--interval", "0.1", "--grace", "0", "--window", "0.5", "--exit-on-alarm", "--on-alarm", alarm)
    run = watched(nvml_stub(IDLE), *options)
    assert run.returncode == 1
    assert "ALARM" in run.stdout
    assert json.loads((tmp_path / "out").read_text())["event"] == "alarm"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quietly_with_a_summary(nvml_stub: Scenario, number: int) -> None:
    environ = {**os.environ, **nvml_stub(BUSY)}
    with subprocess.Popen(
        command("--every", "1"), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert "busy 95%" in process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("watched for ")


def test_the_table_on_a_terminal_and_q(nvml_stub: Scenario) -> None:
    pty = pytest.importorskip("pty")
    environ = {**os.environ, **nvml_stub(BUSY), "TERM": "xterm", "COLUMNS": "100"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, command("--interval", "0.2", "--every", "0.2"), environ)
    seen = b""
    deadline = time.monotonic() + 30
    asked = False
    while time.monotonic() < deadline:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        seen += part
        if b"busy 95%" in seen and not asked:
            os.write(terminal, b"q")
            asked = True
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"H100 80GB HBM3" in seen
    assert b"watched for" in seen.splitlines()[-1]


@pytest.mark.parametrize(
    "options",
    [
        "--interval 0",
        "--interval 2m",
        "--floor 0",
        "--floor 15",
        "--window 15x",
        "--for 0",
        "--format xml",
        "--once --alarm",
        "--listen here",
        "--webhook example.org",
        "--on-alarm no-such-program-here",
        "--price -1",
        "--report gpus.md",
        "--report gpus",
    ],
)
def test_what_cannot_be_is_said(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", *options.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith("whyidle: ")
    assert "hint: " in said


def test_a_page_is_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--format", "html"]) == 2
    assert "hint: whyidle watch --report gpus.html\n" in capsys.readouterr().err


def test_times_and_addresses_as_people_write_them() -> None:
    assert [seconds(text) for text in ("90", "90s", "15m", "2h", "0.5")] == [90, 90, 900, 7200, 0.5]
    assert address("9835") == ("127.0.0.1", 9835)
    assert address(":9835") == ("127.0.0.1", 9835)
    assert address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert address("[::1]:1") == ("::1", 1)
    for wrong in ("", "host", "host:", "1:70000", "1:-1"):
        with pytest.raises(WhyIdleError):
            address(wrong)


@pytest.mark.parametrize("suffix", ["html", "json"])
def test_a_report_of_what_was_seen(suffix: str, nvml_stub: Scenario, tmp_path: Path) -> None:
    file = tmp_path / f"gpus.{suffix}"
    asked = ("--once", "--for", "0.3", "--interval", "0.1", "--report", str(file))
    environ = nvml_stub(IDLE + f"process 0 0 {os.getpid()} 39000\n")
    assert watched(environ, *asked).returncode == 1
    text = file.read_text("utf-8")
    assert json.loads(text)["gpus"] if suffix == "json" else "The GPU idled 100% of the time" in text
    again = watched(environ, *asked)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert watched(environ, *asked, "--force").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_report_of_a_watch_that_is_stopped(number: int, nvml_stub: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "gpus.html"
    arguments = command("--interval", "0.1", "--every", "0.2s", "--report", str(file))
    environ = {**os.environ, **nvml_stub(BUSY)}
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for _ in range(3):
            run.stdout.readline()
        run.send_signal(number)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (0, "")
    assert "The GPU idled 5% of the time" in file.read_text("utf-8")


def test_a_report_of_a_watch_whose_reader_left(nvml_stub: Scenario, tmp_path: Path) -> None:
    """As of `whyidle watch --report gpus.json | tee log`, where Ctrl-C ends both."""
    file = tmp_path / "gpus.json"
    arguments = command("--interval", "0.1", "--every", "0.2s", "--report", str(file))
    environ = {**os.environ, **nvml_stub(BUSY)}
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.wait(timeout=60) == PIPE_CLOSED
    assert json.loads(file.read_text("utf-8"))["gpus"][0]["known_s"] > 0
