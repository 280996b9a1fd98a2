"""Files of baselines, whole and damaged."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.model.finding import GpuCount
from whyidle.model.gate import Baseline
from whyidle.read.baseline import MOST_STARTS, MOST_STEPS, read_baseline
from whyidle.render.gate import baseline_json

WHOLE = Baseline(
    made="2026-11-30T10:00:00+00:00",
    whyidle="0.1.0",
    gpus=(GpuCount("NVIDIA H100 80GB HBM3", 8),),
    world_size=8,
    batch_size=32,
    model="train.Net",
    parameters=25_557_032,
    torch_version="2.13.0",
    settings={"tf32_matmul": True, "autocast_dtype": "bfloat16", "gradient_accumulation": 4},
    steps_from="Optimizer.step",
    warm_up=10,
    step_seconds=((0.1, 0.125, 0.0875), (0.2, 0.1)),
    step_numbers=((11, 12, 14), (11, 12)),
    step_time_s=0.1,
    step_time_mean_s=0.104167,
    samples_per_s=2457.6,
    gpu_idle_share=0.12,
    data_wait_share=0.0,
    peak_memory_bytes=34_359_738_368,
)


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    for one in (WHOLE, Baseline()):
        (tmp_path / "b.json").write_text(baseline_json(one), "utf-8")
        assert read_baseline(tmp_path / "b.json") == one


def refusal(path: Path, content: str | bytes) -> WhyIdleError:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(WhyIdleError) as caught:
        read_baseline(path)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "nonsense", "\x00", "[" * 100_000, '{"schema_version": 1}', "null"]
)
def test_what_is_none(tmp_path: Path, content: str) -> None:
    assert "is no baseline of whyidle" in refusal(tmp_path / "b.json", content).message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step_seconds", [[0.1] * (MOST_STEPS + 1)]),
        ("step_seconds", [[0.1]] * (MOST_STARTS + 1)),
        ("step_seconds", [[]]),
        ("step_numbers", [[1, 2]]),
        ("step_numbers", [[1, -2, 3]]),
        ("step_seconds", [0.1]),
        ("step_seconds", [[0.1, 0.0]]),
        ("step_seconds", [[0.1, -1]]),
        ("step_seconds", [[1e300]]),
        ("step_seconds", [[5e-324]]),
        ("step_seconds", [None]),
        ("step_seconds", "0.1"),
        ("world_size", 0),
        ("world_size", 1 << 70),
        ("gpus", [{"name": "x" * 1000, "count": 1}]),
        ("gpus", [{"name": "x"}]),
        ("gpu_idle_share", 1.5),
        ("data_wait_share", -0.1),
        ("settings", {str(k): 1 for k in range(200)}),
        ("settings", {"a": [1]}),
        ("per", "epoch"),
        ("peak_memory_bytes", -5),
    ],
)
def test_what_cannot_be_is_damage(tmp_path: Path, field: str, value: Any) -> None:
    file = json.loads(baseline_json(WHOLE))
    file["baseline"][field] = value
    assert "is damaged" in refusal(tmp_path / "b.json", json.dumps(file)).message


def test_other_refusals(tmp_path: Path) -> None:
    newer = baseline_json(WHOLE).replace('"schema_version": 1', '"schema_version": 2')
    assert "a newer whyidle" in refusal(tmp_path / "b.json", newer).message
    assert "larger than 4 MiB" in refusal(tmp_path / "b.json", " " * (5 << 20)).message
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(WhyIdleError, match=r"cannot be read: (not a regular file|there is no such file)"):
            read_baseline(path)


def test_what_a_later_version_adds_is_no_damage(tmp_path: Path) -> None:
    file = json.loads(baseline_json(WHOLE))
    file["baseline"]["moon"] = "full"
    (tmp_path / "b.json").write_text(json.dumps(file), "utf-8")
    assert read_baseline(tmp_path / "b.json") == WHOLE


@given(st.binary(max_size=200), st.integers(0, 900), st.integers(0, 900))
def test_no_bytes_are_a_traceback(tmp_path_factory: pytest.TempPathFactory, noise: bytes, begin: int, end: int) -> None:
    path = tmp_path_factory.mktemp("damage") / "b.json"
    content = baseline_json(WHOLE).encode()
    path.write_bytes(content[: min(begin, end)] + noise + content[max(begin, end) :])
    with contextlib.suppress(WhyIdleError):
        read_baseline(path)
