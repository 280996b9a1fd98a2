"""What is recorded of training loops as people write them: every event exactly as often as it happens, and no other."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.capture import injecting, reading
from tests.capture.reading import Record

pytest.importorskip("torch", reason="PyTorch is not installed")

LOOPS = Path(__file__).with_name("loops.py")

# Batches that a loop gets, and the ends of its data; ITERATE is the start of an epoch.
DATA = {"ITERATE": 1, "BATCH": 10, "END": 1}
STEPS = {"FORWARD": 10, "BACKWARD": 10, "STEP": 10}
EXPECTED: dict[str, dict[str, int]] = {
    "plain": {**DATA, **STEPS},
    "loss_module": {**DATA, **STEPS},  # a loss is a module, but no model
    "accumulate": {**DATA, **STEPS, "STEP": 2},
    "gan": {**DATA, "FORWARD": 40, "BACKWARD": 15, "STEP": 15},
    "two_roots": {**DATA, **STEPS, "FORWARD": 20},
    "scaler": {**DATA, **STEPS, "STEP": 6, "SCALE": 10},
    "scaler_fused": {**DATA, **STEPS, "SCALE": 10},
    "lbfgs": {**DATA, "FORWARD": 40, "BACKWARD": 40, "STEP": 10},
    "inference": {**DATA, "FORWARD": 10},
    "evaluate": {"ITERATE": 4, "BATCH": 30, "END": 4, "FORWARD": 30, "BACKWARD": 20, "STEP": 20, "SAVE": 2},
    "generator": STEPS,
    "cycle": {**DATA, "FORWARD": 15, "BACKWARD": 15, "STEP": 15},  # it keeps the batches of the first epoch
    "web_loader": {**DATA, **STEPS},
    "stateful": {"ITERATE": 2, "BATCH": 20, "END": 2, "FORWARD": 20, "BACKWARD": 20, "STEP": 20},
    "stateful_workers": {**DATA, **STEPS},
    "persistent": {"ITERATE": 3, "BATCH": 30, "END": 3, "FORWARD": 30, "BACKWARD": 30, "STEP": 30},
    "two_loaders": {"ITERATE": 2, "BATCH": 20, "END": 1, **STEPS},
    "thread": {**DATA, **STEPS},
    "tokens": {"ITERATE": 1, "BATCH": 4, "END": 1},
    "no_optimizer": {**DATA, "FORWARD": 10, "BACKWARD": 10},
    "torch_func": {**DATA, "FORWARD": 10},
    "own_optimizer": {**DATA, **STEPS},
    "fused": {**DATA, **STEPS},
    "in_backward": {**DATA, "FORWARD": 10, "BACKWARD": 10, "STEP": 40},
    "raising": {**DATA, "FORWARD": 10, "BACKWARD": 7, "STEP": 7},
    "recompute": {**DATA, **STEPS},
    "saves": {"SAVE": 6},
    "compiled": {**DATA, **STEPS},
    "compiled_in_place": {**DATA, **STEPS},
}
RANKS: dict[str, dict[str, int]] = {"ddp": {**DATA, **STEPS}, "fsdp2": {**DATA, **STEPS}}  # of each of two
FRAMEWORKS: dict[str, dict[str, int]] = {
    "accelerate": {**DATA, **STEPS, "STEP": 5},
    # Two batches of a sanity check and two of a validation; it does not ask for a batch more than there are.
    "lightning": {"ITERATE": 3, "BATCH": 14, "FORWARD": 14, "BACKWARD": 10, "STEP": 10, "RANGE": 2, "SAVE": 1},
    # Two evaluations of two batches; two checkpoints of one safetensors file and four torch.save each.
    "huggingface": {
        "ITERATE": 3, "BATCH": 20, "END": 3, "FORWARD": 20, "BACKWARD": 16, "STEP": 8, "RANGE": 4, "SAVE": 10,
    },
}  # fmt: skip
PROFILERS = ("lightning_profiler", "huggingface_profiler")
Frameworks = tuple[dict[str, tuple[Record, ...]], dict[str, Any], str]
NEEDS = {
    "lightning_profiler": "lightning",
    "huggingface_profiler": "transformers",
    "web_loader": "webdataset",
    "stateful": "torchdata",
    "stateful_workers": "torchdata",
    "saves": "safetensors",
    "accelerate": "accelerate",
    "lightning": "lightning",
    "huggingface": "transformers",
}


def installed(loop: str) -> bool:
    return loop not in NEEDS or importlib.util.find_spec(NEEDS[loop]) is not None


def run(
    folder: Path, loops: Iterable[str], **options: Any
) -> tuple[dict[str, tuple[Record, ...]], dict[str, Any], str]:
    """The records of each loop, what it returned, and stderr; all run in one process, one after the other."""
    chosen = [loop for loop in loops if installed(loop)]
    recorded, work = folder / "recorded", folder / "work"
    recorded.mkdir()
    work.mkdir()
    job = injecting.python(LOOPS, "marks.json", *chosen, env=injecting.environment(recorded, **options), cwd=work)
    assert job.returncode == 0, job.stderr
    assert reading.errors(recorded) == ""
    (ring,) = reading.rings(recorded)
    parts, results = {}, {}
    for loop, (first, last, failed, result) in json.loads((work / "marks.json").read_text("utf-8")).items():
        assert not failed, f"{loop}: {failed}"
        parts[loop] = ring.records[first:last]
        results[loop] = result
    return parts, results, job.stderr


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Record, ...]]:
    return run(tmp_path_factory.mktemp("loops"), EXPECTED, trace=False)[0]


@pytest.fixture(scope="module")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[Record, ...]], dict[str, Any], str]:
    return run(tmp_path_factory.mktemp("frameworks"), [*FRAMEWORKS, *PROFILERS], trace_after=10)


def test_every_event_of_two_ranks_is_recorded_once(tmp_path: Path) -> None:
    recorded, work = tmp_path / "recorded", tmp_path / "work"
    recorded.mkdir()
    work.mkdir()

    def rank(number: int) -> None:
        env = {**injecting.environment(recorded, trace=False), "RANK": str(number), "WORLD_SIZE": "2"}
        job = injecting.python(LOOPS, f"marks{number}.json", *RANKS, env=env, cwd=work)
        assert job.returncode == 0, job.stderr

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(rank, range(2)))
    assert reading.errors(recorded) == ""
    for number, ring in enumerate(sorted(reading.rings(recorded), key=lambda ring: ring.header["rank"])):
        assert (ring.header["rank"], ring.header["world_size"]) == (number, 2)
        marks = json.loads((work / f"marks{number}.json").read_text("utf-8"))
        for loop, (first, last, failed, _) in marks.items():
            assert not failed, f"{loop}: {failed}"
            assert reading.count(ring.records[first:last], "COUNT", "WATCH", "PROFILE") == RANKS[loop]


@pytest.mark.parametrize("loop", EXPECTED)
def test_every_event_of_a_loop_is_recorded_once(loop: str, loops: dict[str, tuple[Record, ...]]) -> None:
    if not installed(loop):
        pytest.skip(f"{NEEDS[loop]} is not installed")
    assert reading.count(loops[loop], "COUNT", "WATCH", "PROFILE") == EXPECTED[loop]


@pytest.mark.parametrize("loop", FRAMEWORKS)
def test_every_event_of_a_framework_is_recorded_once(loop: str, frameworks: Frameworks) -> None:
    if not installed(loop):
        pytest.skip(f"{NEEDS[loop]} is not installed")
    assert reading.count(frameworks[0][loop], "COUNT", "WATCH", "PROFILE") == FRAMEWORKS[loop]


@pytest.mark.parametrize("loop", PROFILERS)
def test_the_profiler_of_a_framework_gets_all_of_its_events(loop: str, frameworks: Frameworks) -> None:
    """It begins inside our window or just before, as Lightning counts steps of evaluations: ours gives way."""
    if not installed(loop):
        pytest.skip(f"{NEEDS[loop]} is not installed")
    alone, beside, ours = frameworks[1][loop]
    assert len(alone) == 1
    assert alone[0] > 100
    assert beside == alone
    assert ours["why"] == "the job's own profiler started"
    assert (ours["state"], ours["steps"]) in {("skipped", 0), ("done", 1), ("done", 2)}


def of(kind: str, records: tuple[Record, ...]) -> list[Record]:
    return [record for record in records if record.kind == kind and not (kind == "BATCH" and record.flags & 1)]


def test_training_and_evaluation_are_told_apart(loops: dict[str, tuple[Record, ...]]) -> None:
    assert Counter(record.flags for record in of("FORWARD", loops["evaluate"])) == {1 | 2: 20, 0: 10}
    assert Counter(record.flags for record in of("FORWARD", loops["two_roots"])) == {1 | 2: 10, 0: 10}
    assert {record.flags for record in of("FORWARD", loops["inference"])} == {0}


def test_modules_and_optimizers_have_numbers(loops: dict[str, tuple[Record, ...]]) -> None:
    assert sorted(Counter(record.value for record in of("FORWARD", loops["gan"])).values()) == [15, 25]
    assert sorted(Counter(record.value for record in of("STEP", loops["gan"])).values()) == [5, 10]
    assert sorted(Counter(record.value for record in of("STEP", loops["in_backward"])).values()) == [10] * 4


@pytest.mark.parametrize("loop", ["scaler", "scaler_fused"])
def test_skipped_steps_are_flagged(loop: str, loops: dict[str, tuple[Record, ...]]) -> None:
    assert [record.flags for record in of("SCALE", loops[loop])] == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_loaders_and_batches_say_what_they_are(loops: dict[str, tuple[Record, ...]]) -> None:
    assert {record.samples for record in of("BATCH", loops["plain"])} == {32}
    assert {record.tokens for record in of("BATCH", loops["plain"])} == {0}
    assert {(record.samples, record.tokens) for record in of("BATCH", loops["tokens"])} == {(4, 48)}
    by_loader = Counter((record.loader, record.samples) for record in of("BATCH", loops["two_loaders"]))
    assert sorted(samples for _, samples in by_loader) == [16, 32]
    assert len({loader for loader, _ in by_loader}) == 2
    if "web_loader" in loops:  # needs webdataset
        assert {record.samples for record in of("BATCH", loops["web_loader"])} == {32}


def test_workers_are_told(loops: dict[str, tuple[Record, ...]]) -> None:
    flags = [record.flags for record in of("BATCH", loops["persistent"])]
    assert {told & 3 for told in flags} == {2}
    assert all(1 <= told >> 2 <= 63 for told in flags)  # the part of the time in which the thread computed is known
    assert {record.flags for record in of("BATCH", loops["plain"])} == {0}
    assert [record.value & 0xFFFFFFFF for record in of("ITERATE", loops["persistent"])] == [1, 1, 1]
    assert len({record.loader for record in of("ITERATE", loops["persistent"])}) == 1


def test_a_loader_in_a_thread_shows_as_another_thread(loops: dict[str, tuple[Record, ...]]) -> None:
    records = loops["thread"]
    assert not {r.thread for r in of("BATCH", records)} & {r.thread for r in of("STEP", records)}


def test_saves_say_how_much_was_written(loops: dict[str, tuple[Record, ...]]) -> None:
    if not installed("saves"):
        pytest.skip("safetensors is not installed")
    sizes = [record.value for record in of("SAVE", loops["saves"])]
    assert all(size > 38_000 for size in sizes[:5])  # 9,610 parameters of 4 bytes
    assert sizes[5] == 0  # a folder of several writers


def test_nested_phases_lie_inside_each_other(loops: dict[str, tuple[Record, ...]]) -> None:
    """LBFGS calls forward and backward inside its step: whoever sums durations has to take self time."""
    steps = of("STEP", loops["lbfgs"])
    for record in of("FORWARD", loops["lbfgs"]) + of("BACKWARD", loops["lbfgs"]):
        assert any(
            step.start <= record.start and record.start + record.duration <= step.start + step.duration
            for step in steps
        )
