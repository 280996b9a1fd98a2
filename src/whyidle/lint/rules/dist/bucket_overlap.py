from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around, function_of
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.reached import Bindings, bindings
from whyidle.lint.source import Source

# What gives gradients as they are, only packed or scaled: a norm of them is another thing, and small.
PACKS = {
    "cat", "concat", "concatenate", "hstack", "stack", "flatten", "ravel", "view", "reshape", "contiguous", "detach",
    "clone", "to", "float", "half", "bfloat16", "div", "div_", "mul", "mul_", "list", "tuple", "_flatten_dense_tensors",
    "parameters_to_vector",
}  # fmt: skip
SLICES = ("tensor", "sequence", "expert", "pipeline", "context", "mpu", "tp_", "model_parallel")  # of one model
HOOKS = ("register_hook", "register_post_accumulate_grad_hook", "register_comm_hook", "register_full_backward_hook")


class BucketOverlap(Check):
    """Gradients are summed over ranks by hand, once the whole backward pass is over.

    ## Why it costs time
    DistributedDataParallel starts to exchange a bucket of gradients as soon as its last one is there, while the
    backward pass still computes the rest. An `all_reduce` after `backward()` overlaps with nothing: its whole length is
    added to each step, and one call per parameter adds a start-up time for each.

    ## How we know
    What is given to `all_reduce` are gradients (`p.grad`, or a concatenation of these), in a training step, outside of
    hooks of the backward pass, and the call waits for its end. How long it takes cannot be seen in the source.

    ## When to ignore it
    One GPU, or a model so small that the exchange takes no time worth naming; a custom scheme that DDP cannot express.
    """

    cost = "network"
    sees = (Called,)
    calls = frozenset({"all_reduce"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Called)
        if event.name != "torch.distributed.all_reduce" or not event.node.args or job.gpu == "no":
            return
        where = event.where
        # It is as frequent as the update that needs it, so that counters before both do not make it rare.
        in_step = where.phase == "step" and where.work == "train"
        if where.guard == "error" or not (in_step or where.phase == "maybe") or "async_op" in event.keywords:
            return
        words = {word.arg: ast.unparse(word.value).lower() for word in event.node.keywords}
        if any(word in words.get("group", "") for word in SLICES):
            return
        path = around(event.source, event.node)
        if not path or _is_hook(event.source, function_of(path)):
            return
        if _are_gradients(event.node.args[0], bindings(function_of(path))):
            yield self._hit(event, in_step, one_by_one=isinstance(event.node.args[0], ast.Attribute))

    def _hit(self, event: Called, in_step: bool, one_by_one: bool) -> Hit:
        how = "one parameter after the other, " if one_by_one else ""
        return Hit(
            node=event.node,
            message=f"Gradients are summed over ranks {how}after the whole backward pass: on several GPUs nothing "
            "overlaps with it.",
            severity="medium" if in_step else "low",
            confidence=0.9 if in_step else 0.7,
            title="let DistributedDataParallel exchange gradients during the backward pass",
            change="model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])\n"
            f"# and no {ast.unparse(event.node)} after loss.backward()",
            risk="DDP takes the mean over ranks, and wants every parameter to get a gradient in each backward pass",
        )

    cases = (
        Invalid(
            "one flat exchange",
            """
import torch

def training_loop(net, loader, opt, num_gpus, device):
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(net(x.to(device)), y.to(device))
        loss.backward()
        params = [p for p in net.parameters() if p.grad is not None]
        flat = torch.cat([param.grad.flatten() for param in params])
        if num_gpus > 1:
            torch.distributed.all_reduce(flat)  # !
            flat /= num_gpus
        for param, grad in zip(params, flat.split([p.numel() for p in params])):
            param.grad = grad.reshape(param.shape)
        opt.step()
""",
        ),
        Invalid(
            "the tutorial's function",
            """
import torch
import torch.distributed as dist

def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)  # !
        param.grad.data /= size

def run(rank, train_set):
    model = Net().cuda(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(10):
        for data, target in train_set:
            optimizer.zero_grad()
            loss = torch.nn.functional.nll_loss(model(data.cuda(rank)), target.cuda(rank))
            loss.backward()
            average_gradients(model)
            optimizer.step()
""",
        ),
        Valid(
            "metrics",
            """
import torch
import torch.distributed as dist

def train(model, loader, opt):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() ** 2
        dist.all_reduce(norm)
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
        opt.step()
""",
        ),
        Valid(
            "from a hook, during the backward pass",
            """
import torch
import torch.distributed as dist

def sum_up(param):
    dist.all_reduce(param.grad)

def train(model, loader, opt):
    for param in model.parameters():
        param.register_post_accumulate_grad_hook(sum_up)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "started for all and waited for at the end",
            """
import torch
import torch.distributed as dist

def train(model, loader, opt):
    for x, y in loader:
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        for work in works:
            work.wait()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "parts of one model",
            """
import torch
import torch.distributed as dist

def train(model, loader, opt, tensor_parallel_group):
    for x, y in loader:
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        for p in model.norm_parameters():
            dist.all_reduce(p.grad, group=tensor_parallel_group)
        opt.step()
        opt.zero_grad()
""",
        ),
    )


def _is_hook(source: Source, function: ast.AST) -> bool:
    """Say whether a function is one that the backward pass calls."""
    name = getattr(function, "name", "")
    if not name:
        return isinstance(function, ast.Lambda)
    return any(f"{register}({prefix}{name}" in source.text for register in HOOKS for prefix in ("", "self."))


def _are_gradients(node: ast.expr, names: Bindings, seen: frozenset[str] = frozenset()) -> bool:
    """Say whether an expression is made of gradients, whole ones."""

    def are(other: ast.expr) -> bool:
        return _are_gradients(other, names, seen)

    match node:
        case ast.Attribute(attr="grad"):
            return True
        case ast.Attribute(attr="data", value=inner) | ast.Subscript(value=inner) | ast.BinOp(left=inner):
            return are(inner)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return any(are(part) for part in parts)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return are(element)
        case ast.Name(id=name) if name not in seen:
            return any(_are_gradients(value, names, seen | {name}) for value in names.get(name, ()))
        case ast.Call(func=ast.Attribute(value=owner, attr=called), args=parts) if called in PACKS:
            return are(owner) or any(are(part) for part in parts)
        case ast.Call(func=ast.Name(id=called), args=parts) if called in PACKS:
            return any(are(part) for part in parts)
    return False
