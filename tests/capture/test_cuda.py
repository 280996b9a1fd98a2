"""What only a real GPU can show: the lines that wait for it, its own waits, its kernels in the trace, CUDA graphs.

Skipped where there is none; bench/gpu/survive.py runs them on a machine that has one, and fails where they are skipped.
"""

from __future__ import annotations

import gzip
import json
import statistics
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.capture import injecting, reading

HERE = Path(__file__).parent
JOB = HERE / "on_cuda.py"


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available() or torch.version.hip:
        pytest.skip("needs an NVIDIA GPU: python bench/gpu/survive.py")


def run(
    folder: Path, *jobs: str, options: tuple[str, ...] = (), losses: bool = False
) -> tuple[reading.Ring, dict[str, Any]]:
    """Run a job beside its bare run, and return its records and its facts."""
    recorded = folder / "recorded"
    recorded.mkdir()
    bare = injecting.python(*options, JOB, *jobs, env=injecting.bare_environment(), cwd=folder)
    job = injecting.python(*options, JOB, *jobs, env=injecting.environment(recorded, losses=losses), cwd=folder)
    assert bare.returncode == 0, bare.stderr
    assert (job.returncode, job.stdout, job.stderr) == (0, bare.stdout, bare.stderr)
    assert reading.errors(recorded) == ""
    (recorded / "said").write_text(job.stdout, "utf-8")
    (ring,) = reading.rings(recorded)
    (facts,) = recorded.glob("*.facts.json")
    return ring, json.loads(facts.read_text("utf-8"))


def line(of: str) -> int:
    return 1 + JOB.read_text("utf-8").split(f"# line of the {of}")[0].count("\n")


def test_lines_that_wait_waits_of_the_device_and_kernels(tmp_path: Path) -> None:
    ring, facts = run(tmp_path, "eager")
    assert ring.counts()["STEP"] == 60
    assert facts["syncs"]["steps"] == 3
    sites = {(site["line"], site["operation"]): site["count"] for site in facts["syncs"]["sites"]}
    assert sites[line("item"), "item"] == 3
    assert sites[line("bool"), "bool"] == 3
    waits = [record.duration / 1e9 for record in ring.records if record.kind == "GPU"]
    assert 0.015 < statistics.median(waits) < 0.05  # of the 20 ms that a batch takes
    assert facts["profile"]["state"] == "done"
    (trace,) = (tmp_path / "recorded").glob("trace-rank0-*.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert sum(event.get("cat") == "kernel" for event in events) > 6 * 5


def test_where_warnings_are_errors_lines_are_not_looked_for(tmp_path: Path) -> None:
    ring, facts = run(tmp_path, "eager", options=("-W", "error"))
    assert ring.counts()["STEP"] == 60
    assert facts["syncs"] is None


def test_graphs_are_captured_as_without_us(tmp_path: Path) -> None:
    """An event of ours, a profiler or a query in a capture would break it."""
    ring, _ = run(tmp_path, "graphed", losses=True)
    assert ring.counts()["STEP"] == 38
    assert ring.counts()["LOSS"] == 8


def test_losses_are_those_that_the_job_saw(tmp_path: Path) -> None:
    ring, _ = run(tmp_path, "losing", losses=True)
    recorded = [one for one in ring.records if one.kind == "LOSS"]
    assert {one.flags for one in recorded} == {0}
    values = [struct.unpack("<d", struct.pack("<q", one.value))[0] for one in recorded]
    said = (tmp_path / "recorded" / "said").read_text("utf-8").split()
    assert values == pytest.approx([float.fromhex(one) for one in said], rel=1e-6)
