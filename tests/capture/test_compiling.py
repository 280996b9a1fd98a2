"""torch.compile makes the same graphs, with the same breaks, whether a job is watched or not."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = Path(__file__).with_name("compiling.py")
SCENARIOS = re.findall(r"^    (\w+),$", SCRIPT.read_text("utf-8").partition("SCENARIOS = (")[2], re.MULTILINE)

Counted = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counted, Counted]:
    """What torch.compile counted, without us and with us."""
    folder = tmp_path_factory.mktemp("compiling")
    environments = {"bare": injecting.bare_environment(), "watched": injecting.environment(folder, trace=False)}

    def run(name: str) -> Counted:
        job = injecting.python(SCRIPT, folder / f"{name}.json", env=environments[name], cwd=folder)
        assert (job.returncode, job.stdout, job.stderr) == (0, "", "")
        counted: Counted = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return counted

    with ThreadPoolExecutor(2) as pool:
        bare, watched = pool.map(run, environments)
    assert reading.errors(folder) == ""
    (ring,) = reading.rings(folder)
    assert ring.counts()["FORWARD"] > 50
    return bare, watched


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_graphs_and_breaks_are_the_same(scenario: str, counted: tuple[Counted, Counted]) -> None:
    bare, watched = (run[scenario] for run in counted)
    assert bare["graphs"] > 0
    assert watched == bare
