"""`whyidle lint`: files in, a report out, files mended only when that is asked for, and an exit code."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lint.checks import CHECKS
from whyidle.cli import main
from whyidle.lint import findings, settings

JOB = """\
import torch

def train(model, optimizer, batches):
    for step, batch in enumerate(batches):
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
        total = loss.item()  # the loss
"""
MENDED = JOB.replace("loss.item()", "loss")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a job, in a world of three checks."""
    monkeypatch.chdir(tmp_path)
    for module in (findings, settings):
        monkeypatch.setattr(module, "all_checks", lambda: CHECKS)
    Path("train.py").write_text(JOB, "utf-8")
    return tmp_path


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the verb, and return exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["lint", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# Judging


def test_findings_make_exit_code_1(lint: Any) -> None:
    code, out, err = lint("train.py")
    assert (code, err) == (1, "")
    assert "1 line in 1 file can stall the GPU." in out
    assert "train.py:8:17" in out
    assert lint("train.py", "--exit-zero")[0] == 0
    assert lint("train.py", "--ignore", "sync")[0] == 0
    assert Path("train.py").read_text("utf-8") == JOB


def test_low_findings_and_healthy_code_make_0(lint: Any) -> None:
    Path("train.py").write_text(MENDED.replace("    for step", "    loss.item()\n    for step"), "utf-8")
    assert lint("train.py")[0] == 0
    Path("train.py").write_text(MENDED, "utf-8")
    assert lint("train.py")[:2] == (0, lint(".")[1])


def test_select_and_ignore_can_be_given_often(lint: Any) -> None:
    assert lint("train.py", "--select", "input", "--select", "sync.made_up_print")[0] == 0
    assert lint("train.py", "--select", "input,sync")[0] == 1
    code, _, err = lint("train.py", "--select", "snc")
    assert (code, err) == (2, "whyidle: --select: no check is called 'snc'\nhint: did you mean sync?\n")


def test_settings_of_the_project(lint: Any) -> None:
    Path("pyproject.toml").write_text('[tool.whyidle]\nignore = ["sync"]\n', "utf-8")
    assert lint("train.py")[0] == 0
    Path("pyproject.toml").write_text('[tool.whyidle]\nignor = ["sync"]\n', "utf-8")
    code, out, err = lint("train.py")
    assert (code, out) == (2, "")
    assert "did you mean ignore?" in err


@pytest.mark.parametrize("name", ["json", "sarif", "github", "gitlab", "junit", "terminal"])
def test_formats(name: str, lint: Any) -> None:
    code, out, _ = lint("train.py", "--format", name)
    assert code == 1
    assert "train.py" in out
    if name in {"json", "sarif", "gitlab"}:
        json.loads(out)


@pytest.mark.parametrize(("name", "head"), [("a.json", "{"), ("a.sarif", "{"), ("a.xml", "<"), ("a.txt", "  1 line")])
def test_a_report_in_a_file(name: str, head: str, lint: Any) -> None:
    code, out, err = lint("train.py", "-o", name)
    assert (code, out) == (1, "")
    assert err == f"1 line in 1 file can stall the GPU. Report: {name}\n"
    assert Path(name).read_text("utf-8").startswith(head)
    assert "exists already" in lint("train.py", "-o", name)[2]


# What cannot be judged


def test_a_named_file_that_cannot_be_read_makes_2_and_others_are_judged(lint: Any) -> None:
    Path("broken.py").write_text("x = 1\nif x\n", "utf-8")
    code, out, err = lint("broken.py", "train.py")
    assert code == 2
    assert err.startswith("whyidle: warning: broken.py: line 2: expected ':'")
    assert "train.py:8:17" in out
    code, out, err = lint(".")
    assert (code, err) == (1, "")
    assert "broken.py" in out


def test_nothing_that_can_be_read(lint: Any, here: Path) -> None:
    Path("train.py").write_text("if x\n", "utf-8")
    code, out, _ = lint("train.py")
    assert code == 2
    assert "Cannot judge" in out
    assert lint(".")[0] == 2
    (here / "empty").mkdir()
    code, out, err = lint("empty")
    assert (code, out) == (2, "")
    assert err.startswith("whyidle: no Python file and no notebook in empty\nhint: ")
    assert lint("nowhere")[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "train.py --fix --diff",
        "train.py --unsafe-fixes",
        "train.py --format yaml",
        "train.py --jobs 0",
        "train.py --stdin-filename x.py",
        "- train.py",
        "train.py --json",
    ],
)
def test_mistakes(arguments: str, lint: Any) -> None:
    code, out, err = lint(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("whyidle: ")


# Standard input


def test_standard_input(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, JOB.encode())
    code, out, _ = lint("-", "--stdin-filename", "pkg/job.py")
    assert code == 1
    assert "pkg/job.py:8:17" in out
    type_in(monkeypatch, b"if x\n")
    code, _, err = lint("-")
    assert code == 2
    assert "<stdin>: line 1: " in err
    assert not Path("pkg").exists()


def test_standard_input_mended_goes_to_standard_output(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, JOB.encode())
    code, out, err = lint("-", "--fix", "--stdin-filename", "train.py")
    assert (code, out) == (0, MENDED)
    assert "Fixed 1 finding in 1 file" in err
    assert Path("train.py").read_text("utf-8") == JOB


# Mending


def test_diff_changes_nothing(lint: Any) -> None:
    code, out, err = lint("train.py", "--diff")
    assert code == 1
    assert out.splitlines()[:2] == ["--- a/train.py", "+++ b/train.py"]
    assert [line for line in out.splitlines()[3:] if line[0] in "+-"] == [
        "-        total = loss.item()  # the loss",
        "+        total = loss  # the loss",
    ]
    assert "Would fix 1 finding in 1 file" in err
    assert Path("train.py").read_text("utf-8") == JOB
    assert lint("train.py", "--diff", "--ignore", "sync")[:2] == (0, "")
    assert lint("train.py", "--diff", "--exit-zero")[0] == 0


def test_a_diff_can_be_applied(lint: Any) -> None:
    _, out, _ = lint("train.py", "--diff")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "-"], input=out, text=True, check=True)
    assert Path("train.py").read_text("utf-8") == MENDED


