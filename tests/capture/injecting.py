"""Starts test jobs as `whyidle run` does: with the capture folder first on PYTHONPATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CAPTURE = Path(__file__).parents[2] / "src" / "whyidle" / "capture"


def bare_environment() -> dict[str, str]:
    """The environment of a job that knows nothing of whyidle."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WHYIDLE", "PYTHON"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def environment(folder: Path, path: str = "", **options: Any) -> dict[str, str]:
    """The environment of a job that is recorded into `folder`; `path` is the user's own PYTHONPATH."""
    entries = [str(CAPTURE), path] if path else [str(CAPTURE)]
    return {
        **bare_environment(),
        "PYTHONPATH": os.pathsep.join(entries),
        "WHYIDLE_CAPTURE": str(folder),
        "WHYIDLE_OPTIONS": json.dumps(options),
    }


def python(
    *arguments: str | Path, env: dict[str, str], cwd: Path, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the tests' Python; a job that hangs fails its test."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
