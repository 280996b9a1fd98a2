from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Stepped
from whyidle.lint.job import Job
from whyidle.model.finding import Severity

# Where one of these words stands, somebody has thought of it: we do not follow under which conditions it holds.
THOUGHT_OF = (
    "no_sync",
    "require_backward_grad_sync",
    "set_requires_gradient_sync",
    "set_is_last_backward",
    "accelerator.accumulate",
    "no_backward_sync",  # Lightning's Fabric
    "static_graph",  # which counts backward passes and does not bear to skip some
)
ACCUMULATES = re.compile(r"accum|micro_?steps", re.IGNORECASE)  # settings: steps between two updates
PASSES = (".backward", "torch.autograd.backward")
REPLICATED = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
SHARDED = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)


class AccumulationSync(Check):
    """Gradients are accumulated over several backward passes, and DistributedDataParallel exchanges them in each.

    ## Why it costs time
    Only the sum of all micro-batches is needed. DDP does not know that and runs its all-reduces in every backward
    pass: k times the traffic. Over a slow network that is most of a step.

    ## How we know
    Several `backward()` come before one `optimizer.step()`, the model is wrapped in DDP or FSDP in this program, and
    neither `no_sync` nor another of the ways to put the exchange off is named anywhere in it. How fast the network is
    cannot be seen.

    ## When to ignore it
    With one GPU, or where links are so fast that the exchange hides behind the backward pass. FSDP keeps whole
    gradients without its reduce-scatter, which may not fit into memory.
    """

    cost = "network"

    def end(self, job: Job) -> Iterator[Hit]:
        wrapped, sharded = _wrapping(job, *REPLICATED), _wrapping(job, *SHARDED)
        passes = [call for call in job.calls(*PASSES) if call.where.micro and _of_loss(call)]
        passes += [call for step in job.steps() for call in _accumulating(step)]
        if not passes or not (wrapped or sharded) or job.gpu == "no":
            return
        sources = {id(event.source): event.source for event in job.events}
        if any(word in source.text for source in sources.values() for word in THOUGHT_OF):
            return
        once = [name for name, value in job.defaults.items() if ACCUMULATES.search(name) and value.constant == 1]
        always = any(call.where.guard == "" for call in wrapped) and not once
        for call in passes:
            # a loop of micro-steps stands there for a reason; how many batches a setting adds up is not known
            severity: Severity = "medium" if always and call.where.micro and call.where.guard == "" else "low"
            yield _hit(call, "DDP" if wrapped else "FSDP", severity, f", when `{once[0]}` is over 1" if once else "")

    cases = (
        Invalid(
            "an update every so many batches",
            """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(model, loader, optimizer, local_rank, accumulation_steps=4):
    model = DDP(model.cuda(local_rank), device_ids=[local_rank])
    model.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y) / accumulation_steps
        loss.backward()  # !
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
""",
        ),
        Invalid(
            "a loop of micro-batches within the step",
            """
import torch
from torch.nn.parallel import DistributedDataParallel

device = "cuda"
grad_accum = 8
model = DistributedDataParallel(GPT().to(device), device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(10000):
    for micro_step in range(grad_accum):
        x, y = get_batch("train")
        logits, loss = model(x, y)
        (loss / grad_accum).backward()  # !
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
""",
        ),
        Valid(
            "all but the last are put off",
            """
import contextlib
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(model, loader, optimizer, k=4):
    model = DDP(model.cuda(), device_ids=[0])
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % k == 0
        with contextlib.nullcontext() if last else model.no_sync():
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / k
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
""",
        ),
        Valid(
            "the flag of DDP itself, as in nanoGPT",
            """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(GPT().cuda(), device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters())
while True:
    for micro_step in range(5):
        model.require_backward_grad_sync = micro_step == 4
        logits, loss = model(X, Y)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
""",
        ),
        Valid(
            "one process has nobody to exchange with",
            """
import torch

def train(model, loader, optimizer, k=4):
    model = model.cuda()
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / k
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
""",
        ),
        Valid(
            "every pass is followed by an update",
            """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(gen, dis, loader, g_opt, d_opt):
    gen, dis = DDP(gen.cuda()), DDP(dis.cuda())
    for real in loader:
        fake = gen(torch.randn(64, 128, device="cuda"))
        d_loss = dis(fake.detach()).mean() - dis(real.cuda(non_blocking=True)).mean()
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        g_loss = -dis(fake).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
""",
        ),
    )


def _wrapping(job: Job, *names: str) -> list[Called]:
    """Return the calls that wrap a model; a call of the wrapped model has the same name."""
    calls = [call for call in job.calls(*names) if call.where.guard not in {"rare", "error"}]
    return [call for call in calls if call.result.kind != "tensor" and call.where.phase != "step"]


def _accumulating(step: Stepped) -> Iterator[Called]:
    """Yield the backward passes of a training step that is followed by an update only now and then."""
    updates = [call for call in step.calls if _is_update(call)]
    if updates and all(call.where.update for call in updates):
        yield from (call for call in step.calls if call.name in PASSES and not call.where.update and _of_loss(call))


def _of_loss(call: Called) -> bool:
    """Say whether this is autograd's backward pass, in each training step.

    DeepSpeed's engine and accelerate's accelerator have one that exchanges gradients when it is time to.
    """
    where, receiver = call.where, call.receiver
    told = receiver is not None and receiver.kind in {"module", "accelerator"}
    return where.phase == "step" and where.work == "train" and where.often and not told


def _is_update(call: Called) -> bool:
    return call.name == ".step" and call.receiver is not None and call.receiver.kind in {"optimizer", "scaler"}


def _hit(call: Called, wrapper: Literal["DDP", "FSDP"], severity: Severity, when: str) -> Hit:
    backward = ast.unparse(call.node)
    replicated = (
        "last = (step + 1) % k == 0\n"
        "with contextlib.nullcontext() if last else model.no_sync():  # around the forward pass, too\n"
        f"    {backward}"
    )
    sharded = f"model.set_requires_gradient_sync(last)  # fully_shard; older: with model.no_sync():\n{backward}"
    return Hit(
        node=call.node,
        message=f"{wrapper} exchanges gradients in each of several backward passes before one optimizer step{when}: "
        "once would do.",
        severity=severity if wrapper == "DDP" else "low",
        confidence=0.7 if wrapper == "DDP" else 0.5,
        source=call.source,
        title="exchange gradients in the last micro-step only",
        change=replicated if wrapper == "DDP" else sharded,
        risk="FSDP then keeps whole gradients on each GPU until the last micro-step" if wrapper == "FSDP" else "",
    )
