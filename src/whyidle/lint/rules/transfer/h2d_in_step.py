"""Finds tensors that are made on the CPU in each step and then copied to the GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.enclosing import function_around, loop_around
from whyidle.lint.engine.guess import named
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import rhythm
from whyidle.lint.repair import Repair, Replace
from whyidle.lint.repairs.factories import filled, on_device
from whyidle.lint.rules.loops import conditional, kept, stored_names
from whyidle.lint.rules.transfer.makers import COPYING, DATA, FILLING, MAKERS, ROUNDING, is_empty, made_by, maker_of
from whyidle.lint.rules.transfer.moves import METHODS, is_asynchronous, moves, reaches_device, target
from whyidle.model.finding import Severity

PER_STEP = ("forward", "training_step", "loss", "train_step", "__call__")


class H2dInStep(Check):
    """A tensor is made on the CPU in each step and copied to the GPU.

    ## Why it costs time
    `torch.tensor(0.5, device="cuda")`, `torch.arange(n).to(device)` and `torch.zeros(n).cuda()` make a tensor in
    ordinary host memory and copy it. The CPU waits until the copy has run, behind everything that is queued on the
    stream. After that the queue is empty, and the GPU waits until it has been filled again.

    ## How we know
    A call of PyTorch's that makes a tensor from Python or numpy data, or on the CPU, is given a device or followed by
    `.to(device)` or `.cuda()`, in a training step, in the code of a model, or in a function that asks a tensor for its
    device. `non_blocking=True` changes nothing, since such a tensor is not pinned.

    ## When to ignore it
    The function runs rarely, or its result is kept. Random numbers are drawn on the CPU on purpose, to be the same on
    every machine.
    """

    cost = "drain"
    sees = (Called,)
    calls = ends({*COPYING, *METHODS, "new_tensor"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or job.gpu == "no" or not event.where.reachable:
            return
        last = event.name.rpartition(".")[2]
        if (event.name.startswith("torch.") and last in COPYING) or event.name == ".new_tensor":
            yield from self._copied(event)
        elif moves(event):
            yield from self._moved(event)

    def _copied(self, event: Called) -> Iterator[Hit]:
        """Look at `torch.tensor(data, device=...)`: data of Python that is copied to where a device says."""
        data = event.argument(0, "data")
        if data is None or data.has_device_tensor or data.kind == "tensor" or is_empty(event.node):
            return
        plain = data.kind == "plain"
        device = next((keyword.value for keyword in event.node.keywords if keyword.arg == "device"), None)
        if event.name == ".new_tensor":
            copied = plain and event.receiver is not None and event.receiver.on_device
        else:
            made = plain or (event.name == "torch.tensor" and event.where.phase == "step")
            copied = made and device is not None and reaches_device(event, "device", device)
        if copied and _often_enough(event, device):
            yield self._hit(event, "makes a tensor of Python data", filled(event.node, event.source.text), plain)

    def _moved(self, event: Called) -> Iterator[Hit]:
        """Look at `torch.arange(n).to(device)`: a tensor that was made on the CPU just before."""
        func = event.node.func
        receiver = event.receiver
        if not isinstance(func, ast.Attribute) or receiver is None or receiver.is_batch or receiver.on_device:
            return
        if isinstance(receiver.node, ast.Call) and is_empty(receiver.node):
            return
        if receiver.pinned or "pin_memory" in ast.unparse(func.value):
            return  # on purpose; another check looks at that
        maker = maker_of(func.value)
        if maker is not func.value and not receiver.on_host:
            return  # what else it was computed from may be on the GPU
        if maker is None and not self._fresh(event, func.value):
            return
        if not _often_enough(event, target(event)):
            return
        what = f"makes a CPU tensor by `{ast.unparse(maker.func)}`" if maker is not None else "takes a CPU tensor"
        yield self._hit(event, what, on_device(event.node, event.source.text), True)

    @staticmethod
    def _fresh(event: Called, moved: ast.expr) -> bool:
        """Say whether what is moved was made by a function of torch's in the same loop, or just here."""
        made = event.receiver.name if event.receiver is not None else ""
        if not made.startswith("torch.") or made.rpartition(".")[2] not in MAKERS | DATA:
            return False
        loop = loop_around(event.source, event.node)
        names = {ast.unparse(node) for node in ast.walk(moved) if isinstance(node, ast.Name | ast.Attribute)}
        return isinstance(moved, ast.Call) or (loop is not None and bool(names & stored_names(loop)))

    def _hit(self, event: Called, what: str, repair: Repair | None, sure: bool) -> Hit:
        severity, confidence = _grade(event, sure)
        in_vain = is_asynchronous(event) and event.name in {".to", ".cuda"}
        vain = " (`non_blocking` needs pinned memory)" if in_vain else ""
        title, change = self._fix(event, repair)
        return Hit(
            event.node,
            f"`{_short(event.node)}` {what} and copies it to the GPU {rhythm(event)}: the CPU waits for the "
            f"copy{vain}, and the GPU runs dry.",
            severity,
            confidence,
            source=event.source,
            title=title,
            change=change,
            effort="argument" if repair is not None else "code",
            repair=repair,
        )

    @staticmethod
    def _fix(event: Called, repair: Repair | None) -> tuple[str, str]:
        """Return what to do, and code to paste."""
        if repair is not None:
            changed = repair.changes[0]
            assert isinstance(changed, Replace)
            return "make it on the device", changed.code
        moved = event.node.func.value if isinstance(event.node.func, ast.Attribute) else event.node
        maker = maker_of(moved) or event.node
        if made_by(event) in DATA:
            code = f"{ast.unparse(moved)}.pin_memory().to(device, non_blocking=True)"
            return "pin it and let the copy run beside the CPU, or let a DataLoader do so", code
        if getattr(maker.func, "attr", "") in FILLING | ROUNDING:
            device = target(event)
            given = ast.keyword("device", device if device is not None else ast.Constant("cuda"))
            code = ast.unparse(ast.Call(maker.func, maker.args, [*maker.keywords, given]))
            return "make it on the device", code
        if maker.args and not any(isinstance(node, ast.Name) for node in ast.walk(maker.args[0])):
            data = ast.unparse(maker.args[0])
            code = f'self.register_buffer("constant", torch.tensor({data}), persistent=False)  # in __init__'
            return "make it once: before the loop, or as a buffer of the module", code
        return "do without the copy, or let it run beside the CPU", (
            "torch.full((), number, device=device)  # a single number: the GPU fills it\n"
            "torch.tensor(numbers).pin_memory().to(device, non_blocking=True)  # several"
        )

    cases = (
        Invalid(
            "constants in the code of a model",
            """\
import torch

class EnergyLoss(torch.nn.Module):
    def forward(self, e, ref, n):
        scale = torch.tensor(0.5, device=e.device)  # !
        weight = torch.tensor([1.0, 0.1]).to(e.device)  # !
        return (scale * weight[0] * (e - ref) ** 2 / n).mean()
""",
        ),
        Invalid(
            "a table of time steps",
            """\
import math
import torch

def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(
        -math.log(max_period) * torch.arange(half, dtype=torch.float32) / half
    ).to(t.device)  # !!
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
""".replace("freqs = torch.exp(", "freqs = torch.exp(  # !").replace("  # !!", ""),
        ),
        Invalid(
            "labels of a GAN, made on the CPU in each step",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, gen, dis, opt_g, opt_d, bce, device="cuda"):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for real in loader:
        real = real.to(device, non_blocking=True)
        ones = torch.ones(real.size(0), 1).to(device)  # !
        noise = torch.randn(real.size(0), 100).cuda()  # !
        fake = gen(noise)
        loss_d = bce(dis(real), ones) + bce(dis(fake.detach()), torch.zeros_like(ones))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = bce(dis(fake), ones)
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
""",
        ),
        Invalid(
            "non_blocking does not help what is not pinned",
            """\
import numpy as np
import torch

def train(buffer, critic, opt, device):
    for step in range(100_000):
        rows = buffer.sample(256)
        weights = torch.from_numpy(np.asarray(rows["weight"]))
        weights = weights.to("cuda", non_blocking=True)  # !
        loss = (weights * critic(rows).square()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "made on the device",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, gen, dis, opt, bce, device="cuda"):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for real in loader:
        real = real.to(device, non_blocking=True)
        ones = torch.ones(real.size(0), 1, device=device)
        noise = torch.randn(real.size(0), 100, device=real.device)
        label = torch.full((real.size(0),), 0.9, dtype=real.dtype, device=device)
        loss = bce(dis(gen(noise)), ones) + bce(dis(real), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "once, before the loop",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    weight = torch.tensor([1.0, 0.1, 2.5]).cuda()
    fixed_noise = torch.randn(64, 100, 1, 1).to("cuda")
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y, weight=weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model(fixed_noise)
""",
        ),
        Valid(
            "when the log is written",
            """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

def train(dataset, model, opt, log_every=100):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    total = torch.zeros((), device="cuda")
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.detach()
        if step % log_every == 0:
            mean = torch.tensor(total.item() / log_every, device="cuda")
            dist.all_reduce(mean)
            print(mean.item())
""",
        ),
        Valid(
            "buffers of a module are made in its constructor",
            """\
import torch

class Normalize(torch.nn.Module):
    def __init__(self, device="cuda"):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406], device=device))
        self.scale = torch.tensor([0.229, 0.224, 0.225]).to(device)

    def forward(self, x):
        return (x - self.mean[:, None, None]) / self.scale[:, None, None]
