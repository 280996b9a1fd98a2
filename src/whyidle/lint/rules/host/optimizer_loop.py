from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import function_around
from whyidle.lint.events import Called, Event, Looped
from whyidle.lint.job import Job
from whyidle.lint.often import each_step, rhythm
from whyidle.lint.repair import Repair, SetArguments

_ARITHMETIC = {"add_", "sub_", "mul_", "div_", "lerp_", "addcmul_", "addcdiv_", "clamp_", "clip_"}
_FILLS = {"copy_", "zero_", "fill_", "sign_", "sqrt_", "pow_"}
_OWN_RULES = {"all_reduce", "broadcast", "reduce", "all_gather", "norm", "item"}  # what other rules speak of
_LOOPED_ONLY = {"LBFGS", "SparseAdam"}  # these have no other way to do it

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_FOREACH = """\
ema_params, params = list(ema.parameters()), list(model.parameters())  # once
with torch.no_grad():
    torch._foreach_mul_(ema_params, decay)
    torch._foreach_add_(ema_params, params, alpha=1 - decay)
# an average of weights: torch.optim.swa_utils.AveragedModel; an update: an optimizer of torch.optim"""


class OptimizerLoop(Check):
    """Parameters are updated one after the other, some launches for each, instead of many at once.

    ## Why it costs time
    A model has hundreds of parameters, and each operation on one of them is a launch of 5 to 10 us on the host for a
    kernel of one or two. `foreach` does an operation on all parameters in a few launches, `fused` the whole update.

    ## How we know
    `foreach=False` is given to an optimizer of `torch.optim`, or `fused=False`, which switches `foreach` off as well
    unless that is asked for. Or a loop over `parameters()` that runs in each step does arithmetic in place on them:
    an optimizer or an average of weights (EMA) written by hand. How many parameters there are we do not see.

    ## When to ignore it
    Large layers on one GPU, where each of these kernels runs longer than its launch takes; or `foreach` needs too much
    memory: a copy of the parameters, for a moment.
    """

    cost = "launch"
    sees = (Called, Looped)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        if isinstance(event, Called) and event.name.startswith("torch.optim."):
            yield from self._built(event, job)
        if isinstance(event, Looped) and isinstance(event.node, ast.For) and event.where.often:
            yield from self._loop(event, event.node)

    def _built(self, event: Called, job: Job) -> Iterator[Hit]:
        name = event.name.rpartition(".")[2]
        foreach, fused = (event.keywords.get(option) for option in ("foreach", "fused"))
        given = [
            option
            for option, value in (("foreach", foreach), ("fused", fused))
            if value is not None and value.known and value.constant is False
        ]
        other = fused if given == ["foreach"] else foreach if given == ["fused"] else None
        if not given or not name[:1].isupper() or name in _LOOPED_ONLY or not job.trains or not event.where.often:
            return
        if other is not None and (not other.known or other.constant is True):
            return
        also = " (and with it `foreach` is off, too)" if given == ["fused"] else ""
        yield Hit(
            event.node,
            f"`{given[0]}=False`{also} makes `{name}` update one parameter after the other, with several launches for "
            "each, in every optimizer step.",
            "medium" if event.where.guard == "" else "low",
            0.7,
            event.source,
            title=f"let {name} update many parameters at once",
            change=f"torch.optim.{name}(..., fused=True)  # or without {' and '.join(given)}: foreach is the default",
            effort="argument",
            risk="foreach needs memory for a copy of the parameters, for a moment; fused needs none",
            repair=Repair(
                (SetArguments(event.node, {}, drop=tuple(given)),),
                safe=False,
                note="needs more memory for a moment; last digits may differ",
            ),
        )

    def _loop(self, event: Looped, loop: ast.For) -> Iterator[Hit]:
        where = event.where
        if where.phase not in {"step", "maybe"} or not (
            event.parameters or ast.unparse(loop.iter).endswith(".items()")
        ):
            return
        what = _operations(loop, _names(loop.target))
        if (
            not what
            or not (event.parameters or _is_over_dict(event))
            or where.guard == "data"
            or _calls(loop) & _OWN_RULES
        ):
            return
        if where.phase == "maybe":
            function = where.function.rpartition(".")[2]
            if (
                not where.often
                or not what & _ARITHMETIC
                or function.startswith(("__", "_init", "init", "load", "reset"))
            ):
                return
        elif not each_step(where) or where.work != "train":
            return
        listed = ", ".join(f"`{operation}`" for operation in sorted(what))
        yield Hit(
            loop,
            f"A Python loop does {listed} on one parameter after the other {rhythm(event)}: some launches for each.",
            "low",
            0.5 if where.phase == "maybe" else 0.7,
            event.source,
            title="do it for all parameters at once",
            change=_FOREACH,
            risk="the lists have to be of one device and in the same order",
        )

    cases = (
        Invalid(
            "foreach off, and fused off, which does the same",
            """\
import torch

def train(model, loader, args):
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, foreach=False)  # !
    head = torch.optim.SGD(model.head.parameters(), lr=0.1, fused=False)  # !
    for batch in loader:
        model(batch.cuda(non_blocking=True)).mean().backward()
        optimizer.step()
        head.step()
        optimizer.zero_grad()
        head.zero_grad()
""",
        ),
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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=True)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        update_ema(list(ema.parameters()), list(model.parameters()), 0.999)
""",
        ),
    )


def _is_over_dict(event: Looped) -> bool:
    """Say whether the loop goes over a dict of parameters by name: `dict(model.named_parameters()).items()`."""
    loop, function = event.node, function_around(event.source, event.node)
    if not isinstance(loop, ast.For) or function is None or not isinstance(loop.iter, ast.Call):
        return False
    root = _root(loop.iter)
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == root
        and "named_parameters()" in ast.unparse(node.value)
        for node in ast.walk(function)
    )


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _calls(loop: ast.For) -> set[str]:
    called = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return {function.attr for function in called if isinstance(function, ast.Attribute)}


def _operations(loop: ast.For, names: set[str]) -> set[str]:
    """Return what the loop's body does in place to the things that it goes over, or to their like in a dict."""
    found: set[str] = set()
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Subscript):
            if isinstance(node.target, ast.Attribute) and _root(node.target) in names:
                found.add(ast.unparse(node.target).partition(".")[2] + " " + _SIGNS.get(type(node.op), "?") + "=")
            elif isinstance(node.target, ast.Name) and node.target.id in names:
                found.add(_SIGNS.get(type(node.op), "?") + "=")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _ARITHMETIC | _FILLS
            and _names(node.func.value) & names
        ):
            found.add(node.func.attr)
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
