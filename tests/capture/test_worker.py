"""What loaders' workers say of themselves, for loaders that are slow for known reasons: see batches.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capture.injecting import environment, python
from tests.capture.reading import errors

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run delay and blocked calls are read from Linux")

HERE = Path(__file__).parent
KINDS = ("sleep", "cpu", "lock", "read")  # in the order of batches.py; two loaders each, without workers and with one
BATCHES = 20  # 40 items of 4, two epochs
FETCH_S = 0.08  # 4 items of 20 ms

Workers = dict[tuple[int, int], dict[str, Any]]


def fetched(folder: Path, method: str, **options: Any) -> tuple[Workers, list[dict[str, Any]]]:
    """Return what each worker said, by loader and worker, and the loaders."""
    job = python(HERE / "batches.py", method, env=environment(folder, trace=False, **options), cwd=HERE)
    assert (job.returncode, job.stderr) == (0, "")
    assert errors(folder) == ""
    found = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.worker-*.json")]
    (facts,) = folder.glob("*.facts.json")
    return {(one["loader"], one["worker"]): one for one in found}, json.loads(facts.read_text("utf-8"))["loaders"]


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workers, list[dict[str, Any]]]:
    return fetched(tmp_path_factory.mktemp("fork"), "fork", workers=True)


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workers, list[dict[str, Any]]]:
    return fetched(tmp_path_factory.mktemp("spawn"), "forkserver")


def loader_of(kind: str, workers: int) -> tuple[int, int]:
    return 2 * KINDS.index(kind) + workers, 0 if workers else -1


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_time_of_a_batch_is_told_apart(forked: tuple[Workers, Any], kind: str, workers: int) -> None:
    """By the CPU time in it, which needs no thread; computing is told from waiting."""
    said = forked[0][loader_of(kind, workers)]
    assert said["fetches"] == BATCHES
    total = said["fetch_s"]["sum"]
    assert total > BATCHES * FETCH_S * 0.5
    assert said["fetch_s"]["max"] >= total / BATCHES
    assert said["fetch_s"]["sum_of_squares"] >= total**2 / BATCHES * 0.999
    assert said["run_delay_s"] >= 0
    used = said["cpu_s"] + said["run_delay_s"]
    assert used > 0.7 * total if kind == "cpu" else used < 0.5 * total
    assert said["method"] == ("fork" if workers else None)
    assert said["wall_s"] >= total


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_look_names_the_state_and_the_line(forked: tuple[Workers, Any], kind: str, workers: int) -> None:
    said = forked[0][loader_of(kind, workers)]
    states: dict[str, int] = {}
    for stack in said["stacks"]:
        states[stack["state"]] = states.get(stack["state"], 0) + stack["count"]
    assert said["samples"] >= 10
    assert max(states, key=lambda state: states[state]) == kind, states
    assert states[kind] > 0.6 * sum(states.values())
    top = max(said["stacks"], key=lambda stack: stack["count"])
    file, line, function = top["frames"][0].rsplit(":", 2)
    assert (file, function) == ("batches.py", "make")
    assert int(line) > 0
    assert top["frames"][1].endswith(":__getitem__")


def test_workers_of_every_start_method_are_counted(spawned: tuple[Workers, Any]) -> None:
    """Each belongs to its own loader, though the fork server that starts them is older than the loaders."""
    for kind in KINDS:
        said = spawned[0][loader_of(kind, 1)]
        assert said["fetches"] == BATCHES
        assert said["method"] == "forkserver"
        assert "stacks" not in said


def test_loaders_are_described_with_the_line_that_made_them(forked: tuple[Workers, list[dict[str, Any]]]) -> None:
    source = (HERE / "batches.py").read_text("utf-8").splitlines()
    line = 1 + next(number for number, text in enumerate(source) if "= DataLoader(" in text)
    loaders = forked[1]
    assert [loader["loader"] for loader in loaders] == list(range(8))
    assert {loader["where"] for loader in loaders} == {f"batches.py:{line}"}
    assert [loader["num_workers"] for loader in loaders] == [0, 1] * 4
    last = loaders[-1]
    assert last["dataset"] == "__main__.Reading"
    assert last["class"] == "torch.utils.data.dataloader.DataLoader"
    assert (last["batch_size"], last["length"], last["prefetch_factor"]) == (4, 10, 2)
    assert (last["iterable"], last["persistent_workers"], last["start_method"]) == (False, False, "fork")
    assert Path(last["dataset_path"]).is_dir()
    assert last["file_system"]
