"""ID.loader.json: what is there is read, what is damaged is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whyidle.model.loader_trial import Pass, Point, Steps
from whyidle.read.base import UnreadableError
from whyidle.read.loader_trial import read_loader_trial, read_loader_trials
from whyidle.read.node import NodeFolder

WHOLE: dict[str, Any] = {
    "version": 1,
    "pid": 7,
    "state": "done",
    "why": "",
    "loader": 1,
    "loaders": [
        {
            "loader": 0,
            "where": "a.py:3",
            "class": "DataLoader",
            "dataset": None,
            "skipped": "there is no optimizer yet",
        },
        {"loader": 1, "where": "a.py:9", "batch_size": 4, "num_workers": 2, "length": None, "skipped": ""},
    ],
    "points": [
        {"workers": 0, "prefetch": 2, "status": "ok", "batches": 10, "seconds": 2.0, "fetch_s": [0.2, 0.2]},
        {"workers": 1, "prefetch": 2, "status": "failed", "why": "it is so"},
    ],
    "storage": {"status": "ok", "why": "", "first": {"batches": 4, "seconds": 1.0, "read_bytes": 9}, "cold": None},
    "training": {"now": {"steps": 5, "mean_s": 0.5, "median_s": 0.4, "optimizer_steps": 5}, "cached": None},
    "cuda_initialized": True,
    "local_ranks": 4,
    "available_memory_bytes": 1 << 30,
}


def written(folder: Path, content: object, name: str = "1-2.loader.json") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_all_of_it(tmp_path: Path) -> None:
    warnings: list[str] = []
    trial = read_loader_trial(written(tmp_path, WHOLE), warnings)
    assert warnings == []
    assert trial.tried is not None
    assert (trial.tried.where, trial.tried.num_workers) == ("a.py:9", 2)
    assert trial.points[0] == Point(0, 2, "ok", "", 10, 2.0, None, (0.2, 0.2))
    assert trial.points[0].batches_per_s == 5.0
    assert (trial.points[1].status, trial.points[1].batches_per_s) == ("failed", None)
    assert trial.storage is not None
    assert (trial.storage.first, trial.storage.cold) == (Pass(4, 1.0, 9), None)
    assert (trial.now, trial.cached) == (Steps(5, 0.5, 0.4, 5), None)
    assert (trial.cuda, trial.local_ranks) == (True, 4)


def test_what_is_damaged_is_left_out(tmp_path: Path) -> None:
    warnings: list[str] = []
    damaged = {**WHOLE, "state": "?", "points": [{"workers": "x"}, WHOLE["points"][0]], "storage": 3, "local_ranks": 0}
    trial = read_loader_trial(written(tmp_path, damaged), warnings)
    assert (trial.state, len(trial.points), trial.storage, trial.local_ranks) == ("failed", 1, None, 1)
    assert len(warnings) == 2
    with pytest.raises(UnreadableError):
        read_loader_trial(written(tmp_path, []), warnings)


def test_the_one_that_came_farthest_is_first(tmp_path: Path) -> None:
    written(tmp_path, {"state": "ended"}, "node-a/1-1.loader.json")
    written(tmp_path, {**WHOLE, "state": "training"}, "node-a/2-1.loader.json")
    written(tmp_path, WHOLE, "node-b/3-1.loader.json")
    states = [(trial.state, trial.loader) for trial in read_loader_trials(tmp_path, [])]
    assert states == [("done", 1), ("training", 1), ("ended", None)]
    assert NodeFolder.claims("12-34.loader.json")


def test_the_directory_gets_no_verdict(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    (tmp_path / "node.json").write_text("{}")
    with pytest.raises(UnreadableError, match="whose loader `whyidle loader` tried"):
        NodeFolder().read(tmp_path)
