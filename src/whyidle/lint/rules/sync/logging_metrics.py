"""Metrics that are worked out, gathered or drawn in every training step, though one in a hundred would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import rhythm
from whyidle.lint.rules.sync import nearby
from whyidle.lint.rules.sync.drain import LIKELY, RUNS_DRY, Fix, certainty, drains, quoted
from whyidle.lint.rules.sync.elsewhere import Elsewhere, gathering
from whyidle.lint.rules.sync.on_host import feeds_metric, is_metric

_HEAVY = frozenset({".add_histogram", ".add_image", ".add_images", ".add_figure", ".add_embedding", ".add_video"})
_MEDIA = frozenset({"wandb.Image", "wandb.Histogram", "wandb.Video", "wandb.Object3D"})
_OBJECTS = frozenset(
    {
        "torch.distributed.all_gather_object",
        "torch.distributed.gather_object",
        "torch.distributed.broadcast_object_list",
        "accelerate.utils.gather_object",
        "detectron2.utils.comm.gather",
        "detectron2.utils.comm.all_gather",
    }
)
_READS = frozenset({".item", ".tolist", "float"})
_CALLS = _HEAVY | _MEDIA | _OBJECTS | {".compute", ".cpu", ".log"}


class LoggingMetrics(Check):
    """Metrics are worked out, gathered over ranks or drawn in every training step.

    ## Why it costs time
    `metric.compute()` reads its state back and, with several GPUs, meets all ranks first. A metric of
    scikit-learn, SciPy or OpenCV works on the CPU on a copy while the GPU has nothing to do. Gathering
    Python objects or numbers over ranks (`all_gather_object`, a `.item()` after `all_reduce`,
    `sync_dist=True` in each step) makes each rank wait for the slowest one. Histograms and images are
    copied as a whole.

    ## How we know
    The call stands in every training step, and is known to do so: by its name, or because the function of
    the project that it calls holds a collective and a read of its result.

    ## When to ignore it
    The metric decides what the next step does. On one GPU gathering costs nothing.
    """

    cost = "drain"
    sees = (Called,)

    def __init__(self) -> None:
        self._elsewhere = Elsewhere()

    def end(self, job: Job) -> Iterator[Hit]:
        yield from self._elsewhere.other_calls(job)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or not _trains(event):
            return
        name = event.name
        if name in _READS:
            yield from self._gathered(event, job)
        if name not in _CALLS and not is_metric(event):
            return
        call, fix = quoted(event.node), _rarely(event)
        if name == ".compute" and event.receiver is not None and event.receiver.kind == "metric":
            yield from drains(event, job, f"{call} works a metric out and reads it back", fix, sure=LIKELY)
        elif name in _HEAVY or name in _MEDIA:
            does = f"{call} copies a whole tensor to the CPU and works on it there"
            yield from drains(event, job, does, fix, sure=LIKELY)
        elif name in _OBJECTS:
            does = f"{call} pickles objects and meets all ranks"
            hits = drains(event, job, does, fix, sure=LIKELY, effect="each rank waits for the slowest one")
            yield from self._elsewhere.at_call(hits, event, job)
        elif is_metric(event):
            does = f"{call} works on the CPU"
            effect = "the GPU has nothing to do meanwhile, once what was queued is done"
            yield from _plainly(drains(event, job, does, fix, sure=LIKELY, effect=effect), event, effect)
        elif name == ".cpu" and event.receiver is not None and feeds_metric(event):
            does = f"{call} copies a tensor to the CPU, to work a metric out there,"
            yield from drains(event, job, does, fix, sure=certainty(event.receiver, job))
        elif name == ".log" and _on_each_rank(event):
            does = "`self.log` with sync_dist=True meets all ranks"
            yield from drains(event, job, does, _LIGHTNING, sure=LIKELY, effect="each rank waits for the slowest one")

    def _gathered(self, event: Called, job: Job) -> Iterator[Hit]:
        """Yield the call of a function that meets all ranks and then reads."""
        found = gathering(event)
        if found is None:
            return
        source, call = found
        does = f"{quoted(call)} meets all ranks and reads the result back"
        effect = f"each rank waits for the slowest one, and {RUNS_DRY}"
        for hit in drains(event, job, does, _every_hundred(ast.unparse(call), "step"), sure=LIKELY, effect=effect):
            if source is job.source:
                yield replace(hit, node=call, source=job.source)
            else:
                yield from self._elsewhere.at_call([replace(hit, node=call, source=source)], event, job)

    cases = (
        Invalid(
            "a metric of the CPU in each training step",
            """\
