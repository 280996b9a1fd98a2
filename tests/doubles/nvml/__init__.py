"""A stand-in for NVIDIA's management library, built from `nvml_stub.c`, which says what a scenario may hold."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"


def build(folder: Path) -> Path:
    """Return the library, built in a folder; the test is skipped where nothing can build it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the NVML double is built from C, and there is no C compiler here")
    library = folder / LIBRARY
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return library


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """Return what a process needs in its environment to find the stand-in instead of a driver."""
    return {"LD_LIBRARY_PATH": str(library.parent), "NVML_STUB_SCENARIO": str(scenario)}
