"""Where a line runs and what a value is, as the engine sees it: loops, guards, calls, devices."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint import events
from whyidle.lint.engine import follow
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.project import Project
from whyidle.lint.source import Source
from whyidle.lint.where import Where


def followed(code: str) -> Job:
    return follow(Source(Path("job.py"), "job.py", code, ast.parse(code)), Project(), lambda event, job: None)


def reads(code: str) -> list[Called]:
    """Return the `.item()` calls that were met."""
    return [event for event in followed(code).events if isinstance(event, Called) and event.name == ".item"]


def where(code: str) -> Where:
    """Return where the only `.item()` runs."""
    (read,) = reads(code)
    return read.where


HEAD = """
import torch
def train(model, loader, optimizer, args, log_every=50):
    for step, (x, y) in enumerate(loader):
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "line",
    [
        "print(loss.item())",
        "if torch.distributed.get_rank() == 0: print(loss.item())",
        "if args.rank in {-1, 0}: print(loss.item())",
        "if step % 1 == 0: print(loss.item())",
        "if scheduler is not None: print(loss.item())",
        "value = loss.item() if step else loss.item()",
    ],
)
def test_runs_in_every_step(line: str) -> None:
    assert all(read.where.hot and read.where.work == "train" for read in reads(HEAD + "        " + line))


@pytest.mark.parametrize(
    "line",
    [
        "if step % 100 == 0: print(loss.item())",
        "if not step % 100: print(loss.item())",
        "if step % args.log_interval == 0 and step > 0: print(loss.item())",
        "if step % log_every == log_every - 1: print(loss.item())",
        "if (step + 1) % 20 == 0 or step == 5: print(loss.item())",
        "if step == 0: print(loss.item())",
        "if args.verbose: print(loss.item())",
        "if should_log(step): print(loss.item())",
        "if time.time() - started > 10: print(loss.item())",
        "if not torch.isfinite(loss): raise ValueError(loss.item())",
        "log = step % 100 == 0\n        if log: print(loss.item())",
        "if step % 100: continue\n        print(loss.item())",
        "if step % 100 != 0:\n            pass\n        else:\n            print(loss.item())",
        "try:\n            pass\n        except RuntimeError:\n            print(loss.item())",
        "if step < 3: print(loss.item())",
        "if counter.needs_displaying(): print(loss.item())",
        "if full or loss.item() > 1: full = True",
    ],
)
def test_runs_rarely(line: str) -> None:
    assert not where(HEAD + "        " + line).often


def test_a_setting_counts_by_its_default() -> None:
    head = 'import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument("--show", %s)\n'
    body = HEAD + "        if args.show: print(loss.item())\n"
    off, on, unknown = 'action="store_true"', 'action="store_false"', "type=int"
    assert where(head % off + body).guard == "rare"
    assert where(head % on + body).hot
    assert where(head % unknown + body).guard == "flag"


def test_an_interval_counts_by_its_default() -> None:
    code = (
        "import torch\ndef train(model, loader, opt, every={}):\n    for i, x in enumerate(loader):\n"
        "        loss = model(x)\n        loss.backward()\n        opt.step()\n"
        "        if i % every == 0:\n            print(loss.item())\n"
    )
    assert where(code.format(1)).hot
    assert where(code.format(10)).every == 10


def test_loops_are_told_apart() -> None:
    code = """
import torch
def fit(model, loader, held_out, optimizer):
    for epoch in range(10):
        for x in loader:
            loss = model(x)
            loss.backward()
            optimizer.step()
            a = loss.item()
        b = loss.item()
        with torch.no_grad():
            for x in held_out:
                c = model(x).item()
    d = loss.item()
"""
    places = [(read.where.phase, read.where.work) for read in reads(code)]
    assert places == [("step", "train"), ("epoch", ""), ("step", "eval"), ("once", "")]


def test_micro_steps_and_the_update_that_they_end_in() -> None:
    code = """
import torch
def fit(model, batches, optimizer):
    while True:
        for _ in range(8):
            x = next(batches)
            loss = model(x)
            loss.backward()
            a = loss.item()
        optimizer.step()
        b = loss.item()
"""
    inside, after = (read.where for read in reads(code))
    assert (inside.micro, inside.update) == (True, False)
    assert (after.update, after.hot) == (True, True)


def test_a_function_is_as_hot_as_its_caller() -> None:
    code = """
import torch
def loss_of(model, x):
    loss = model(x)
    print(loss.item())
    return loss
def fit(model, loader, optimizer):
    for x in loader:
        loss_of(model, x).backward()
        optimizer.step()
"""
    assert where(code).hot


def test_methods_hooks_and_forward_are_steps() -> None:
    hook = "import lightning\nclass Net(lightning.LightningModule):\n    def training_step(self, batch, i):\n"
    assert where(hook + "        loss = self.net(batch)\n        print(loss.item())\n        return loss\n").hot
    forward = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.sum().item()\n"
    assert where(forward).hot
    unknown = "import torch\ndef score(logits):\n    return logits.sum().item()\n"
    assert where(unknown).phase == "maybe"


def test_generation_is_a_loop_over_steps_too() -> None:
    code = """
import torch
@torch.no_grad()
def generate(model, ids, n):
    for _ in range(n):
        ids = torch.cat([ids, model(ids).argmax(-1)], 1)
        last = ids[0, -1].item()
"""
    assert where(code).work == "infer"
    assert where(code).hot


