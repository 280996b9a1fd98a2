"""What a job was asked to be set to beside what it was seen to be set to."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.recorded import Process, run_directory
from whyidle.model.evidence import Fact, StepLog
from whyidle.read import load
from whyidle.read.asked import not_in_force

WORKERS = {"loader:num_workers": 4}


class Log(SimpleNamespace):
    def __len__(self) -> int:
        return int(self.records)


def told(asked: Any, *facts: Fact, records: int = 9) -> list[str]:
    log = cast("StepLog", Log(facts=(Fact("python", "3.11", "torch"), *facts), records=records))
    return list(not_in_force({"set": msgspec.Raw(json.dumps(asked).encode())}, [log]))


def test_what_is_in_force_needs_no_words() -> None:
    assert told(WORKERS, Fact("set", "4", "train.py:3", "loader:num_workers")) == []
    assert told({}) == told(None) == told({"loader:num_workers": [1]}) == told(7) == []
    assert list(not_in_force(None, [])) == list(not_in_force({}, [])) == []


def test_what_is_not_is_told_with_the_reason() -> None:
    refused = Fact("not_set", "the loader has no workers", "train.py:3", "loader:prefetch_factor")
    sentence = "The setting loader:prefetch_factor=8 did not come into force at train.py:3: the loader has no workers."
    assert told({"loader:prefetch_factor": 8}, refused, refused) == [sentence]
    there = Fact("set", "8", "train.py:9", "loader:prefetch_factor")
    (both,) = told({"loader:prefetch_factor": 8}, refused, there)
    assert both.startswith("The setting loader:prefetch_factor=8 came into force at train.py:9, but did not")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            WORKERS,
            "loader:num_workers=4 was not seen to come into force: no DataLoader for it was iterated.",
        ),
        (
            {"torch:tf32": True},
            "torch:tf32=on was not seen to come into force: the job did not come that far.",
        ),
    ],
)
def test_what_was_not_seen_is_told(asked: dict[str, Any], sentence: str) -> None:
    assert told(asked) == [f"The setting {sentence}"]
    assert told(asked, records=0) == []


def test_a_run_directory_tells_it(tmp_path: Path) -> None:
    folder = run_directory(tmp_path, Process().train(5)).glob("node-*")
    path = next(iter(folder)) / "node.json"
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**content, "options": {"trace": True, "set": WORKERS}}), "utf-8")
    (warning,) = load(tmp_path).warnings
    assert warning.startswith("The setting loader:num_workers=4 was not seen to come into force")
    path.write_text(json.dumps({**content, "options": {"set": WORKERS}, "ended": None}), "utf-8")
    assert load(tmp_path).warnings == ()