import torch
from sklearn.metrics import f1_score

def train(model, loader, optimizer):
    model.cuda()
    scores = []
    for x, y in loader:
        logits = model(x.cuda(non_blocking=True))
        loss = torch.nn.functional.cross_entropy(logits, y.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        guess = logits.argmax(1).detach().cpu().numpy()  # !
        scores.append(f1_score(y.numpy(), guess, average="macro"))  # !
    print(sum(scores) / len(scores))
""",
        ),
        Invalid(
            "the loss averaged over ranks and read, and a histogram of each layer, in each step",
            """\
import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter

def mean_over_ranks(value):
    world = dist.get_world_size()
    total = torch.tensor(value).cuda()
    dist.all_reduce(total)
    total /= world
    return total.item()

def train(model, loader, optimizer):
    writer = SummaryWriter()
    model = torch.nn.parallel.DistributedDataParallel(model.cuda())
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        shown = mean_over_ranks(float(loss))  # !
        writer.add_scalar("loss", shown, step)
        writer.add_histogram("head", model.module.head.weight, step)  # !
""",
        ),
        Invalid(
            "a metric of torchmetrics, computed in each step",
            """\
import torch
import torchmetrics

def train(model, loader, optimizer, device="cuda"):
    model.to(device)
    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10).to(device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        accuracy.update(logits, y)
        print(accuracy.compute())  # !
""",
        ),
        Invalid(
            "Lightning meets all ranks for the log of each step",
            """\
import lightning as L
import torch

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss, prog_bar=True, sync_dist=True)  # !
        self.log("epoch_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.cross_entropy(self.layer(x), y), sync_dist=True)
""",
        ),
        Valid(
            "updated in each step, computed once per epoch; histograms every thousand steps",
            """\
import torch
import torchmetrics
from torch.utils.tensorboard import SummaryWriter

def train(model, loader, optimizer, epochs):
    writer = SummaryWriter()
    model.cuda()
    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10).cuda()
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.cuda(), y.cuda()
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            accuracy.update(logits, y)
            if step % 1000 == 0:
                writer.add_histogram("logits", logits, step)
        print(epoch, accuracy.compute())
        accuracy.reset()
""",
        ),
        Valid(
            "scikit-learn on what an epoch has collected, in evaluation",
            """\
import torch
from sklearn.metrics import roc_auc_score

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores, wanted = [], []
    for x, y in loader:
        scores.append(model(x.cuda()).sigmoid())
        wanted.append(y)
    return roc_auc_score(torch.cat(wanted).numpy(), torch.cat(scores).cpu().numpy())
""",
        ),
        Valid(
            "OpenCV in the dataset, and a gradient that is reduced and stays on the GPU",
            """\
import cv2
import torch
import torch.distributed as dist

class Images(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        image = cv2.resize(cv2.imread(self.paths[index]), (224, 224))
        return torch.from_numpy(image).permute(2, 0, 1).float()

def mean(tensor):
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()

def train(model, loader, optimizer):
    model.cuda()
    kept = torch.zeros((), device="cuda")
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept += mean(loss)
""",
        ),
    )


_LIGHTNING = Fix(
    "let Lightning meet the ranks once per epoch",
    'self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)',
    risk="the value of single steps is that of one rank",
)


def _trains(event: Event) -> bool:
    return event.where.work == "train" and event.where.phase == "step"


def _plainly(found: Iterator[Hit], event: Called, effect: str) -> Iterator[Hit]:
    """Yield what works on the CPU in these words even where the copy that feeds it stands just before."""
    for hit in found:
        yield replace(hit, message=f"{quoted(event.node)} works on the CPU {rhythm(event)}: {effect}.")


def _on_each_rank(event: Called) -> bool:
    given = event.keywords.get("sync_dist")
    step = event.keywords.get("on_step")
    return given is not None and given.constant is True and (step is None or step.constant is not False)


def _rarely(event: Called) -> Fix:
    return _every_hundred(ast.unparse(event.statement).splitlines()[0], nearby.counter(event))


def _every_hundred(code: str, counter: str) -> Fix:
    return Fix(
        "do it every hundred steps, or once per epoch",
        f"if {counter} % 100 == 0:\n    {code}",
        risk="the value that is shown is that of every hundredth step",
    )
