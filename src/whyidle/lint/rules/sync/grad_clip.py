"""Reads of gradient norms between backward and the optimizer's step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.events import Called, Event, Shown, Tested
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, SetArguments
from whyidle.lint.rules.sync.drain import PROVABLE, Fix, certainty, drains, quoted
from whyidle.lint.rules.sync.elsewhere import Elsewhere
from whyidle.lint.rules.sync.parameters import over_parameters

_CLIPS = frozenset(
    {
        "torch.nn.utils.clip_grad_norm_",
        "torch.nn.utils.clip_grad.clip_grad_norm_",
        "torch.nn.utils.clip_grad.clip_grad_norm",
        "torch.nn.utils.get_total_norm",
    }
)
_READS = frozenset({".item", ".tolist", "float", "bool", ".cpu"})
_TOGETHER = Fix(
    "work the norms out together and leave them on the GPU",
    "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)  # no wait\n"
    "norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None])  # one per parameter",
    risk="clip_grad_norm_ clips by the norm of all gradients, not by that of each parameter",
)


class GradClip(Check):
    """A gradient norm is read back between backward and the optimizer's step: once, or once per parameter.

    ## Why it costs time
    `clip_grad_norm_(…, error_if_nonfinite=True)` asks whether the norm is finite and waits for the whole
    backward pass; the optimizer's launches start only after it. A loop over parameters that reads each
    norm (`p.grad.norm().item()`, `if norm > limit`) waits once per parameter: hundreds of times per step.

    ## How we know
    The argument is given as True; or a read, a test or a text of a tensor stands in a loop over
    `parameters()` that runs in every step. `clip_grad_norm_` with its defaults does not wait.

    ## When to ignore it
    You need to stop at the first gradient that is not finite. Debug with the check, train without.
    """

    cost = "drain"
    sees = (Called, Tested, Shown)
    calls = ends(_CLIPS | _READS)

    def __init__(self) -> None:
        self._elsewhere = Elsewhere()

    def end(self, job: Job) -> Iterator[Hit]:
        yield from self._elsewhere.other_calls(job)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if isinstance(event, Called) and event.name in _CLIPS:
            given = event.argument(2 if event.name.endswith("total_norm") else 3, "error_if_nonfinite")
            if given is not None and given.known and given.constant is True:
                does = f"{quoted(event.node.func)} with error_if_nonfinite=True reads the norm back from the GPU"
                effect = "the optimizer's launches start only when the whole backward pass is done"
                yield from drains(event, job, does, _unchecked(event), sure=PROVABLE, effect=effect)
            return
        sure = _reads(event, job)
        if not sure or not over_parameters(event, job):
            return
        asked = getattr(event.node, "test", event.node)
        does = f"{quoted(asked)} waits for the GPU once per parameter,"
        yield from self._elsewhere.at_call(drains(event, job, does, _TOGETHER, sure=sure), event, job)

    cases = (
        Invalid(
            "an error if the norm is not finite",
            """\
import torch
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # !
        optimizer.step()
""",
        ),
        Invalid(
            "each parameter clipped by its own norm, read on the CPU",
            """\
import torch

def clip_each(model, limit):
    norms = []
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        norm = p.grad.detach().norm(2)
        norms.append(norm.item())  # !
        if norm > limit:  # !
            p.grad.mul_(limit / norm)
    return norms

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        clip_each(model, 1.0)
        optimizer.step()
""",
        ),
        Invalid(
            "the total norm summed up on the CPU for the log",
            """\
import torch

def train(model, loader, optimizer, log):
    model = model.to("cuda")
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.to("cuda")), y.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        total = 0.0
        for p in model.parameters():
            total += p.grad.data.norm(2).item() ** 2  # !
        log(step, total**0.5)
        optimizer.step()
""",
        ),
        Valid(
            "defaults do not wait, and the norm is read every hundred steps",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        if step % 100 == 0:
            print(norm.item())
""",
        ),
        Valid(
            "loops over parameters that ask for what the CPU knows",
            """\
import torch

def train(model, loader, optimizer, frozen):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        for name, p in model.named_parameters():
            if p.grad is not None and p.requires_grad and name not in frozen and p.numel() > 1:
                p.grad.clamp_(-1.0, 1.0)
        optimizer.step()
    print(sum(float(p.grad.norm()) for p in model.parameters()))
""",
        ),
        Valid(
            "norms of the last step, once per epoch",
            """\
import torch

def report(model):
    return {name: p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None}

def train(model, loader, optimizer, epochs):
    model.cuda()
    for epoch in range(epochs):
        for x in loader:
            loss = model(x.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, report(model))
""",
        ),
    )


def _reads(event: Event, job: Job) -> float:
    """Return how sure it is that an event reads a tensor of the GPU."""
    if isinstance(event, Tested | Shown):
        return certainty(event.value, job) if event.value.has_device_tensor else 0.0
    if not isinstance(event, Called) or event.name not in _READS:
        return 0.0
    value = event.receiver if event.name.startswith(".") else event.argument(0, "x")
    if value is None or (event.name != ".item" and not value.has_device_tensor):
        return 0.0
    return certainty(value, job)


def _unchecked(event: Called) -> Fix:
    call = ast.unparse(event.node).replace(", error_if_nonfinite=True", "")
    note, repair = "training no longer stops at a norm that is not finite", None
    if any(keyword.arg == "error_if_nonfinite" for keyword in event.node.keywords):
        repair = Repair((SetArguments(event.node, {}, drop=("error_if_nonfinite",)),), safe=False, note=note)
    return Fix(
        "clip without looking at the norm", call, repair, "training no longer stops at a norm that is not finite"
    )
