"""Names of files that cannot be, or that say something else than where they stand: told before the work begins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whyidle.cli import main

HERE = Path(__file__).parents[2] / "src" / "whyidle" / "demo"
BEFORE, AFTER = (str(HERE / f"{name}.json.gz") for name in ("before", "after"))
JOB = ("--", "true", "{x}")
linux = pytest.mark.skipif(sys.platform != "linux", reason="run, loader and sweep measure on Linux")
WRITES = [
    [BEFORE, "-o"],
    ["demo", "-o"],
    ["lint", "train.py", "-o"],
    ["compare", BEFORE, AFTER, "-o"],
    ["scaling", "--throughput", "1=10,2=18", "-o"],
    ["check", BEFORE, "--max-idle", "20%", "-f", "json", "-o"],
    ["baseline", "save", BEFORE, "-o"],
    ["alarm", "prometheus", "-o"],
]
REPORTS = [["run", "-q"], ["loader"], ["sweep", "-p", "x=1"], ["sweep", "-p", "x=1", "--dry-run", "-f", "json"]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n", "utf-8")
    return tmp_path


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what is said of a command line that is wrong."""
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert {path.name for path in Path().iterdir()} <= {"train.py", "whyidle-sweeps"}
    return err


@pytest.mark.parametrize("length", [300, 10_000])
@pytest.mark.parametrize("verb", WRITES, ids=lambda verb: Path(verb[0]).name)
def test_a_name_that_is_too_long_for_a_report(verb: list[str], length: int, capfd: pytest.CaptureFixture[str]) -> None:
    said = refused(capfd, *verb, "x" * length + ".html")
    shown = f"{'x' * 60}...{'x' * 54}.html"
    assert said.splitlines()[0] == f"whyidle: cannot write the report to {shown}: File name too long"


@pytest.mark.parametrize("verb", WRITES, ids=lambda verb: Path(verb[0]).name)
def test_a_name_with_a_nul(verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert "embedded null byte" in refused(capfd, *verb, "a\0b.html")


@linux
@pytest.mark.parametrize("verb", REPORTS, ids=" ".join)
def test_a_report_of_a_job_that_is_not_started(verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    name = "x" * 300 + (".json" if "--dry-run" in verb else ".html")
    job = ["train.py"] if verb == ["loader"] else JOB
    assert "File name too long" in refused(capfd, *verb, "--report", name, *job)


@linux
def test_a_report_of_a_watch(capfd: pytest.CaptureFixture[str]) -> None:
    assert "File name too long" in refused(capfd, "watch", "--once", "--report", "x" * 300 + ".html")
    assert "--report writes a page or JSON" in refused(capfd, "watch", "--once", "--report", "gpus.pdf")


@pytest.mark.parametrize(
    "path", ["x" * 10_000, "x" * 10_000 + "/y.json", "d/" * 5000, "a\0b"], ids=["x", "x/y", "d", "0"]
)
@pytest.mark.parametrize(
    "verb",
    [
        [],
        ["diagnose"],
        ["diagnose", BEFORE, "--source"],
        ["compare", BEFORE],
        ["scaling", BEFORE],
        ["check", "--max-idle", "20%"],
        ["check", BEFORE, "--max-throughput-loss", "5%", "--baseline"],
        ["baseline", "save"],
        ["lint"],
        ["lint", "train.py", "--run"],
        ["explain"],
        pytest.param(["sweep", "--resume"], marks=linux),
        pytest.param(["sweep", "-p", "x=1", "--"], marks=linux),
        pytest.param(["loader"], marks=linux),
        pytest.param(["run", "--metrics-file"], marks=linux),
    ],
    ids=" ".join,
)
def test_a_path_that_no_file_system_takes(verb: list[str], path: str, capfd: pytest.CaptureFixture[str]) -> None:
    more = ["--", "true"] if verb[-1:] == ["--metrics-file"] else [] if verb[-1:] != ["--"] else ["{x}"]
    assert len(refused(capfd, *verb, path, *more)) < 800


@linux
def test_a_command_that_no_file_system_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--", "x" * 300]) == 127
    assert capfd.readouterr().err == f"whyidle: {'x' * 60}...{'x' * 59}: command not found\n"


@linux
@pytest.mark.parametrize("verb", [["run"], ["loader"], ["sweep", "-p", "x=1"]], ids=" ".join)
@pytest.mark.parametrize("name", ["rep.html", "rep.HTM", "rep.json", "rep.md", "rep.sarif", "rep.xml"])
def test_a_folder_is_not_called_like_a_report(name: str, verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    said = refused(capfd, *verb, "-o", name, *JOB)
    assert said == (
        f"whyidle: -o is the folder of the evidence, and {name} is called like a report\nhint: --report {name}\n"
    )


@pytest.mark.parametrize("verb", WRITES[:6], ids=lambda verb: Path(verb[0]).name)
def test_a_name_of_no_format(verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    verb = [word for word in verb if word not in {"-f", "json"}]
    said = refused(capfd, *verb, "x.pdf")
    assert said.startswith(
        "whyidle: x.pdf: no format of a report here is called .pdf\nhint: a name that ends in .json, "
    )
    assert main([*verb, "x.pdf", "-f", "JSON"]) in {0, 1, 2}
    assert Path("x.pdf").read_text("utf-8").startswith("{")


@linux
@pytest.mark.parametrize("verb", REPORTS[:3], ids=" ".join)
def test_a_report_of_no_format(verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    job = ["train.py"] if verb == ["loader"] else JOB
    assert "x.pdf: no format of a report here is called .pdf" in refused(capfd, *verb, "--report", "x.pdf", *job)


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ([BEFORE, "-o"], "-o {}/report.html"),
        (["demo", "-o"], "-o {}/report.html"),
        (["check", BEFORE, "--max-idle", "20%", "-o"], "-o {}/check.xml"),
        (["baseline", "save", BEFORE, "-o"], "-o {}/baseline.json"),
        (["alarm", "prometheus", "-o"], "-o {}/gpu-idle.yml"),
        pytest.param(["run", "--report"], "--report {}/report.html", marks=linux),
        pytest.param(["watch", "--once", "--report"], "--report {}/gpus.html", marks=linux),
    ],
)
def test_a_folder_is_no_report(verb: list[str], name: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = here.parent / f"{here.name}.d"
    folder.mkdir()
    said = refused(capfd, *verb, str(folder), *(["true"] if verb[0] == "run" else []))
    assert said == f"whyidle: {folder} is a folder; the report is a file\nhint: {name.format(folder)}\n"


def test_a_format_may_be_in_capital_letters(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-f", "HTML"]) == 0
    assert capfd.readouterr().out.startswith("<!doctype html>")
    assert main(["cost", "--hours", "2", "--busy", "0.4", "--price", "2", "--format", "Json"]) == 0
    assert capfd.readouterr().out.startswith("{")
    assert main(["sagemaker", "metrics", "-f", "Python"]) == 0
    assert capfd.readouterr().out.startswith("metric_definitions=")
    said = refused(capfd, "demo", "-f", "htm")
    assert said == (
        "whyidle: no format is called 'htm'\n"
        "hint: formats: github, gitlab, html, json, junit, markdown, sarif, terminal\n"
    )
