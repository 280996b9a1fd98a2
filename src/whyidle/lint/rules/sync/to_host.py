"""Whole tensors that are copied back to the CPU in a step: `.cpu()`, `.to("cpu")`, `.numpy(force=True)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import nearby
from whyidle.lint.rules.sync.drain import POSSIBLE, Fix, certainty, drains, quoted
from whyidle.lint.rules.sync.on_host import feeds_metric
from whyidle.lint.rules.sync.parameters import over_parameters


class ToHost(Check):
    """A tensor is copied from the GPU to the CPU in every step, and the CPU waits for the copy.

    ## Why it costs time
    The copy starts when the GPU has done all that was queued before, and `.cpu()` returns when it is
    done. The CPU starts again with an empty queue, and the GPU waits for it. What is done with the copy
    on the CPU (numpy, scikit-learn, drawing) comes on top: the GPU has nothing to do meanwhile.

    ## How we know
    The tensor is followed from where it is made and is on the accelerator, and the line runs in every
    step. `.numpy()` alone says the contrary: it fails for a tensor of the GPU. Copies in evaluation are
    common and of low severity: predictions have to be collected somewhere.

    ## When to ignore it
    The CPU needs the values now: an environment that is stepped, a decoder that runs on the CPU.
    """

    rule = "sync.scalar_read"
    cost = "copy"
    sees = (Called,)
    calls = frozenset({"cpu", "numpy", "to"})

    def __init__(self) -> None:
        self._lines = nearby.Lines()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or not isinstance(event.node.func, ast.Attribute) or not _copies(event):
            return
        if not event.where.reachable:
            return
        receiver = event.receiver
        if receiver is None or over_parameters(event, job):
            return
        sure = certainty(receiver, job)
        if not receiver.has_device_tensor and (event.name != ".cpu" or event.where.phase == "maybe"):
            return  # `.cpu()` alone is an idiom of tensors of the GPU
        if event.where.work == "train" and event.name == ".cpu" and feeds_metric(event):
            return  # told of by sync.logging_metrics
        if nearby.acts(event):
            return  # the environment needs it
        if event.where.work == "eval":
            sure = min(sure, POSSIBLE)
        does = f"{quoted(event.node)} copies from the GPU to the CPU and waits for it"
        place = nearby.at_method(event.node)
        for hit in drains(event, job, does, _fix(event), sure=sure, node=place, seldom=True):
            if self._lines.claims(event):
                yield hit

    cases = (
        Invalid(
            "predictions of each training step for a metric of scikit-learn at the end of the epoch",
            """\
import torch

def train(model, loader, optimizer, device="cuda"):
    model.to(device)
    predicted, wanted = [], []
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted.extend(logits.argmax(1).detach().cpu().numpy())  # !
        wanted.extend(y.to("cpu").numpy())  # !
    return predicted, wanted
""",
        ),
        Invalid(
            "sampling on the CPU for each token",
            """\
import torch

@torch.inference_mode()
def generate(model, ids, steps):
    model = model.cuda().eval()
    ids = ids.cuda()
    for _ in range(steps):
        weights = torch.softmax(model(ids)[:, -1], dim=-1)
        following = torch.multinomial(weights.cpu(), 1)  # !
        ids = torch.cat([ids, following.cuda()], dim=1)
    return ids
""",
        ),
        Valid(
            "copies of a checkpoint, of every hundredth step, of tensors that were never moved",
            """\
import torch

def train(model, loader, optimizer, save):
    model.cuda()
    for epoch in range(10):
        for step, (x, y) in enumerate(loader):
            names = y.cpu().numpy()
            loss = model(x.cuda(non_blocking=True)).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 100 == 0:
                print(names, loss.detach().cpu().numpy())
        save({name: weight.cpu() for name, weight in model.state_dict().items()})
""",
        ),
        Valid(
            "an environment of the CPU needs each action",
            """\
import gym
import torch

def collect(steps):
    env = gym.make("CartPole-v1")
    agent = torch.nn.Linear(4, 2).to("cuda")
    optimizer = torch.optim.Adam(agent.parameters())
    for update in range(100):
        state, kept = env.reset(), []
        for step in range(steps):
            action = agent(torch.as_tensor(state).to("cuda")).argmax()
            state, reward, done, info = env.step(action.cpu().numpy())
            kept.append(reward)
        loss = agent(torch.as_tensor(state).to("cuda")).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a cast and a move to the accelerator are no copies back",
            """\
import torch

def train(model, loader, optimizer, device):
    model.to(device)
    for x in loader:
        x = x.to(device, non_blocking=True).to(torch.bfloat16)
        loss = model(x).float().to(x.device).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _copies(event: Called) -> bool:
    """Say whether a call copies from the accelerator to the CPU and waits for the copy."""
    waits = "non_blocking" not in event.keywords
    if event.name == ".cpu":
        return waits
    if event.name == ".numpy":
        force = event.keywords.get("force")
        return force is not None and force.constant is True
    return event.name == ".to" and waits and event.result.on_host


def _fix(event: Called) -> Fix:
    tensor = ast.unparse(event.node.func.value) if isinstance(event.node.func, ast.Attribute) else "tensor"
    kept = tensor if tensor.endswith(".detach()") or event.where.no_grad else f"{tensor}.detach()"
    return Fix(
        "keep it on the GPU and copy once, after the loop",
        f"kept.append({kept})\n"
        "# after the loop; torch.stack, if each is one value:\nvalues = torch.cat(kept).cpu().numpy()",
        risk="what is kept takes memory of the GPU until it is copied",
    )
