from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import function_around
from whyidle.lint.events import Event, Looped
from whyidle.lint.job import Job
from whyidle.lint.nodes import below
from whyidle.lint.often import each_step, rhythm

_ARITHMETIC = {"add_", "sub_", "mul_", "div_", "lerp_", "addcmul_", "addcdiv_", "clamp_", "clip_"}
_FILLS = {"copy_", "zero_", "fill_", "sign_", "sqrt_", "pow_"}
_OWN_RULES = {"all_reduce", "broadcast", "reduce", "all_gather", "norm", "item"}  # what other rules speak of
_ON_HOST = {"numel", "nelement", "element_size", "size", "shape", "item"}
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ONCE = ("__", "_init", "init", "load", "reset")  # functions that are not for each step, by how their names begin
_FOREACH = """\
ema_params, params = list(ema.parameters()), list(model.parameters())  # once
with torch.no_grad():
    torch._foreach_mul_(ema_params, decay)
    torch._foreach_add_(ema_params, params, alpha=1 - decay)
# an average of weights: torch.optim.swa_utils.AveragedModel; an update: an optimizer of torch.optim"""


class OptimizerLoop(Check):
    """A Python loop does arithmetic on one parameter after the other in every step.

    ## Why it costs time
    A model has hundreds of parameters, and each operation on one of them is a launch of 5 to 10 us on the host for a
    kernel of one or two. The optimizers of `torch.optim` and `torch._foreach_add_` and its like do an operation on all
    parameters in a few launches.

    ## How we know
    A loop over `parameters()` runs in each step and computes with them in place, or keeps the results by name: an
    optimizer or an average of weights (EMA) written by hand. How many parameters there are we do not see. Loops that
    only set flags or drop gradients launch nothing, and are not reported.

    ## When to ignore it
    Few large layers, whose kernels run longer than their launches take.
    """

    cost = "launch"
    sees = (Looped,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Looped) or not isinstance(event.node, ast.For) or job.gpu == "no":
            return
        loop, where = event.node, event.where
        maybe = where.phase == "maybe" and where.often and where.guard != "data"
        if not maybe and not (each_step(where) and where.work == "train"):
            return
        if maybe and where.function.rpartition(".")[2].startswith(_ONCE):
            return
        if not event.parameters and not _is_over_dict(event):
            return
        what = _operations(loop)
        if not what or (maybe and what <= _FILLS) or _calls(loop) & _OWN_RULES:
            return
        listed = ", ".join(f"`{operation}`" for operation in sorted(what))
        yield Hit(
            loop,
            f"A Python loop does {listed} on one parameter after the other {rhythm(event)}: some launches for each.",
            "low",
            0.5 if maybe else 0.7,
            event.source,
            title="do it for all parameters at once",
            change=_FOREACH,
            risk="the lists have to be of one device and in the same order",
        )

    cases = (
        Invalid(
            "an average of weights by hand",
            """\
import copy
import torch

@torch.no_grad()
def update_ema(ema, model, decay=0.999):
    for ema_param, param in zip(ema.parameters(), model.parameters()):  # !
        ema_param.mul_(decay).add_(param, alpha=1 - decay)

def train(model, loader, optimizer):
    model = model.cuda()
    ema = copy.deepcopy(model)
    for batch in loader:
        model(batch.cuda(non_blocking=True)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        update_ema(ema, model)
""",
        ),
        Invalid(
            "gradient descent by hand",
            """\
import torch

def train(model, loader, lr):
    model.cuda()
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():  # !
                p -= lr * p.grad
                p.grad.zero_()
""",
        ),
        Invalid(
            "an average of weights that is kept in a dict, in a class of its own",
            """\
import torch

class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: param.data.clone() for name, param in model.named_parameters()}

    def update(self, model):
        for name, param in model.named_parameters():  # !
            if param.requires_grad:
                self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * param.data

def train(model, loader, optimizer):
    model.cuda()
    ema = Ema(model, 0.999)
    for batch in loader:
        model(batch.cuda(non_blocking=True)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update(model)
""",
        ),
        Valid(
            "counts parameters, which stays on the host",
            """\
import torch

def sizes(model):
    found, total = {}, 0
    for name, param in model.named_parameters():
        found[name] = param.numel() * param.element_size()
        total += param.numel()
    return found, total

def train(model, loader, optimizer):
    model.cuda()
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        memory = sizes(model)
""",
        ),
        Valid(
            "switches only Python flags, and drops gradients: nothing is launched",
            """\
import torch

def train(generator, critic, loader, g_opt, c_opt):
    for real in loader:
        real = real.cuda(non_blocking=True)
        for p in critic.parameters():
            p.requires_grad = True
        fake = generator(real)
        (critic(fake.detach()).mean() - critic(real).mean()).backward()
        c_opt.step()
        for p in critic.parameters():
            p.requires_grad = False
            p.grad = None
        (-critic(generator(real)).mean()).backward()
        g_opt.step()
        g_opt.zero_grad()
""",
        ),
        Valid(
            "once, when the model is built, and once per epoch",
            """\
import torch

class Encoder(torch.nn.Module):
    def __init__(self, query, key):
        super().__init__()
        self.query, self.key = query, key
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.data.copy_(q.data)
            k.requires_grad = False

def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for batch in loader:
            model.query(batch.cuda()).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        for q, k in zip(model.query.parameters(), model.key.parameters()):
            k.data.mul_(0.9).add_(q.data, alpha=0.1)
""",
        ),
        Valid(
            "all parameters at once",
            """\
import torch

@torch.no_grad()
def update_ema(ema_params, params, decay):
    torch._foreach_mul_(ema_params, decay)
    torch._foreach_add_(ema_params, params, alpha=1 - decay)

def train(model, ema, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        update_ema(list(ema.parameters()), list(model.parameters()), 0.999)
""",
        ),
    )


def _is_over_dict(event: Looped) -> bool:
    """Say whether the loop goes over parameters by name: `dict(model.named_parameters()).items()`, a state_dict."""
    over = event.node.iter if isinstance(event.node, ast.For) else None
    if over is None or "state_dict()" in ast.unparse(over):
        return over is not None
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute) or over.func.attr != "items":
        return False
    root, function = _root(over), function_around(event.source, event.node)
    return function is not None and any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == root
        and "named_parameters()" in ast.unparse(node.value)
        for node in below(function)
    )


def _names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _calls(loop: ast.For) -> set[str]:
    called = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return {function.attr for function in called if isinstance(function, ast.Attribute)}


def _operations(loop: ast.For) -> set[str]:
    """Return what the loop's body does to the things that it goes over, or to their like in a dict: "add_", "-="."""
    names, found = _names(loop.target), set()
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and type(node.op) in _SIGNS and _root(node.target) in names:
            found.add(f"{_SIGNS[type(node.op)]}=")
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _names(node.targets[0]) & names:
            kept = isinstance(node.targets[0], ast.Subscript | ast.Attribute)
            attributes = {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute)}
            if kept and type(node.value.op) in _SIGNS and _names(node.value) & names and not attributes & _ON_HOST:
                found.add(_SIGNS[type(node.value.op)])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = {node.func.attr} & (_ARITHMETIC | _FILLS)
            found |= method if _names(node.func.value) & names else set()
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
