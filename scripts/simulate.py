"""Simulate the recordings that ship with whyidle and those that its tests read, so that they are nobody's trace.

    python scripts/simulate.py [FOLDER]

All come from `world`, the simulator of training jobs, and say so. The same program gives the same bytes, and a test
holds the files to it.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import world  # noqa: E402
from world import curves, kineto  # noqa: E402
from world.job import Data, Job  # noqa: E402
from world.nets import Work  # noqa: E402
from world.simulation import run  # noqa: E402

DEMO = Path("src/whyidle/demo")
RUNS = Path("tests/runs")

# What `whyidle demo` shows: batches that take 40 ms to make, in the training process or by four workers.
BEFORE = Job(
    family="cnn",
    gpu_name="A100",
    seed=2,
    steps=6,
    work=Work(),
    data=Data(workers=0, batch_us=40_000.0),
    copy="pageable",
    nanoseconds=True,
)
JOBS: Mapping[str, Job] = {
    "before": BEFORE,
    "after": replace(BEFORE, copy="pinned", data=replace(BEFORE.data, workers=4), deferred_reads=1),
}
TITLES = {
    "before": "a convolutional network, batch 384, DataLoader(num_workers=0)",
    "after": "a convolutional network, batch 384, DataLoader(num_workers=4, pin_memory=True)",
}
# Evidence for tests: a folder with its truth beside it.
EVIDENCE: Mapping[str, dict[str, object]] = {
    "healthy": {"family": "cnn", "seed": 1},
    "scalar_read": {"family": "cnn", "seed": 1, "faults": {"sync.scalar_read": 0.2}, "stacks": True},
    "workers_2021": {"family": "cnn", "gpu": "V100", "faults": {"input.workers_too_few": 0.2}, "dialect": "2021"},
    "straggler": {"family": "dlrm", "ranks": 2, "faults": {"dist.straggler": 0.2}, "shapes": False},
    "no_marks": {"family": "dlrm", "seed": 2, "faults": {"host.gc_pause": 0.1}, "marks": False},
}
# What the README shows of a curve: a job that saves while its four GPUs wait, with what its trainer printed.
CURVE = Path("tests/runs/curve")
SAVES = curves.asked(80, seed=5)[73]


def main(folder: Path) -> None:
    """Write all of them under a folder that is laid out like the project."""
    (folder / DEMO).mkdir(parents=True, exist_ok=True)
    for name, job in JOBS.items():
        (process,) = run(job).ranks
        kineto.write(process, folder / DEMO / f"{name}.json.gz", simulation=TITLES[name])
    for name, asked in EVIDENCE.items():
        world.simulate(**asked, steps=5, out=folder / RUNS / name)  # type: ignore[arg-type]
    saves(folder / CURVE)


def saves(folder: Path) -> None:
    """Write the curve and the log of a job, the curve packed."""
    for old in folder.glob("*"):
        old.unlink()
    if folder.exists():
        folder.rmdir()
    curves.write_one(folder, SAVES)
    curve = folder / "gpu.csv"
    (folder / "gpu.csv.gz").write_bytes(gzip.compress(curve.read_bytes(), mtime=0))
    curve.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
