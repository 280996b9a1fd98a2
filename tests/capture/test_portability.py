"""The capture runs in the job's Python, which may be older than ours and has neither whyidle nor what it needs."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture import injecting

SOURCES = sorted(injecting.CAPTURE.rglob("*.py"))
THE_JOBS = {"torch", "torchdata", "numpy"}  # the job's own; imported only where it has them


def imports(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_python_3_9_can_read_it(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_imports_the_standard_library_and_the_jobs_torch_only(path: Path) -> None:
    assert imports(ast.parse(path.read_text("utf-8"))) <= sys.stdlib_module_names | {"_whyidle"} | THE_JOBS


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_annotations_are_not_evaluated(path: Path) -> None:
    """Python 3.9 could not evaluate `int | None`."""
    body = ast.parse(path.read_text("utf-8")).body
    annotated = any(
        getattr(node, "annotation", getattr(node, "returns", None)) for each in body for node in ast.walk(each)
    )
    assert not annotated or any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in body)


def test_what_every_python_of_a_job_reads_has_no_word_that_old_ones_do_not_know() -> None:
    """A job may call a script of Python 2 or 3.6: it would say "Error in sitecustomize" on the job's stderr."""
    tree = ast.parse((injecting.CAPTURE / "sitecustomize.py").read_text("utf-8"), feature_version=(3, 4))
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.AsyncFunctionDef)
    assert not [node for node in ast.walk(tree) if isinstance(node, new)]
    assert "__future__" not in imports(tree)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.arg) or getattr(node, "returns", None)]


def test_what_runs_in_every_process_imports_next_to_nothing() -> None:
    boot = ast.parse((injecting.CAPTURE / "_whyidle" / "boot.py").read_text("utf-8"))
    assert imports(ast.Module(boot.body[:4], [])) == {"__future__", "sys"}


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_another_python_boots_and_records(version: str, tmp_path: Path) -> None:
    interpreter = shutil.which(f"python{version}")
    if interpreter is None:
        pytest.skip(f"there is no Python {version} on this machine")
    # A package of the name of torch stands in for it: hooks that find nothing to hook must not mind.
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("class _Nothing: pass\nnn = _Nothing()\n", "utf-8")
    code = "import torch; from _whyidle import record; print(record.put(2, 0, 1), torch.__name__)"
    env = {**injecting.environment(tmp_path, str(tmp_path)), "PATH": os.environ.get("PATH", "")}
    job = subprocess.run(
        [interpreter, "-W", "error", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if "version" in job.stderr and job.returncode == 127:  # a shim of pyenv without its Python
        pytest.skip(f"Python {version} is not installed behind {interpreter}")
    assert (job.returncode, job.stdout, job.stderr) == (0, "0 torch\n", "")