""",
        ),
        Valid(
            "tensors of Python data that stay on the CPU",
            """\
import torch
from torch.utils.data import DataLoader

def collate(rows):
    lengths = torch.tensor([len(row) for row in rows])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=64, num_workers=4, collate_fn=collate, pin_memory=True)
    for x, lengths in loader:
        loss = model(x.cuda(non_blocking=True), lengths).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
    )


def _often_enough(event: Called, device: ast.expr | None) -> bool:
    """Say whether a line can be expected to run each step: it is seen to, or it stands in a function that says so."""
    where = event.where
    skipped = conditional(event.node, event.source)
    if where.environment or (kept(event.statement) and skipped):
        return False  # observations and actions have to be copied; what is kept is made once
    if where.phase == "step":
        return True
    function = where.function.rpartition(".")[2]
    if skipped or function in {"", "__init__"} or isinstance(event.statement, ast.Assert):
        return False
    of_a_tensor = isinstance(device, ast.Attribute) and device.attr == "device" and not _is_own(device.value)
    return function.endswith(PER_STEP) or of_a_tensor


def _seen(event: Called) -> bool:
    """Say whether a loop or a step is seen that leads here, not just the code of a model that somebody calls."""
    first = function_around(*event.via[0]) if event.via else None
    entry = event.where.function.rpartition(".")[2] if not event.via else first.name if first is not None else ""
    return entry not in {"forward", "__call__"}


def _is_own(node: ast.expr) -> bool:
    """Say whether a device is asked of settings or of a model, which says nothing of how often a function runs."""
    own = {"self", "args", "cfg", "config", "opt", "accelerator"}
    return isinstance(node, ast.Name) and (node.id in own or named(node.id).kind == "module")


def _grade(event: Called, sure: bool) -> tuple[Severity, float]:
    where = event.where
    if not where.hot:
        return "low", 0.5
    if where.update or where.guard or not _seen(event) or conditional(event.node, event.source):
        return "low", 0.7 if sure else 0.5
    func = event.node.func
    moved = event.name in {".to", ".cuda"} and isinstance(func, ast.Attribute) and maker_of(func.value) is None
    return ("low", 0.7) if moved or made_by(event) in DATA or not sure else ("medium", 0.9)


def _short(node: ast.Call) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
