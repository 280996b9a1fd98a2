"""What tests of measures share."""

from __future__ import annotations

import itertools

import pytest

from tests.recorded import run_directory
from whyidle.measure import measure
from whyidle.read import load


@pytest.fixture
def measured(tmp_path):
    """Return a function that measures processes as one run: values by name, and the rest."""
    number = itertools.count()

    def read(*processes, device="cpu", **machine):
        for process in processes:
            if device:
                process.setting("device", device)
        found = measure(load(run_directory(tmp_path / str(next(number)), *processes, **machine)))
        values = {m.name: m.value for m in found.measurements if not m.subject}
        return values, found

    return read
