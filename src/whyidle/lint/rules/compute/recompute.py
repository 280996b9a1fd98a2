from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job

_SWITCHES = {"gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing"}
_LAYER = {"torch.utils.checkpoint.checkpoint"}


class Recompute(Check):
    """Activation checkpointing is on for every layer.

    ## Why it costs time
    The backward pass computes each layer's forward pass again: about a third more work for the GPU. What it saves is
    memory.

    ## How we know
    The model is told so, a `Trainer` has `gradient_checkpointing=True`, or `checkpoint` stands in the loop over the
    layers, and no setting guards it. Whether memory would do without it only a run tells.

    ## When to ignore it
    It is what makes the batch fit. Then try it on every second layer, or selective checkpointing, which keeps the
    results of matrix products.
    """

    cost = "kernel"
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or job.gpu == "no" or event.where.guard or not event.where.often:
            return
        if not (_is_switch(event, job) or _is_layer(event) or _is_option(event)):
            return
        yield Hit(
            event.node,
            "Activation checkpointing of every layer computes its forward pass twice in every training step: about a "
            "third more work, which pays only where memory is short.",
            "low",
            0.5,
            event.source,
            title="if there is memory to spare, checkpoint fewer layers",
            change="# checkpoint every second layer, or keep the results of matrix products:\n"
            "from torch.utils.checkpoint import create_selective_checkpoint_contexts",
            risk="needs more memory",
        )

    cases = (
        Invalid(
            "in the loop over the layers",
            """\
import torch
from torch.utils.checkpoint import checkpoint

class Encoder(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)  # !
        return x

def train(layers, loader):
    model = Encoder(layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "of a model from a hub",
            """\
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16).cuda()
model.gradient_checkpointing_enable()  # !
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

def train(loader):
    for batch in loader:
        loss = model(**{key: value.cuda() for key, value in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "when asked for",
            """\
import argparse
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--gradient_checkpointing", action="store_true")
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
if args.gradient_checkpointing:
    model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

def train(loader):
    for batch in loader:
        model(batch.cuda()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "one heavy part of the network only",
            """\
import torch
from torch.utils.checkpoint import checkpoint

class Net(torch.nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=False))

def train(model, loader, optimizer):
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a checkpoint that is a file",
            """\
import torch

def train(model, loader, optimizer, checkpoint, layers):
    model.load_state_dict(checkpoint["model"])
    for layer in layers:
        checkpoint.load(layer)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_switch(event: Called, job: Job) -> bool:
    """Say whether a model is told to do it: model.gradient_checkpointing_enable(), set_grad_checkpointing(True)."""
    method = event.name.rpartition(".")[2]
    if method not in _SWITCHES or not job.trains:
        return False
    enable = event.argument(0, "enable")
    if enable is not None and enable.known and not enable.constant:
        return False
    chain = around(event.source, event.node)
    if any(isinstance(part, ast.If) and "checkpoint" in ast.unparse(part.test) for part in chain):
        return False  # somebody asks for it
    return not any(isinstance(part, ast.FunctionDef) and part.name == method for part in chain)  # only hands it on


def _is_layer(event: Called) -> bool:
    """Say whether one layer after the other is run with it."""
    if event.name not in _LAYER or not event.where.reachable:
        return False
    return any(isinstance(part, ast.For | ast.While) for part in around(event.source, event.node))


def _is_option(event: Called) -> bool:
    """Say whether a trainer is told to do it."""
    option = event.keywords.get("gradient_checkpointing")
    return option is not None and option.constant is True and event.name.endswith(("Arguments", "Config"))
