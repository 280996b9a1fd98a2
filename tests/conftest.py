"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORPUS = Path(os.environ.get("WHYIDLE_CORPUS", ROOT.parent / "shared" / "corpus"))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real recordings made by others; skip where it is not."""
    if not CORPUS.is_dir():
        pytest.skip("no recordings here: set WHYIDLE_CORPUS to the corpus folder")
    return CORPUS
