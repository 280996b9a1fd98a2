"""Settings from outside: loaders and switches of torch become what was asked for, and the job is none the worse."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.capture.injecting import bare_environment, environment, python
from tests.capture.reading import errors

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
JOB = HERE / "set_from_outside.py"
Settings = list[dict[str, Any]]


def run(
    folder: Path, script: Path, *arguments: str, expect: int = 0, **given: bool | int | str
) -> tuple[subprocess.CompletedProcess[str], Settings, dict[str, Any]]:
    """Run a job with settings; returns it, what was noted of settings, and its facts."""
    asked = {name.replace("__", ":"): value for name, value in given.items()}
    done = python(
        script, *arguments, env=environment(folder, trace=False, syncs=0, set=asked), cwd=script.parent, timeout=200
    )
    assert done.returncode == expect, done.stderr
    assert errors(folder) == ""
    found = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.facts.json")]
    facts = found[0] if found else {}
    return done, [one for one in facts.get("settings", ()) if one["name"] in {"set", "not_set"}], facts


def noted(settings: Settings) -> dict[str, set[str]]:
    """Return which settings were noted as in force, and as not."""
    return {name: {one["subject"] for one in settings if one["name"] == name} for name in ("set", "not_set")}


def test_loaders_get_workers_and_batch_size(tmp_path: Path) -> None:
    job, settings, facts = run(
        tmp_path, JOB, "loaders", loader__num_workers=1, loader__batch_size=8, loader__prefetch_factor=5
    )
    # workers, prefetch, persistent, pinned, batch size, in order, timeout
    assert job.stdout.splitlines() == [
        "plain: 1 5 False False 8 True 0",
        "positional: 1 5 False False 8 True 5",
        "persistent: 1 5 True False 8 True 0",
        "sampled: 1 5 False False None True 0",
        "no batches: 1 5 False False None True 0",
        "stream: 1 5 False False 8 True 0",
        "subclass: 1 5 False False 8 True 0",
        "nested: 1 5 False False 8 True 0 [0, 0, 0, 0]",
        "evaluation: 1 5 False False 4 True 0",
    ]
    assert noted(settings) == {
        "set": {"loader:num_workers", "loader:batch_size", "loader:prefetch_factor"},
        "not_set": {"loader:batch_size"},
    }
    (why,) = [one for one in settings if one["name"] == "not_set"]
    assert why["value"] == "the loader does not make batches"
    assert why["where"].startswith("set_from_outside.py:")
    assert {loader["num_workers"] for loader in facts["loaders"]} == {1}


def test_without_workers_what_needs_them_goes_too(tmp_path: Path) -> None:
    job, settings, _ = run(
        tmp_path, JOB, "loaders", loader__num_workers=0, loader__persistent_workers=True, loader__pin_memory=False
    )
    assert job.stdout.splitlines()[1:3] == [
        "positional: 0 None False False 4 True 0",
        "persistent: 0 None False False 4 True 0",
    ]
    assert noted(settings) == {
        "set": {"loader:num_workers", "loader:pin_memory"},
        "not_set": {"loader:persistent_workers"},
    }


def test_workers_can_be_spawned(tmp_path: Path) -> None:
    _, settings, facts = run(
        tmp_path, JOB, "refused", loader__num_workers=1, loader__multiprocessing_context="spawn", loader__in_order=False
    )
    assert noted(settings)["set"] == {"loader:num_workers", "loader:multiprocessing_context", "loader:in_order"}
    assert facts["loaders"][0]["start_method"] == "spawn"


def test_a_loader_that_refuses_is_made_as_the_script_has_it(tmp_path: Path) -> None:
    job, settings, _ = run(tmp_path, JOB, "refused", loader__num_workers=3)
    assert job.stdout.split()[0] == "1"
    (told,) = settings
    assert (told["name"], told["value"]) == ("not_set", "DataLoader refused: ValueError: three is too many")


def test_errors_of_the_job_are_its_own(tmp_path: Path) -> None:
    bare = python(JOB, "error", env=bare_environment(), cwd=HERE)
    job, _, _ = run(tmp_path, JOB, "error", expect=1, loader__pin_memory=True)
    assert job.stderr == bare.stderr
    assert "ValueError" in bare.stderr


def test_switches_hold_against_the_script(tmp_path: Path) -> None:
    job, settings, _ = run(
        tmp_path,
        JOB,
        "switches",
        torch__matmul_precision="medium",
        torch__cudnn_benchmark=True,
        torch__threads=2,
        torch__compile=False,
    )
    assert job.stdout == "medium True 2\n"
    assert noted(settings) == {
        "set": {"torch:matmul_precision", "torch:cudnn_benchmark", "torch:threads", "torch:compile"},
        "not_set": set(),
    }


MODEL = """
import os, sys, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 2, 3)
    def forward(self, x):
        return self.layer(x).relu()
model = torch.nn.Sequential(Net(), torch.nn.ReLU()) if "sequence" in sys.argv else Net()
called = torch.compile(model, backend="eager") if "compiled" in sys.argv else model
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(6):
    called(torch.randn(2, 1, 8, 8)).sum().backward()
    optimizer.step()
