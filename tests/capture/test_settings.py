"""Settings that a job is seen to use, what PyTorch counts about itself, and the file in which both are."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.capture.injecting import environment, python
from tests.capture.reading import Ring, errors, rings

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "whyidle" / "capture"))

from _whyidle import counters, facts, machine, model, settings

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "settings.md"
SECRET = {"NCCL_SECRET_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "x", "WANDB_API_KEY": "x"}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Ring]:
    folder = tmp_path_factory.mktemp("settings")
    env = {**environment(folder, trace=False), "NCCL_DEBUG": "WARN", "CUDA_LAUNCH_BLOCKING": "1", **SECRET}
    done = python(HERE / "set_up.py", env=env, cwd=HERE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
    assert errors(folder) == ""
    (path,) = folder.glob("*.facts.json")
    (ring,) = rings(folder)
    assert path.name.split(".")[0] == ring.path.name.split(".")[0]
    return json.loads(path.read_text("utf-8")), ring


Job = tuple[dict[str, Any], Ring]


def test_settings_are_what_the_job_says(job: Job) -> None:
    found = {setting["name"]: setting for setting in job[0]["settings"]}
    line = 1 + (HERE / "set_up.py").read_text("utf-8").split("# line of the compile")[0].count("\n")
    expected = {
        "model": "__main__.Net",
        "parameters": 36,
        "param_dtype": "float32",
        "device": "cpu",
        "optimizer": "AdamW",
        "optimizer_site": "set_up.py:39",
        "optimizer_foreach": True,
        "matmul_precision": "high",
        "cudnn_benchmark": True,
        "deterministic": False,
        "compile": True,
        "compile_mode": "default",
        "compile_backend": "eager",
        "gradient_checkpointing": True,
        "NCCL_DEBUG": "WARN",
        "OMP_NUM_THREADS": "1",
        "torch_threads": 1,
        "tracing": "CUDA_LAUNCH_BLOCKING",
        "python": sys.version.split()[0],
        "autocast_dtype": "bfloat16",
    }
    assert {name: found[name]["value"] for name in expected} == expected
    assert found["compile"]["where"] == f"set_up.py:{line}"
    assert re.fullmatch(r"set_up\.py:\d+", found["autocast_dtype"]["where"])
    assert found["NCCL_DEBUG"]["where"] == "environment"
    assert found["torch_threads"]["where"] == "torch"
    if hasattr(os, "sched_getaffinity"):
        assert found["cpus_allowed"]["value"] == len(os.sched_getaffinity(0))


def test_no_secret_is_written(job: Job) -> None:
    assert not {setting["name"] for setting in job[0]["settings"]} & SECRET.keys()


def test_every_setting_is_documented(job: Job) -> None:
    documented = set(re.findall(r"`(\w+)`", DOCUMENT.read_text("utf-8")))
    assert {setting["name"] for setting in job[0]["settings"]} <= documented
    assert set(settings.ENVIRONMENT) <= documented
    assert {*model.DDP.values(), *model.FSDP.values()} <= documented


def test_what_torch_compile_did_is_counted(job: Job) -> None:
    """The factor is 1, 2 and 3: compiled for 1, then once more for any; each time with one break."""
    counts = [record for record in job[1].records if record.kind == "COUNT"]
    last = {record.flags: record.value for record in counts}
    assert {record.flags for record in counts} == {3, 4, 5, 6}  # no device
    dynamo = job[0]["dynamo"]
    assert last[counters.GRAPHS] == dynamo["graphs"] >= 2
    assert last[counters.BREAKS] == sum(dynamo["breaks"].values()) >= 1
    assert last[counters.RECOMPILATIONS] >= 1
    assert last[counters.COMPILING_NS] > 0
    assert any("print" in reason for reason in dynamo["breaks"])
    assert any("factor" in reason for reason in dynamo["recompilations"])
    assert all("\n" not in reason for reason in (*dynamo["breaks"], *dynamo["recompilations"]))


def test_shape_of_the_file(job: Job) -> None:
    content = job[0]
    assert list(content) == [
        *("version", "pid", "rank", "worker_of", "settings", "loaders", "syncs", "profile", "dynamo", "errors"),
    ]
    assert (content["version"], content["rank"], content["worker_of"], content["errors"]) == (1, None, None, 0)
    assert all(list(setting) == ["name", "value", "where", "subject"] for setting in content["settings"])
    assert content["loaders"][0]["sampler"] == "torch.utils.data.sampler.SequentialSampler"
    assert content["loaders"][0]["drop_last"] is True


def test_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    facts._forget()
    for number in range(1000):
        facts.add_setting(f"name {number}", "x" * 10_000, "y" * 10_000)
        facts.add_loader(number, {"where": "z"})
    content = facts.document()
    facts._forget()
    assert len(json.dumps(content)) < 400_000
    assert len(content["settings"]) == facts.MOST_SETTINGS


def test_full_disk_costs_the_job_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts.record, "folder", lambda: str(tmp_path / "gone"))
    monkeypatch.setattr(facts.record, "recording", lambda: True)
    monkeypatch.setattr(facts.record, "note_error", lambda what="": None)
    facts.add_setting("name", 1, "here")
    facts.write(last=True)
    facts._forget()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([0], "0"), ([0, 1], "0-1"), ([0, 1, 2, 3, 8], "0-3,8"), ([1, 3, 5], "1,3,5")]
)
def test_lists_of_cpus(numbers: list[int], text: str) -> None:
    assert machine.ranges(numbers) == text


def test_dataset_path_is_one_that_exists(tmp_path: Path) -> None:
    class Folder:
        def __init__(self, root: object) -> None:
            self.root = root

    class Subset:
        def __init__(self, dataset: object) -> None:
            self.dataset = dataset

    (tmp_path / "a.jpg").write_bytes(b"")
    assert machine.dataset_path(Folder(tmp_path)) == str(tmp_path)
    assert machine.dataset_path(Folder(str(tmp_path / "none"))) is None
    assert machine.dataset_path(Subset(Subset(Folder(tmp_path)))) == str(tmp_path)
    assert machine.dataset_path(SimpleNamespace(datasets=[Folder(tmp_path)])) == str(tmp_path)
    assert machine.dataset_path(SimpleNamespace(samples=[(str(tmp_path / "a.jpg"), 0)])) == str(tmp_path)
    assert machine.dataset_path(None) is None


@pytest.mark.skipif(sys.platform != "linux", reason="mount points are read from /proc")
def test_file_system_is_that_of_the_nearest_mount_point() -> None:
    assert machine.file_system("/proc/self") == "proc"
    assert machine.file_system("/")


def test_tracers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(is_anomaly_enabled=lambda: True)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "getprofile", lambda: None)
    assert machine.tracing(torch) == "torch.autograd anomaly detection"
    monkeypatch.setattr(sys, "gettrace", lambda: len)
    assert machine.tracing(SimpleNamespace(is_anomaly_enabled=lambda: False)) == "sys.settrace"


def test_options_of_what_distributes_a_model() -> None:
    import torch

    class DistributedDataParallel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = torch.nn.Linear(2, 2)
            self.bucket_bytes_cap = 26214400
            self.find_unused_parameters = True
            self.static_graph = False

    found = {name: value for name, value, _ in model.root(torch, DistributedDataParallel())}
    assert found["model"] == "torch.nn.modules.linear.Linear"
    assert found["wrapper"] == "DistributedDataParallel"
    assert (found["ddp_bucket_cap_mb"], found["ddp_find_unused_parameters"], found["ddp_static_graph"]) == (
        25,
        True,
        False,
    )