@pytest.mark.parametrize(
    "test", ["phase == 'val'", "phase == Phase.VAL", "self.mode is Mode.EVAL", "split == Split.TEST"]
)
def test_a_phase_may_be_no_training(test: str) -> None:
    assert where(HEAD + f"        if {test}: print(loss.item())").work == "eval"
    assert where(HEAD + "        if phase is Phase.TRAIN: print(loss.item())").work == "train"


def test_where_values_live() -> None:
    code = """
import torch
def fit(model, loader, optimizer):
    model = model.cuda()
    for x, y in loader:
        h = model(x.to("cuda")).detach().mean()
        h.item()
        y.item()
        torch.zeros(3).item()
        torch.zeros(3, device="cuda").item()
        h.cpu().item()
        {"a": h}["a"].item()
        x.shape[0].item()
        h.backward()
        optimizer.step()
"""
    places = [(read.receiver.kind, read.receiver.place) for read in reads(code) if read.receiver is not None]
    device, host = ("tensor", "device"), ("tensor", "host")
    assert places == [device, host, host, device, host, device, ("plain", "unknown")]


def test_where_values_live_whose_devices_are_said_in_other_ways() -> None:
    code = """
import torch
def fit(model, loader, optimizer, use_gpu):
    model = model.cuda()
    Tensor = torch.cuda.FloatTensor if use_gpu else torch.FloatTensor
    layers = torch.nn.ModuleList()
    for x, y in loader:
        truth = torch.zeros(3)
        if use_gpu:
            x, truth = x.cuda(), truth.cuda()
        truth.item()
        y.type(Tensor).item()
        y.type_as(x).item()
        Tensor([1.0]).item()
        for layer in layers:
            layer(x).item()
        for name, p in list(model.children())[-1].named_parameters():
            p.grad.norm().item()
        model(x).mean().backward()
        optimizer.step()
"""
    assert len(reads(code)) == 6
    assert all(read.receiver is not None and read.receiver.on_device for read in reads(code))


def test_a_mask_may_be_made_as_one() -> None:
    job = followed(HEAD + "        mask = torch.eye(3, dtype=torch.bool).cuda()\n        x[~mask.expand_as(x)]\n")
    (indexed,) = (event for event in job.events if isinstance(event, events.Indexed))
    assert indexed.index.boolean


def test_what_a_host_reads_without_a_word() -> None:
    code = (
        HEAD
        + """
        if loss > 3: pass
        text = f"{loss:.3f}"
        text = "%.3f" % loss
        text = "{}".format(loss)
        kept = x[loss > 2]
        best = max(loss, 3)
        assert loss < 10
        if loss is None or loss.shape[0] > 3 or "loss" in {}: pass
"""
    )
    met = [event for event in followed(code).events if isinstance(event, events.Tested | events.Shown | events.Indexed)]
    assert [type(event).__name__ for event in met] == [
        "Tested",
        "Shown",
        "Shown",
        "Shown",
        "Indexed",
        "Tested",
        "Tested",
    ]


def test_a_loader_knows_its_arguments_and_its_use() -> None:
    code = """
import torch
from torch.utils.data import DataLoader as Loader
options = {"num_workers": 1, "pin_memory": True}
loader = Loader(data, 32, True, **options)
model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    for x, y in loader:
        model(x.cuda(non_blocking=True)).sum().backward()
        optimizer.step()
"""
    (use,) = followed(code).loaders
    assert (use.complete, use.per_epoch, use.trains) == (True, True, True)
    assert (use.constant("batch_size"), use.constant("num_workers"), use.constant("pin_memory")) == (32, 1, True)
    assert [event.node.lineno for event in use.moved] == [10]


def test_settings_and_steps_are_told() -> None:
    job = followed(
        "import os\n" + HEAD + "torch.backends.cudnn.benchmark = True\nos.environ['OMP_NUM_THREADS'] = '1'\n"
    )
    assert [event.name for event in job.events if isinstance(event, events.Set)] == [
        "torch.backends.cudnn.benchmark",
        "os.environ.OMP_NUM_THREADS",
    ]
    (step,) = (event for event in job.events if isinstance(event, events.Stepped))
    assert [call.name for call in step.calls][-2:] == [".backward", ".step"]


def test_modules_of_the_project_are_followed(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("from .steps import step\n")
    (tmp_path / "tools" / "steps.py").write_text("def step(loss):\n    loss.backward()\n    return loss.item()\n")
    code = "from tools import step\ndef fit(model, loader):\n    for x in loader:\n        step(model(x))\n"
    (tmp_path / "train.py").write_text(code)

    def read(path: Path) -> Source:
        text = path.read_text()
        return Source(path, path.name, text, ast.parse(text))

    met: list[Event] = []
    follow(read(tmp_path / "train.py"), Project([tmp_path], read), lambda event, job: met.append(event))
    (item,) = (event for event in met if isinstance(event, Called) and event.name == ".item")
    assert item.source.name == "steps.py"
    assert item.where.hot
    assert [call.lineno for _, call in item.via] == [4]


def test_a_job_that_stays_on_the_cpu_is_known() -> None:
    assert followed('import torch\nx = torch.zeros(3, device="cpu")\n').gpu == "no"
    assert followed('import torch\nx = torch.zeros(3, device="cuda")\n').gpu == "yes"
    built = "import torch\nnet = torch.nn.Linear(1, 1)\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
    assert followed(built).gpu == "no"
    assert followed("import torch\ndef f(model): ...\n").gpu == "assumed"
