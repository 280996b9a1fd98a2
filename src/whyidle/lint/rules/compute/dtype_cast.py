from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around, function_around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job

_CASTS = {"type_as", "to", "half", "bfloat16", "float", "type"}
_PRODUCTS = {"linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "bmm", "addmm", "einsum", "embedding"}
_QUANTIZED = re.compile(r"int8|int4|uint8|quant|scales", re.IGNORECASE)  # there the cast is what unpacks weights
_DTYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}


class DtypeCast(Check):
    """The weights of a layer, or of a whole model, are cast to another type in every step.

    ## Why it costs time
    Weights change once per step, but this reads and writes all of them in each forward pass: a kernel per
    weight, and memory traffic that grows with the model. Autocast casts a weight once and keeps the result until
    the step is over.

    ## How we know
    A `forward` casts a weight of its own right where it is multiplied. Or the same model is turned to one type and
    back to another in each step. Casts of inputs and of results are needed, and not reported.

    ## When to ignore it
    Weights are few beside tokens: with large batches the cast is lost in the product (about 1% in one public case).
    Then the saving in memory of the optimizer may be worth it.
    """

    cost = "kernel"
    sees = (Called,)
    calls = frozenset(_CASTS)

    def __init__(self) -> None:
        self.turned: dict[str, list[tuple[str, Called]]] = {}

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name.rpartition(".")[2] not in _CASTS or job.gpu == "no":
            return
        if event.receiver is not None and event.receiver.kind == "module" and event.where.hot:
            method = event.name.rpartition(".")[2]
            if method in _DTYPES:
                self.turned.setdefault(event.receiver_text, []).append((_DTYPES[method], event))
        elif event.where.reachable and event.where.guard != "data" and _is_weight(event) and _multiplies(event):
            yield Hit(
                event.node,
                f"`{ast.unparse(event.node)}` casts the layer's weights in every forward pass.",
                "low",
                0.5 if event.where.phase == "maybe" else 0.7,
                event.source,
                title="let autocast cast and keep it, or store the weights in 16 bits",
                change='with torch.autocast("cuda", dtype=torch.bfloat16):  # around the forward pass\n    ...',
                risk="where weights are stored in 16 bits, the optimizer needs a copy in fp32",
            )

    def end(self, job: Job) -> Iterator[Hit]:
        for text, turns in self.turned.items():
            if len({dtype for dtype, _ in turns}) > 1:
                first = turns[0][1]
                yield Hit(
                    first.node,
                    f"`{text}` is turned to {' and '.join(dict.fromkeys(dtype for dtype, _ in turns))} in every "
                    "training step: all weights are read and written each time.",
                    "medium" if first.where.guard == "" else "low",
                    0.7,
                    first.source,
                    also=tuple(call.node for _, call in turns[1:]),
                    title="keep the model in one type",
                    change='with torch.autocast("cuda", dtype=torch.bfloat16):\n    ...',
                    risk="other rounding: compare the learning curve",
                )

    cases = (
        Invalid(
            "a layer that casts its weight where it multiplies",
            """\
import torch
import torch.nn.functional as F

class CastedLinear(torch.nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))  # !

class Mlp(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = CastedLinear(dim, 4 * dim, bias=False), CastedLinear(4 * dim, dim, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)).square())
""",
        ),
        Invalid(
            "by way of a name, and a model that is turned there and back",
            """\
import torch

class Head(torch.nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(vocab, dim))

    def forward(self, x):
        weight = self.weight.type_as(x)  # !
        return x @ weight.t()

def train(model, loader, optimizer):
    model = model.cuda()
    for batch in loader:
        model.half()  # !
        loss = model(batch.cuda().half()).float().mean()
        loss.backward()
        model.float()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "casts of inputs and results",
            """\
import torch

def train(vae, unet, loader, optimizer, weight_dtype):
    for batch in loader:
        pixels = batch["pixels"].to("cuda", dtype=weight_dtype, non_blocking=True)
        latents = vae.encode(pixels).latent_dist.sample()
        loss = torch.nn.functional.mse_loss(unet(latents).float(), latents.float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "the scale of a norm: a vector, in no product",
            """\
import torch

class RMSNorm(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.to(x.dtype) * self.weight.to(x.dtype)
""",
        ),
        Valid(
            "the model once, before the loop; the input to the type of a weight",
            """\
import torch

class Patches(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = torch.nn.Conv2d(3, dim, 16, 16)

    def forward(self, x):
        return self.proj(x.to(self.proj.weight.dtype))

def train(loader, optimizer):
    model = Patches(768).cuda().bfloat16()
    for batch in loader:
        model(batch.cuda()).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_weight(event: Called) -> bool:
    """Say whether what is cast is the layer's weight: `self.weight`, `self.proj.weight`, in its forward."""
    cast = event.node.func
    if not isinstance(cast, ast.Attribute) or not isinstance(cast.value, ast.Attribute):
        return False
    function = function_around(event.source, event.node)
    owner = ast.unparse(cast.value)
    is_weight = owner.startswith("self.") and cast.value.attr.endswith("weight")
    if not is_weight or function is None or not function.name.endswith("forward") or not _is_dtype(event):
        return False
    classes = [part for part in around(event.source, event.node) if isinstance(part, ast.ClassDef)]
    return not any(_QUANTIZED.search(ast.unparse(part)) for part in classes[-1:])


def _is_dtype(event: Called) -> bool:
    """Say whether a cast changes the type, and not only the device: `.to(x.dtype)`, `.to(dtype)`."""
    if event.name in {".float", ".half", ".bfloat16", ".type_as"}:
        return event.name != ".float"  # somebody needs fp32 there
    given = [*event.node.args, *(keyword.value for keyword in event.node.keywords)]
    return any(re.search(r"dtype|float16|half", ast.unparse(argument)) for argument in given)


def _multiplies(event: Called) -> bool:
    """Say whether the cast weight, or the name that it gets, is what a matrix product or convolution takes."""
    taken: tuple[ast.AST, ...] = (event.node,)
    function = function_around(event.source, event.node)
    scope: ast.AST = event.statement
    if isinstance(event.statement, ast.Assign) and isinstance(event.statement.targets[0], ast.Name) and function:
        name = event.statement.targets[0].id
        scope = function
        taken += tuple(node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name)
    return any(_is_product(node, taken) for node in ast.walk(scope))


def _is_product(node: ast.AST, taken: tuple[ast.AST, ...]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2].strip("_") in _PRODUCTS and any(
            argument is one for argument in node.args for one in taken
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return any(one is part for part in ast.walk(node) for one in taken)
    return False
