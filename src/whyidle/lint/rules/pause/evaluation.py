from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Looped
from whyidle.lint.job import Job
from whyidle.lint.rules.reached import is_unconditional

# Metrics whose `compute()` goes over everything that was seen so far, so that each batch costs more than the last.
GROWING = re.compile(
    r"MeanAveragePrecision|AUROC|AveragePrecision|\bROC\b|PrecisionRecallCurve|Frechet|Inception|BLEU|ROUGE"
)
HELD_OUT = re.compile(r"(^|_)(val|valid|validation|eval|evaluation|test|dev|holdout)", re.IGNORECASE)
# Steps between two evaluations from which on we are silent. Judgement: an evaluation has that many batches, or more.
OFTEN = 100


class Evaluation(Check):
    """An evaluation does again and again what is needed once: a metric per batch, or a whole test set per step.

    ## Why it costs time
    `compute()` of a metric works on all that was seen so far, often on one core, and is read by the host: once per
    batch it costs as many times as there are batches. An evaluation in each step, or every few, holds up training for
    all of its batches.

    ## How we know
    `compute()` of a torchmetrics metric stands in the loop over the evaluation set, and the metric is not reset there.
    Or a loop over a loader runs within a training step, without gradients, and no counter of 100 steps or more stands
    before it (our judgement: an evaluation seldom has fewer batches). How large the set is cannot be seen.

    ## When to ignore it
    The running value is what you look at, or the set has one or two batches.
    """

    cost = "pause"

    def end(self, job: Job) -> Iterator[Hit]:
        reset = {
            (call.receiver_text, call.where.function) for call in job.calls(".reset") if call.where.phase == "step"
        }
        for call in job.calls(".compute"):
            where, metric = call.where, call.receiver
            each = where.phase == "step" and where.work == "eval" and where.often
            if metric is None or metric.kind != "metric" or call.node.args or call.node.keywords or not each:
                continue
            if (call.receiver_text, where.function) not in reset:
                yield _per_batch(call, growing=bool(GROWING.search(metric.name)))
        for loop in job.events:
            if isinstance(loop, Looped) and _evaluates(loop, job):
                yield _per_step(loop, job)

    cases = (
        Invalid(
            "the average precision so far, per batch",
            """
import torch
from torchmetrics.detection import MeanAveragePrecision

def validate(net, loader):
    metric = MeanAveragePrecision()
    for images, targets in loader:
        with torch.no_grad():
            metric.update(net(images.cuda()), targets)
        print(metric.compute()["map"])  # !
    return metric.compute()
""",
        ),
        Invalid(
            "a test set in every step",
            """
import torch

def evaluate(model, val_loader):
    model.eval()
    total = torch.zeros((), device="cuda")
    with torch.no_grad():
        for x, y in val_loader:
            total += (model(x.cuda()).argmax(1) == y.cuda()).sum()
    model.train()
    return total

def train(model, train_loader, val_loader, optimizer, log):
    model.cuda()
    for step, (x, y) in enumerate(train_loader):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        log(step, evaluate(model, val_loader))  # !
""",
        ),
        Invalid(
            "every ten steps",
            """
import torch

def train(model, train_loader, val_loader, optimizer, log):
    model.cuda()
    for step, (x, y) in enumerate(train_loader):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            with torch.no_grad():
                for a, b in val_loader:  # !
                    log.update(model(a.cuda()), b)
""",
        ),
        Valid(
            "once at the end of the set",
            """
import torch
from torchmetrics.classification import MulticlassAccuracy

def validate(net, loader):
    metric = MulticlassAccuracy(10).cuda()
    with torch.no_grad():
        for x, y in loader:
            metric.update(net(x.cuda()), y.cuda())
    return metric.compute()
""",
        ),
        Valid(
            "each epoch, and by a setting",
            """
import torch

def evaluate(model, val_loader):
    total = 0
    with torch.no_grad():
        for x, y in val_loader:
            total += (model(x.cuda()).argmax(1) == y.cuda()).sum()
    return total

def train(args, model, train_loader, val_loader, optimizer):
    model.cuda()
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(train_loader):
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % args.eval_every == 0:
                evaluate(model, val_loader)
            if step % 2000 == 1999:
                evaluate(model, val_loader)
        evaluate(model, val_loader)
""",
        ),
        Valid(
            "a value per video, not a running one",
            """
import torch
from torchmetrics.image import PeakSignalNoiseRatio

def validate(net, loader, rows):
    psnr = PeakSignalNoiseRatio().cuda()
    with torch.no_grad():
        for video, target in loader:
            psnr.update(net(video.cuda()), target.cuda())
            rows.append(psnr.compute())
            psnr.reset()
""",
        ),
    )


def _per_batch(call: Called, growing: bool) -> Hit:
    name = call.receiver_text
    return Hit(
        node=call.node,
        message=f"`{ast.unparse(call.node)}` works on all batches so far, after each batch of the evaluation.",
        severity="medium" if growing else "low",
        confidence=0.9,
        source=call.source,
        title="compute the metric once, after the loop",
        change=f"for batch in loader:\n    {name}.update(...)\nvalue = {name}.compute()",
    )


def _evaluates(loop: Looped, job: Job) -> bool:
    """Say whether a loop over a whole loader runs within a training step, each time or every few."""
    where, node = loop.where, loop.node
    if not isinstance(node, ast.For) or loop.over.kind != "loader" or not where.inner or where.micro:
        return False
    if where.phase != "step" or where.work != "train" or where.guard not in {"", "rare"}:
        return False
    if not (1 < where.every < OFTEN or (where.often and is_unconditional(loop, job))):
        return False
    held_out = any(HELD_OUT.search(one.id) for one in ast.walk(node.iter) if isinstance(one, ast.Name))
    ends = any(isinstance(one, ast.Break) for one in ast.walk(node))
    return (where.no_grad or held_out) and not ends


def _per_step(loop: Looped, job: Job) -> Hit:
    # Where the loop stands in a function, the call in the training loop is what to change.
    steps = {id(step.node) for step in job.steps()}
    inside = any(id(node) in steps for node in around(loop.source, loop.node))
    source, node = (loop.source, loop.node) if inside or not loop.via else loop.via[-1]
    every = loop.where.every
    how_often = "in every step" if every == 1 else f"every {every} steps"
    return Hit(
        node=node,
        message=f"A whole evaluation set is gone through {how_often}, and training waits for it.",
        severity="medium" if every == 1 else "low",
        confidence=0.7,
        source=source,
        title="evaluate less often",
        change="if (step + 1) % 1000 == 0:  # or once per epoch\n    evaluate(model, val_loader)",
    )
