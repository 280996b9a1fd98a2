"""A job that tells its losses itself: small trainings after one another. Started by test_losses.py.

Prints a line of JSON for each: its name, its first and last sequence, and the loss of each backward pass.
Arguments: "cpu", or "fakegpu" with where it is built and the folder of doubles.
"""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import json
import math
import sys
import weakref
from pathlib import Path

import torch
from _whyidle import record
from _whyidle import scaler as scaler_hook
from torch import nn
from torch.overrides import TorchFunctionMode

STEPS = 20
device = sys.argv[1]
native = None
if device == "fakegpu":
    sys.path.insert(0, sys.argv[3])
    import fakegpu

    native = fakegpu.load(Path(sys.argv[2]))
    native.set_costs(5.0, 10.0, 0.4)


def told(name, losses):
    if native is not None:
        torch.accelerator.synchronize()
        torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1).step()  # what has arrived is read at a step
    stalls = native.stalls() if native is not None else 0
    last = record._ring.written if record._ring is not None else 0
    print(json.dumps({"name": name, "last": last, "losses": losses, "stalls": stalls}), flush=True)


def parts(seed=0):
    torch.manual_seed(seed)
    model = nn.Linear(8, 1).to(device)
    return model, torch.optim.SGD(model.parameters(), 0.05, foreach=False)


def batch(step):
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(step)).to(device)


def plain(dtype=torch.float32):
    """A loss a step; read after the pass, as the job's own log would."""
    model, optimizer = parts()
    model.to(dtype)
    losses = []
    for step in range(STEPS):
        loss = (model(batch(step).to(dtype)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [float(one) for one in losses]


def accumulated():
    """Two passes a step, of which the second loss has a dimension."""
    model, optimizer = parts()
    losses = []
    for step in range(STEPS):
        for half in range(2):
            loss = (model(batch(2 * step + half)) - 1).square().mean()
            (loss.reshape(1) if half else loss).backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return [float(one) for one in losses]


def scaled():
    """With a gradient scaler, whose scale changes meanwhile."""
    model, optimizer = parts()
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=3)
    losses = []
    for step in range(STEPS):
        loss = (model(batch(step)) - 1).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    assert scaler.get_scale() > 2.0**10
    return [float(one) for one in losses]


def divided():
    """Divided after it was scaled: nobody knows by what it was multiplied in all."""
    model, optimizer = parts()
    scaler = torch.amp.GradScaler(device)
    for step in range(STEPS):
        (scaler.scale((model(batch(step)) - 1).square().mean()) / 2).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return []


def infinite(dtype=torch.float32):
    """With a gradient scaler, and infinite from the tenth step on; in float16 only once it was scaled."""
    model, optimizer = parts()
    scaler = torch.amp.GradScaler(device, init_scale=2.0**15, growth_interval=1000)
    losses = []
    for step in range(STEPS):
        more = 0.0 if step < 10 else 9.0 if dtype == torch.float16 else math.inf
        loss = (model(batch(step)) - 1).square().mean().to(dtype).reshape(
            1
        ) + more  # of one dimension, it keeps its type
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update(2.0**15)
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def broken():
    """A loss that is no number from the tenth step on."""
    model, optimizer = parts()
    losses = []
    for step in range(STEPS):
        loss = (model(batch(step)) - 1).square().mean() * (math.nan if step >= 10 else 1.0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def others():
    """Passes that begin with no loss: a gradient is given, several roots."""
    model, optimizer = parts()
    for step in range(STEPS):
        out = model(batch(step))
        out.backward(torch.ones_like(out))
        torch.autograd.backward([model(batch(step)).sum(), model(batch(step)).mean()])
        optimizer.step()
        optimizer.zero_grad()
    return []


def let_go():
    """A loss is let go of when the job lets go of it, and its graph with it."""
    model, _ = parts()
    loss = (model(batch(0)) - 1).square().mean()
    held = weakref.ref(loss)
    loss.backward()
    value = float(loss.detach())
    del loss
    assert held() is None
    return [value]


def scaled_there():
    """With a scale that lies on the device, as GradScaler has it; that knows the names of some devices only."""
    model, optimizer = parts()
    scale, losses = torch.full((), 1024.0).to(device), []
    for step in range(STEPS):
        loss = (model(batch(step)) - 1).square().mean()
        root = loss * scale
        scaler_hook.scaled.append((weakref.ref(root), scale))
        root.backward()
        scaler_hook.scaled.clear()
        for parameter in model.parameters():
            parameter.grad.div_(scale)
        scale.mul_(2.0)  # as an update does, in place
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [float(one) for one in losses]


def in_a_mode():
    """With a mode of the job's own that counts what is called: it does not see us."""

    class Counts(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            Counts.calls += 1
            return function(*args, **(kwargs or {}))

    model, _ = parts()
    loss = (model(batch(0)) - 1).square().mean()
    with Counts():
        torch.autograd.backward(loss)
    assert Counts.calls <= 1, Counts.calls
    return [float(loss.detach())]


names = ["plain", "accumulated", "broken", "others", "let_go", "in_a_mode", "scaled_there"]
if device == "cpu":
    names += ["scaled", "divided", "infinite"]
for name in names:
    told(name, globals()[name]())
if device == "cpu":
    told("bfloat16", plain(torch.bfloat16))
    told("infinite_float16", infinite(torch.float16))
