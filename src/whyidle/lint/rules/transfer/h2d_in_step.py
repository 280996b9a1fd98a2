"""Finds tensors that are made on the CPU in each step and then copied to the GPU."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, Replace
from whyidle.lint.rules.loops import conditional, innermost, kept, stored_names
from whyidle.lint.rules.transfer.moves import is_asynchronous, moves, reaches_device, target, to_where_another_is
from whyidle.model.finding import Severity

# Makers of tensors that take a `device`; what the first three copy comes from Python or numpy.
COPYING = frozenset({"tensor", "as_tensor", "asarray"})
FILLING = frozenset({"zeros", "ones", "full", "empty", "arange", "eye"})
ROUNDING = frozenset({"linspace", "logspace", "rand", "randn", "randint", "randperm", "normal"})
MAKERS = COPYING | FILLING | ROUNDING
LEGACY = frozenset({"Tensor", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "DoubleTensor"})
DATA = frozenset({"from_numpy", "frombuffer", "stack", "cat"})  # more likely a batch than a constant
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
        if data is None or data.has_device_tensor or data.kind == "tensor":
            return
        plain = data.kind == "plain"
        device = next((keyword.value for keyword in event.node.keywords if keyword.arg == "device"), None)
        if event.name == ".new_tensor":
            copied = plain and event.receiver is not None and event.receiver.on_device
        else:
            made = plain or (event.name == "torch.tensor" and event.where.phase == "step")
            copied = made and device is not None and reaches_device(event, "device", device)
        if copied and _often_enough(event, device):
            yield self._hit(event, "makes a tensor of Python data", self._number(event), plain)

    def _moved(self, event: Called) -> Iterator[Hit]:
        """Look at `torch.arange(n).to(device)`: a tensor that was made on the CPU just before."""
        func = event.node.func
        receiver = event.receiver
        if not isinstance(func, ast.Attribute) or receiver is None or receiver.is_batch or receiver.on_device:
            return
        if isinstance(receiver.node, ast.Call) and _is_empty(receiver.node):
            return
        if receiver.pinned or "pin_memory" in ast.unparse(func.value):
            return  # on purpose; another check looks at that
        maker = _maker(func.value)
        if maker is None and not (receiver.on_host and self._fresh(event, func.value)):
            return
        if not _often_enough(event, target(event)):
            return
        if to_where_another_is(event) and event.where.phase != "maybe" and not (maker or receiver.on_host):
            return
        what = f"makes a CPU tensor by `{ast.unparse(maker.func)}`" if maker is not None else "takes a CPU tensor"
        yield self._hit(event, what, self._on_device(event, maker) if maker is not None else None, True)

    @staticmethod
    def _fresh(event: Called, moved: ast.expr) -> bool:
        """Say whether what is moved was made by a function of torch's in the same loop, or just here."""
        made = event.receiver.name if event.receiver is not None else ""
        if not made.startswith("torch.") or made.rpartition(".")[2] not in MAKERS | {"from_numpy", "frombuffer"}:
            return False
        loop = innermost(event.node, event.source)
        names = {ast.unparse(node) for node in ast.walk(moved) if isinstance(node, ast.Name | ast.Attribute)}
        return isinstance(moved, ast.Call) or (loop is not None and bool(names & stored_names(loop)))

    def _hit(self, event: Called, what: str, repair: Repair | None, sure: bool) -> Hit:
        severity, confidence = _grade(event, sure)
        when = "each time that this runs" if event.where.phase == "maybe" else "in each step"
        if event.where.guard == "flag":
            when = "in each step where this setting is on"
        in_vain = is_asynchronous(event) and event.name in {".to", ".cuda"}
        vain = " (`non_blocking` needs pinned memory)" if in_vain else ""
        title, change = self._fix(event, repair)
        return Hit(
            event.node,
            f"`{_short(event.node)}` {what} and copies it to the GPU {when}: the CPU waits for the copy{vain}, and "
            "the GPU runs dry.",
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
        code = ast.unparse(event.node)
        if repair is not None:
            changed = repair.changes[0]
            assert isinstance(changed, Replace)
            return "make it on the device", changed.code
        if _made_by(event) in DATA:
            return "pin it and let the copy run beside the CPU, or let a DataLoader do so", (
                f"{ast.unparse(event.node.func.value)}.pin_memory().to(device, non_blocking=True)"
                if isinstance(event.node.func, ast.Attribute)
                else code
            )
        names = [node for node in ast.walk(event.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        if all(node.id in {"torch", "self", "device"} or node.id.endswith("device") for node in names):
            return "make it once: before the loop, or as a buffer of the module", (
                f'self.register_buffer("constant", {code}, persistent=False)  # in __init__'
            )
        return "do without the copy, or let it run beside the CPU", (
            "torch.full((), number, device=device)  # a single number: the GPU fills it\n"
            "torch.tensor(numbers).pin_memory().to(device, non_blocking=True)  # several"
        )

    @staticmethod
    def _number(event: Called) -> Repair | None:
        """Return how to make a tensor of a single number without a copy: the GPU fills it."""
        node = event.node
        if event.name != "torch.tensor" or not node.args or not _is_number(node.args[0]):
            return None
        if any(keyword.arg not in {"device", "dtype"} for keyword in node.keywords) or len(node.args) > 1:
            return None
        func = ast.Attribute(node.func.value, "full") if isinstance(node.func, ast.Attribute) else None
        if func is None:
            return None
        full = ast.Call(func, [ast.Tuple([], ast.Load()), node.args[0]], node.keywords)
        return Repair((Replace(node, ast.unparse(full)),), safe=True)

    @staticmethod
    def _on_device(event: Called, maker: ast.Call) -> Repair | None:
        """Return how to make a tensor where it is used: the maker gets the device, the move goes."""
        device = target(event)
        code = ast.unparse(device) if device is not None else '"cuda"'
        extra = [key for key in event.node.keywords if key.arg not in {"device", "non_blocking"}]
        made = maker.func.attr if isinstance(maker.func, ast.Attribute) else ""
        several_lines = event.node.lineno != event.node.end_lineno  # whose comments would be lost
        if several_lines or extra or len(event.node.args) > 1 or made not in FILLING | ROUNDING | {"tensor"}:
            return None
        if any(keyword.arg in {"device", "generator", "pin_memory", "requires_grad"} for keyword in maker.keywords):
            return None
        func = event.node.func
        assert isinstance(func, ast.Attribute)
        changed = copy.deepcopy(func.value)
        inner = _maker(changed)
        assert inner is not None
        inner.keywords.append(ast.keyword("device", ast.parse(code, mode="eval").body))
        direct = func.value is maker
        whole = not any(isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(maker))
        if made == "tensor":
            return None  # the copy stays
        safe = direct and made in FILLING and (made != "arange" or whole)
        note = "" if safe else "numbers differ in their last digits, random ones altogether"
        return Repair((Replace(event.node, ast.unparse(changed)),), safe=safe, note=note)

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
    if where.environment or (kept(event.statement) and conditional(event.node, event.source)):
        return False  # observations and actions have to be copied; what is kept is made once
    if where.phase == "step":
        return True
    function = where.function.rpartition(".")[2]
    of_a_tensor = isinstance(device, ast.Attribute) and device.attr == "device" and not _is_own(device.value)
    return function not in {"", "__init__"} and (function.endswith(PER_STEP) or of_a_tensor)


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "args", "cfg", "config", "opt", "accelerator"}


def _grade(event: Called, sure: bool) -> tuple[Severity, float]:
    where = event.where
    if not where.hot:
        return "low", 0.5
    unseen = where.function.endswith(("forward", "__call__")) and not event.via
    if where.update or where.guard or unseen or conditional(event.node, event.source):
        return "low", 0.7 if sure else 0.5
    func = event.node.func
    moved = event.name in {".to", ".cuda"} and isinstance(func, ast.Attribute) and _maker(func.value) is None
    return ("low", 0.7) if moved or _made_by(event) in DATA or not sure else ("medium", 0.9)


def _made_by(event: Called) -> str:
    """Return the name of the function of torch's that made what is moved."""
    func = event.node.func
    maker = _maker(func.value) if isinstance(func, ast.Attribute) else None
    if maker is not None and isinstance(maker.func, ast.Attribute):
        return maker.func.attr
    return event.receiver.name.rpartition(".")[2] if event.receiver is not None else ""


def _maker(node: ast.expr) -> ast.Call | None:
    """Return the call that makes the tensor that an expression is computed from: `torch.arange(n)` of `2 * ... + 1`."""
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in {"torch", "th"}:
            if func.attr in COPYING | FILLING | ROUNDING | LEGACY | DATA:
                moved = any(keyword.arg == "device" for keyword in node.keywords)
                return None if moved or func.attr in {"stack", "cat"} or _is_empty(node) else node
            return next((made for made in map(_maker, node.args) if made is not None), None)
        return _maker(func.value) if isinstance(func, ast.Attribute) else None
    if isinstance(node, ast.BinOp):  # of the two sides one may be on the device: then the other has to be, too
        return _maker(node.left) or _maker(node.right)
    if isinstance(node, ast.UnaryOp):
        return _maker(node.operand)
    return _maker(node.value) if isinstance(node, ast.Subscript) else None


def _is_empty(maker: ast.Call) -> bool:
    """Say whether a tensor has no values, so that nothing is copied: `torch.empty(0)`, `torch.tensor([])`."""
    first = maker.args[0] if maker.args else None
    if isinstance(first, ast.Constant):
        return first.value == 0 and getattr(maker.func, "attr", "") not in COPYING | {"full", "arange"}
    return isinstance(first, ast.List | ast.Tuple) and not first.elts


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"float", "int", "len"}
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _short(node: ast.Call) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