def test_fix_says_what_it_did_and_what_is_left(lint: Any) -> None:
    Path("other.py").write_text(JOB, "utf-8")
    code, out, err = lint(".", "--fix")
    assert "Fixed 2 findings in 2 files" in err
    assert Path("train.py").read_text("utf-8") == MENDED
    assert ".item()" not in Path("other.py").read_text("utf-8")
    assert ".item()" not in out
    code, out, err = lint("train.py", "--fix")
    assert (code, "Nothing to fix" in err) == (0, True)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + JOB.replace("the loss", "\u00e4").encode(),
        JOB.replace("\n", "\r\n").encode(),
        f"# -*- coding: latin-1 -*-\n{JOB}".replace("the loss", "\u00e4").encode("latin-1"),
        JOB.replace("# the loss\n", "# the loss").encode(),
        JOB.replace("import torch\n", "import torch\f\r\n").encode(),
    ],
)
def test_a_mended_file_keeps_its_encoding_its_mark_its_line_ends_and_its_mode(data: bytes, lint: Any) -> None:
    path = Path("train.py")
    path.write_bytes(data)
    path.chmod(0o754)
    assert lint("train.py", "--fix")[0] == 0
    assert path.read_bytes() == data.replace(b"loss.item()", b"loss")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert [path.name for path in Path().iterdir()] == ["train.py"]


def test_only_files_that_are_named_are_mended(lint: Any) -> None:
    Path("reads.py").write_text("import torch\n\ndef read(loss):\n    return loss.item()\n", "utf-8")
    Path("train.py").write_text(f"from reads import read\n{JOB.replace('loss.item()', 'read(loss)')}", "utf-8")
    before = Path("reads.py").read_bytes()
    code, out, err = lint("train.py", "--fix")
    assert (code, "Nothing to fix" in err, "reads.py:4" in out) == (1, True, True)
    assert Path("reads.py").read_bytes() == before


def test_a_notebook_is_mended_in_its_cell(lint: Any) -> None:
    cells = [
        {"cell_type": "code", "source": ["%matplotlib inline"], "outputs": [], "metadata": {}},
        {"cell_type": "code", "source": JOB.splitlines(keepends=True), "outputs": [], "metadata": {}},
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"
    Path("train.py").unlink()
    Path("a.ipynb").write_text(text, "utf-8")
    code, out, _ = lint("a.ipynb")
    assert code == 1
    assert "cell 2, line 8" in out
    assert lint("a.ipynb", "--fix")[0] == 0
    assert Path("a.ipynb").read_text("utf-8") == text.replace("loss.item()", "loss")


# The process


def test_one_file_is_quick() -> None:
    """The limit is 0.6 s of wall time on a quiet machine; CPU time is what a busy one can tell."""
    subprocess.run([sys.executable, "-m", "whyidle", "lint", "train.py"], capture_output=True, check=False)
    before = os.times()
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "whyidle", "lint", "train.py"], capture_output=True, check=False)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert min(used, time.monotonic() - began) < 0.9, f"{used:.2f} s of CPU"


def test_nothing_heavy_is_imported_for_a_report_at_a_terminal() -> None:
    script = (
        "import sys; from whyidle.cli import main; main(['lint', 'train.py']); print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "libcst", "torch", "whyidle.diagnosis"} & set(run.stderr.split())
