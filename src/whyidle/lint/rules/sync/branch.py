"""Branches, assertions and comparisons by a value that is still on the GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Event, Tested
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import nearby
from whyidle.lint.rules.sync.drain import Fix, certainty, drains, quoted
from whyidle.lint.rules.sync.parameters import over_parameters

_COMPARING = frozenset({"max", "min", "sorted", "any", "all", "filter"})


class Branch(Check):
    """The program's way depends on a tensor on the GPU: `if`, `while`, `assert`, `and`, `max(a, b)` of one.

    ## Why it costs time
    `if torch.isnan(loss):` asks the tensor for a truth value, and that waits until the GPU has worked it
    out. From then on the CPU starts again with an empty queue. `max(a, b)` and `sorted(...)` of Python
    compare one by one, each with a wait.

    ## How we know
    What is tested is a tensor on the accelerator, and the line runs in every step. What the branch does is
    no matter: a check that never fires waits as well. `is None`, `isinstance`, `.shape`, `len()` and
    `.numel()` are known to the CPU and are none.

    ## When to ignore it
    The check has to stop the very step that went wrong. Once every hundred steps it costs nothing.
    """

    rule = "sync.data_dependent"
    cost = "drain"
    sees = (Tested,)

    def __init__(self) -> None:
        self._told: set[int] = set()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Tested) or not event.value.has_device_tensor:
            return
        asked = getattr(event.node, "test", event.node)
        if id(event.statement) in self._told or not _reads(event, asked) or over_parameters(event, job):
            return
        does = f"{quoted(asked)} asks the GPU for a truth value"
        if event.how in _COMPARING:
            does = f"{quoted(asked)} compares values of the GPU on the CPU"
        for hit in drains(event, job, does, _fix(event, asked), sure=certainty(event.value, job)):
            self._told.add(id(event.statement))
            yield hit

    cases = (
        Invalid(
            "a check for NaN before backward, and an assertion on the input",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        assert (y >= 0).all()  # !
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if torch.isnan(loss):  # !
            print("loss is NaN, stopping")
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "an early stop of generation, and the largest loss by Python's max",
            """\
import torch

@torch.no_grad()
def generate(model, ids, eos, steps):
    model = model.to("cuda")
    ids = ids.to("cuda")
    for _ in range(steps):
        following = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)
        if (following == eos).all():  # !
            break
    return ids

def train(model, loader, optimizer, floor):
    model = model.to("cuda")
    worst = torch.zeros((), device="cuda")
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.to("cuda")), y.to("cuda"))
        worst = max(worst, loss.detach())  # !
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return worst
""",
        ),
        Valid(
            "what the CPU knows without asking: None, sizes, types, devices",
            """\
import torch

def train(model, loader, optimizer, clip=None):
    model.cuda()
    for batch in loader:
        x = batch["x"].cuda(non_blocking=True)
        mask = batch.get("mask")
        mask = mask.cuda() if mask is not None else None
        loss = model(x, mask).mean()
        if x.shape[0] > 8 and x.numel() and len(x) and x.is_cuda:
            loss = loss * 2
        assert isinstance(loss, torch.Tensor) and loss.dtype == torch.float32
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a choice that stays on the GPU, and a check every thousand steps",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    bad = torch.zeros((), dtype=torch.bool, device="cuda")
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss = torch.where(torch.isfinite(loss), loss, torch.zeros_like(loss))
        bad |= ~torch.isfinite(loss)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 1000 == 0 and bad:
            raise RuntimeError("loss is not finite")
""",
        ),
        Valid(
            "a batch that is checked before it is moved",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        if (y < 0).any():
            continue
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _reads(event: Tested, asked: ast.AST) -> bool:
    """Say whether a test reads a tensor: `if outputs:` asks a dict or list whether it is empty, as people write it."""
    if event.how in _COMPARING and isinstance(asked, ast.Call):
        ordered_by_name = any("." in ast.unparse(keyword.value) for keyword in asked.keywords if keyword.arg == "key")
        return event.where.phase == "step" and event.where.guard != "flag" and not ordered_by_name
    if isinstance(asked, ast.Compare) and isinstance(asked.ops[0], ast.In | ast.NotIn):
        return event.value.place == "device" and not event.value.is_batch
    return event.value.boolean


def _fix(event: Tested, asked: ast.AST) -> Fix:
    spelled = ast.unparse(asked)
    if event.how in {"max", "min"}:
        return Fix(f"compare on the GPU with torch.{event.how}imum", f"torch.{event.how}imum(a, b)  # for {spelled}")
    if event.how in _COMPARING:
        return Fix("compare on the GPU", f"torch.stack(values)  # then .sort(), .any(), .all() in place of {spelled}")
    if event.how == "assert":
        return Fix("assert on the GPU, without waiting", f"torch._assert_async({spelled})")
    return Fix(
        "ask every hundred steps, or choose on the GPU",
        f"if {nearby.counter(event)} % 100 == 0 and {spelled}:\n    ...\n# or, where both ways are values:\n"
        "x = torch.where(condition, one, other)",
        risk="what goes wrong is noticed up to a hundred steps later",
    )