stats = sys.modules["torch._dynamo.utils"].counters["stats"] if "torch._dynamo.utils" in sys.modules else {}
weight = next(model.parameters())
print(stats.get("unique_graphs", 0), weight.is_contiguous(memory_format=torch.channels_last))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL, "utf-8")
    return path


@pytest.mark.parametrize("kind", ["own", "sequence"])
def test_a_model_is_compiled_in_place(kind: str, model: Path, tmp_path: Path) -> None:
    job, settings, facts = run(tmp_path, model, kind, torch__compile=True, torch__channels_last=True)
    assert job.stdout == "1 True\n"
    assert noted(settings) == {"set": {"torch:compile", "torch:channels_last"}, "not_set": set()}
    backend = next(one["value"] for one in facts["settings"] if one["name"] == "compile_backend")
    assert backend == "inductor"


def test_without_a_compiler_the_model_runs_as_it_is(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    _, settings, _ = run(tmp_path, model, "own", torch__compile=True)
    (told,) = settings
    assert told["name"] == "not_set"
    assert "compiler" in told["value"]


def test_what_the_script_compiles_is_not_compiled(model: Path, tmp_path: Path) -> None:
    job, settings, facts = run(tmp_path, model, "compiled", torch__compile=False)
    assert job.stdout.split()[0] == "0"
    assert noted(settings)["set"] == {"torch:compile"}
    assert "compile" not in {one["name"] for one in facts["settings"]}


STATEFUL = """
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
loader = StatefulDataLoader(list(torch.ones(8, 4)), 2, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
"""


def test_a_loader_of_torchdata_is_told_too(tmp_path: Path) -> None:
    pytest.importorskip("torchdata.stateful_dataloader")
    script = tmp_path / "stateful.py"
    script.write_text(STATEFUL, "utf-8")
    _, settings, facts = run(tmp_path, script, loader__num_workers=1, loader__batch_size=4)
    assert noted(settings)["set"] == {"loader:num_workers", "loader:batch_size"}
    assert facts["loaders"][0]["where"] == "stateful.py:4"


ACCELERATE = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
one = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = TensorDataset(torch.ones(16, 4))
made = DataLoader(data, batch_size=2, shuffle=True), DataLoader(data, batch_size=2)
model, optimizer, loader, test_loader = one.prepare(model, optimizer, *made)
for batch, in loader:
    one.backward(model(batch).sum())
    optimizer.step()
print(loader.num_workers, len(batch))
"""
LIGHTNING = """
import torch
import lightning
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.ones(16, 4))
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        self.size = len(batch[0])
        return self.layer(batch[0]).sum()
    def validation_step(self, batch, _):
        self.validated = len(batch[0])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
    def train_dataloader(self):
        return DataLoader(data, batch_size=2, shuffle=True)
    def val_dataloader(self):
        return DataLoader(data, batch_size=2)
model = Model()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, strategy="ddp", **quiet)
trainer.fit(model)
print(trainer.train_dataloader.num_workers, model.size, model.validated)
"""
TRAINER = """
import torch
from transformers import Trainer, TrainingArguments
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        return {"x": torch.ones(4), "labels": torch.tensor(1.0)}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.sizes = {}
    def forward(self, x, labels):
        self.sizes[self.training] = len(x)
        out = self.layer(x).squeeze(1)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}
model = Model()
given = dict(use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no")
sizes = dict(per_device_train_batch_size=2, per_device_eval_batch_size=2, num_train_epochs=1)
trainer = Trainer(model, TrainingArguments("out", **given, **sizes), train_dataset=Data(), eval_dataset=Data())
trainer.train()
trainer.evaluate()
print(1, model.sizes[True], model.sizes[False])
"""


@pytest.mark.parametrize(
    ("library", "text", "said"),
    [
        ("accelerate", ACCELERATE, "1 4\n"),
        ("lightning", LIGHTNING, "1 4 2\n"),
        ("transformers", TRAINER, "1 4 2\n"),
    ],
)
def test_frameworks_that_make_loaders_anew_keep_what_was_set(
    library: str, text: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip(library)
    script = tmp_path / "framework.py"
    script.write_text(text, "utf-8")
    job, settings, facts = run(tmp_path, script, loader__num_workers=1, loader__batch_size=4)
    assert job.stdout.endswith(said)
    assert noted(settings) == {"set": {"loader:num_workers", "loader:batch_size"}, "not_set": set()}
    assert {loader["num_workers"] for loader in facts["loaders"]} == {1}


def test_the_signature_stays(tmp_path: Path) -> None:
    code = "import inspect; from torch.utils.data import DataLoader; print(inspect.signature(DataLoader.__init__))"
    job = python("-c", code, env=environment(tmp_path, trace=False, set={"loader:num_workers": 1}), cwd=tmp_path)
    assert job.stdout == f"{inspect.signature(torch.utils.data.DataLoader.__init__)}\n"
