from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, SetArguments

_ONE_BY_ONE = {"LBFGS", "SparseAdam"}  # these have no other way to do it
_CLIPS = {"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"}


class ForeachOff(Check):
    """An optimizer, or the clipping of gradients, is told to go through parameters one by one.

    ## Why it costs time
    A model has hundreds of parameters, and each operation on one of them is a launch of 5 to 10 us on the host for a
    kernel of one or two. `foreach`, the default on a GPU, does an operation on all parameters in a few launches;
    `fused` does the whole update in one or two.

    ## How we know
    `foreach=False` is given, or `fused=False`, which switches `foreach` off as well unless that is asked for. How many
    parameters there are we do not see.

    ## When to ignore it
    Few large layers, whose kernels run longer than their launches take; or `foreach` needs too much memory: a copy of
    the parameters, for a moment. Then `fused=True`, which needs none.
    """

    rule = "host.optimizer_loop"
    cost = "launch"
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or not event.name.startswith("torch.") or not event.where.often:
            return
        is_clip, name = event.name in _CLIPS, event.name.rpartition(".")[2]
        is_optimizer = event.name.startswith("torch.optim.") and name[:1].isupper() and name not in _ONE_BY_ONE
        off = tuple(option for option in ("foreach", "fused") if _is(event, option, False))
        if not off or not (is_optimizer or (is_clip and event.where.reachable)) or job.gpu == "no" or not job.trains:
            return
        if any(option not in off and option in event.keywords for option in ("foreach", "fused")):
            return  # the other one is asked for, or may be
        also = " (and with it `foreach` is off, too)" if off == ("fused",) else ""
        yield Hit(
            event.node,
            f"`{off[0]}=False`{also} makes `{name}` go through parameters one by one, with several launches for each, "
            "in every optimizer step.",
            "medium" if is_optimizer and event.where.guard == "" else "low",
            0.7,
            event.source,
            title=f"let {name} do all parameters at once",
            change=f"{name}(..., fused=True)  # or without {' and '.join(off)}: foreach is the default on a GPU"
            if is_optimizer
            else f"{ast.unparse(event.node.func)}(...)  # without foreach: it is the default on a GPU",
            effort="argument",
            risk="foreach needs memory for a copy of the parameters, for a moment",
            repair=Repair(
                (SetArguments(event.node, {}, drop=off),),
                safe=False,
                note="needs more memory for a moment; last digits may differ",
            ),
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
            "when gradients are clipped",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for batch in loader:
        model(batch.cuda(non_blocking=True)).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0, foreach=False)  # !
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "fused instead, or as an option wants it",
            """\
import torch

def train(model, loader, args):
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=True)
    other = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=args.fused, foreach=not args.fused)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        other.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "the default",
            """\
import torch

def train(model, loader):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "on the CPU",
            """\
import torch

device = torch.device("cpu")

def train(model, loader):
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for batch in loader:
        model(batch.to(device)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is(event: Called, option: str, constant: object) -> bool:
    """Say whether an argument is given, and is known to be this."""
    value = event.keywords.get(option)
    return value is not None and value.known and value.constant is constant
