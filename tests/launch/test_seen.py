"""Why there is nothing to judge, in one sentence each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launch.test_pace import batch, loop, record
from whyidle.launch.pace import Pace
from whyidle.launch.process import Ended
from whyidle.launch.seen import nothing
from whyidle.model.evidence import Record


def why(node: Path, data: bytes | None = None, command: str = "python train.py", ended: Ended | None = None) -> str:
    if data is not None:
        (node / "1-2.events").write_bytes(b"WHYIDLE1".ljust(4096, b"\0") + data)
    pace = Pace(node)
    pace.follow()
    found = nothing(node, pace, command.split(), ended)
    return "" if found is None else found.message


def test_two_steps_can_be_judged(tmp_path: Path) -> None:
    assert why(tmp_path, loop(2)) == ""


@pytest.mark.parametrize("kind", [Record.BACKWARD, Record.BATCH])
def test_so_can_loops_without_an_optimizer(tmp_path: Path, kind: Record) -> None:
    assert why(tmp_path, record(kind, 0, 1) + record(kind, 10, 1)) == ""


def test_and_a_trace_alone(tmp_path: Path) -> None:
    (tmp_path / "trace-rank0-1-2.json.gz").write_bytes(b"")
    assert why(tmp_path) == ""


def test_one_step_is_too_short(tmp_path: Path) -> None:
    assert why(tmp_path, loop(1) + batch(100, 1, flags=1)) == "too short to judge: the job made 1 training step"


def test_torch_without_a_step(tmp_path: Path) -> None:
    (tmp_path / "1-2.facts.json").write_text("{}", "utf-8")
    assert why(tmp_path) == "nothing to judge: the job imported torch, but no optimizer made a step"
    assert why(tmp_path, batch(0, 1)) == "nothing to judge: the job imported torch, but no optimizer made a step"


def test_no_torch(tmp_path: Path) -> None:
    assert why(tmp_path) == "nothing to judge: no process that whyidle could watch imported torch"


@pytest.mark.parametrize(
    ("ended", "said"), [(Ended(exit_code=2), "exited with 2"), (Ended(signal=9), "was ended by signal 9")]
)
def test_a_job_that_failed_before_it_trained(tmp_path: Path, ended: Ended, said: str) -> None:
    assert (
        why(tmp_path, ended=ended)
        == f"nothing to judge: the job {said} before it imported torch, as far as whyidle could watch"
    )
    (tmp_path / "1-2.facts.json").write_text("{}", "utf-8")
    assert why(tmp_path, ended=ended) == f"nothing to judge: the job {said} before an optimizer made a step"
    assert why(tmp_path, loop(1), ended=ended) == f"too short to judge: the job made 1 training step and {said}"
    assert why(tmp_path, loop(0), ended=Ended(exit_code=0)).endswith("but no optimizer made a step")


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-uIB"])
def test_an_option_that_keeps_us_out(tmp_path: Path, option: str) -> None:
    letter = option.strip("-uB")
    assert why(tmp_path, command=f"python3 {option} train.py").startswith(
        f"not captured: Python was started with -{letter}"
    )
    assert why(tmp_path, command=f"python3 train.py {option}").startswith("nothing to judge")
    assert why(tmp_path, loop(2), command=f"python3 {option} train.py") == ""


def test_what_the_collector_found(tmp_path: Path) -> None:
    lost = [{"pid": 7, "command": "python x.py", "why": "its environment was emptied", "hint": "pass it on"}] * 3
    (tmp_path / "node.json").write_text(json.dumps({"not_captured": lost}), "utf-8")
    assert why(tmp_path) == "not captured: its environment was emptied (pid 7: python x.py), and 2 more"


@pytest.mark.parametrize("text", ["", "[]", '{"not_captured": 3}', '{"not_captured": [{}]}', "\xff"])
def test_a_node_file_of_another_kind(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.json").write_text(text, "latin-1")
    assert why(tmp_path).startswith("nothing to judge")
