"""A training's loader is tried in forked children: what they find, and that the training is what it would have been."""

from __future__ import annotations

import importlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.capture.injecting import CAPTURE, bare_environment, environment, python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whyidle loader measures on Linux only")
JOBS = Path(__file__).with_name("loader_jobs.py")
SHORT: dict[str, Any] = {"workers": [0, 1], "seconds": 0.1, "steps": 6, "train_seconds": 20}


def trial(what: str, here: Path, **changes: Any) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Run a job whose loader is tried; return what was found."""
    folder = here / "out"
    folder.mkdir()
    env = environment(folder, trace=False, syncs=0, loader_trial={**SHORT, **changes})
    ran = python(JOBS, what, env=env, cwd=here)
    assert not (folder / "errors.txt").exists(), (folder / "errors.txt").read_text()
    (file,) = folder.glob("*.loader.json")
    return json.loads(file.read_text()), ran


def batches(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stdout.splitlines() if line.startswith("[")]


def points(found: dict[str, Any]) -> dict[tuple[int, int], dict[str, Any]]:
    return {(point["workers"], point["prefetch"]): point for point in found["points"]}


def test_the_training_is_measured_as_it_is_and_without_loading(tmp_path: Path) -> None:
    found, ran = trial("slow", tmp_path)
    assert (found["state"], ran.returncode) == ("done", 0)
    assert "saved" not in ran.stdout  # what follows the training is not done
    now, cached = found["training"]["now"], found["training"]["cached"]
    assert min(now["steps"], cached["steps"]) >= 6  # or as many as fit into 0.1 s
    assert now["optimizer_steps"] == now["steps"]
    assert now["median_s"] > 4 * 0.004 > cached["median_s"]
    none, one = points(found)[0, 2], points(found)[1, 2]
    assert none["status"] == one["status"] == "ok"
    assert min(none["fetch_s"] + one["fetch_s"]) > 4 * 0.004
    assert (none["batch_samples"], none["batch_bytes"], none["memory_bytes"]) == (4, 16, None)
    assert one["memory_bytes"] > 1 << 20
    assert found["storage"]["files"] == 0


@pytest.mark.parametrize("what", ["shuffled", "workers", "lines"])
def test_the_training_has_the_data_that_it_would_have_had(what: str, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{number}\n" for number in range(64)))
    bare = python(JOBS, what, env=bare_environment(), cwd=tmp_path)
    found, ran = trial(what, tmp_path, workers=[0, 1, 2], steps=6)
    assert found["state"] in {"done", "ended"}
    steps = 3 + 6 + 1 + (2 if what == "workers" else 0)  # warm-up, and what was made ahead counts as such
    assert batches(ran)[:steps] == batches(bare)[:steps]
    assert len(batches(ran)) >= steps


def test_a_loader_that_fails_with_workers_is_a_result(tmp_path: Path) -> None:
    found, _ = trial("alone", tmp_path)
    assert points(found)[0, 2]["status"] == "ok"
    assert points(found)[1, 2]["status"] == "failed"
    assert points(found)[1, 2]["why"] == "RuntimeError: no database in workers"
    assert found["training"]["cached"] is not None


def test_a_worker_that_dies_is_a_result(tmp_path: Path) -> None:
    found, _ = trial("dies", tmp_path)
    assert points(found)[1, 2]["status"] == "failed"
    assert re.search(r"DataLoader worker .*exited unexpectedly", points(found)[1, 2]["why"])


def test_a_loader_that_hangs_is_a_result(tmp_path: Path) -> None:
    found, _ = trial("hangs", tmp_path, limit_s=2)
    assert points(found)[1, 2]["status"] == "timed out"
    assert found["training"]["cached"] is not None


def test_spawned_workers_and_a_function_that_cannot_be_sent(tmp_path: Path) -> None:
    found, ran = trial("spawned", tmp_path, workers=[1])
    assert points(found)[1, 2]["status"] == "ok"
    assert points(found)[1, 2]["fetch_s"] == []  # nobody could tell it where to write them
    assert ran.returncode == 0


def test_batches_from_which_the_training_takes_entries_are_handed_out_again(tmp_path: Path) -> None:
    found, ran = trial("mutated", tmp_path)
    assert found["state"] == "done", ran.stderr
    given = batches(ran)
    had = found["training"]["now"]["steps"] + 4  # the warm-up's, and one to begin from
    assert len(given) == had + found["training"]["cached"]["steps"] + 3  # on the last it does not train any more
    assert set(given[had:]) <= set(given[had - 4 : had])


def test_unequal_batches_are_made_farther_ahead(tmp_path: Path) -> None:
    found, _ = trial("unequal", tmp_path, steps=0)
    assert set(points(found)) == {(0, 2), (1, 2), (1, 4), (1, 8)}


def test_workers_for_which_there_is_no_room_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CAPTURE))
    child = importlib.import_module("_whyidle.loader_child")
    free = {"memory": 1 << 30, "shared": 1 << 30}
    monkeypatch.setattr(child.loader_alone, "available_memory", lambda: free["memory"])
    monkeypatch.setattr(child.loader_alone, "free_shared_memory", lambda: free["shared"])
    plan = child.Plan({})
    plan.points = [{"workers": 1, "prefetch": 2, "memory_bytes": 100 << 20, "batch_bytes": 20 << 20}]
    assert plan._too_large(4, 2) == ""
    assert "half of the memory" in plan._too_large(6, 2)
    free["shared"] = 64 << 20
    assert "/dev/shm" in plan._too_large(1, 2)
    free.update(memory=None, shared=None)  # not known: it is tried
    assert plan._too_large(100, 8) == ""


def test_files_are_seen_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(40):
        (tmp_path / "data" / f"{number}.bin").write_bytes(bytes(5000))
    found, _ = trial("files", tmp_path, cold=True)
    storage = found["storage"]
    assert (storage["files"], storage["opened"], storage["files_bytes"]) == (40, 40, 200_000)
    assert storage["cold"]["dropped"] == 40
    for name in ("first", "cold", "warm"):
        assert storage[name]["batches"] == 10
        assert 200_000 <= storage[name]["read_bytes"] < 250_000


def test_evaluations_are_not_taken_for_the_training(tmp_path: Path) -> None:
    found, ran = trial("evaluated", tmp_path)
    assert ran.returncode == 0
    assert found["state"] == "ended"
    assert [one["skipped"] for one in found["loaders"]] == [
        "it is iterated in evaluate()",
        "gradients are off, as in an evaluation",
    ]


def test_the_second_loader_is_the_trainings(tmp_path: Path) -> None:
    found, _ = trial("two", tmp_path)
    assert (found["loader"], found["loaders"][1]["batch_size"]) == (1, 8)


def test_a_loader_can_be_asked_for(tmp_path: Path) -> None:
    found, ran = trial("two", tmp_path, loader=0, steps=0)
    assert (found["loader"], found["state"]) == (0, "done")
    assert found["loaders"][0]["batch_size"] == 2
    assert batches(ran) == []  # the training is not tried


def test_a_script_that_ends_by_itself_says_so(tmp_path: Path) -> None:
    found, ran = trial("plain", tmp_path, steps=1000, loader=1)
    assert (found["state"], found.get("loader")) == ("ended", None)
    assert "saved" in ran.stdout


def test_a_loader_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    found, ran = trial("slow", tmp_path, loader=5)
    assert (found["state"], found["why"]) == ("ended", "a second epoch of the training began without it")
    assert (len(batches(ran)), ran.returncode) == (16, 0)  # one epoch of fifty


@pytest.mark.parametrize("answers", [False, True])
def test_ctrl_c_ends_a_measurement_without_a_traceback(tmp_path: Path, answers: bool) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    chosen = {**SHORT, "workers": [0, 1], "seconds": 0.5}
    env = environment(folder, trace=False, syncs=0, loader_trial=chosen)
    command = [sys.executable, str(JOBS), "deaf" if answers else "slow"]
    job = subprocess.Popen(command, env=env, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not any('"batches"' in path.read_text() for path in folder.glob("*.loader.json")):
        assert job.poll() is None
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == -signal.SIGINT
    assert "Traceback" not in errors
    (file,) = folder.glob("*.loader.json")
    found = json.loads(file.read_text())
    assert (found["state"], found["why"]) == ("ended", "it was stopped while its loader was measured")
    assert points(found)[0, 2]["batches"] > 0


def test_an_epoch_that_is_the_last_goes_on_with_batches_that_it_had(tmp_path: Path) -> None:
    found, ran = trial("plain", tmp_path, steps=1000)
    assert found["state"] == "done"
    assert "saved" not in ran.stdout
    assert found["training"]["now"]["steps"] == 12  # 16 batches: 3 to warm up, 1 to begin from
    assert found["training"]["cached"]["steps"] >= 5


def test_a_loader_that_looks_the_same_at_another_line_is_another_one(tmp_path: Path) -> None:
    found, ran = trial("twins", tmp_path)
    assert (found["state"], ran.returncode) == ("done", 0), ran.stderr
    assert set(batches(ran)) == {"[0.0, 1.0, 2.0, 3.0]", "[4.0, 5.0, 6.0, 7.0]"}


def test_a_loader_that_is_made_anew_for_each_epoch_is_the_same_one(tmp_path: Path) -> None:
    found, ran = trial("anew", tmp_path, steps=6)
    assert found["state"] == "done"
    assert ran.stdout.count("saved") < 10
    assert found["training"]["now"]["steps"] >= 5
    assert found["training"]["cached"]["steps"] >= 6


def test_workers_that_give_the_same_samples_are_seen(tmp_path: Path) -> None:
    found, _ = trial("repeated", tmp_path, workers=[0, 1, 2], steps=0)
    assert {point["workers"]: point["repeated"] for point in found["points"]} == {0: False, 1: False, 2: True}
    assert found["points"][0]["receive_s"] is None
    assert 0 < found["points"][2]["receive_s"] < 1


def test_a_part_ends_with_its_time() -> None:
    sys.path.insert(0, str(CAPTURE))
    part = importlib.import_module("_whyidle.loader_trial").Part(warm_up=1000, least_s=0.0, seconds=0.0)
    for _ in range(3):
        part.took(lambda: None)
    assert len(part.times) == 2
    assert part.is_over(1000)  # of 0 s, five times that is over, too
    slow = importlib.import_module("_whyidle.loader_trial").Part(warm_up=0, least_s=60.0, seconds=60.0)
    slow.times = [0.001] * 50
    assert not slow.is_over(30)  # too short a time to say much


def test_nothing_is_left_in_shared_memory(tmp_path: Path) -> None:
    before = {path.name for path in Path("/dev/shm").glob("torch_*")}
    trial("plain", tmp_path, workers=[1, 2], steps=0)
    assert {path.name for path in Path("/dev/shm").glob("torch_*")} <= before


def test_all_ranks_take_batches_that_they_had(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    env = environment(folder, trace=False, syncs=0, loader_trial={**SHORT, "workers": [0]})
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ran = python(*launch, JOBS, "ranks", env=env, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr  # they end together
    assert "Error" not in ran.stderr
    told = [json.loads(path.read_text()) for path in folder.glob("*.loader.json")]
    (found,) = (one for one in told if one["loaders"])  # of rank 0; the launcher iterates none
    assert (found["state"], found["local_ranks"]) == ("done", 2)
    now, cached = found["training"]["now"], found["training"]["cached"]
    assert now["median_s"] > 4 * 0.004 > cached["median_s"]  # it is the other rank that waits for data
