"""Operations whose result has a size that only the GPU knows, or whose answer the CPU checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event, Indexed
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import nearby
from whyidle.lint.rules.sync.drain import POSSIBLE, Fix, certainty, drains, quoted
from whyidle.lint.rules.sync.parameters import over_parameters
from whyidle.lint.values import Value

_MASKED = Fix(
    "keep the shape and mask the values",
    "loss = torch.where(mask, per_item, 0).sum() / mask.sum().clamp(min=1)  # instead of per_item[mask].mean()\n"
    "x = torch.where(mask, value, x)  # instead of x[mask] = tensor",
    risk="computes masked items as well; keep non-finite ones out before the operation, for gradients",
)
_EARLIER = Fix(
    "do it in the dataset, where workers do it ahead of time",
    "def __getitem__(self, index):\n    ...\n    return x, *torch.unique(y, return_inverse=True)",
)
# The size of the result, or the answer itself, has to come to the CPU first. Documented for each in torch's pages
# ("causes host-device synchronization"), or, for unique, bincount, equal and allclose, visible in their CUDA code.
_SIZED: dict[str, Fix] = {
    "nonzero": _MASKED,
    "argwhere": _MASKED,
    "masked_select": _MASKED,
    "unique": _EARLIER,
    "unique_consecutive": _EARLIER,
    "bincount": Fix(
        "count into a tensor of known size",
        "counts = torch.zeros(classes, device=labels.device).scatter_add_(0, labels, torch.ones_like(labels).float())",
    ),
    "equal": Fix("compare on the GPU", "same = (a == b).all()  # a tensor: no wait until it is read"),
    "allclose": Fix("compare on the GPU", "near = torch.isclose(a, b).all()  # a tensor: no wait until it is read"),
}
# torch.linalg: "When inputs are on a CUDA device, this function synchronizes that device with the CPU."
_CHECKED = frozenset(
    [
        "cholesky",
        "cond",
        "eig",
        "eigh",
        "eigvals",
        "eigvalsh",
        "inv",
        "ldl_factor",
        "lu_factor",
        "matrix_rank",
        "pinv",
        "solve",
        "svd",
        "svdvals",
    ]
)
_WITHOUT_CHECK = frozenset(["cholesky", "inv", "ldl_factor", "lu_factor", "solve"])
# What people call masks; integers that choose rows are called index, idx, order.
_MASK = re.compile(
    r"^(?!\w*_(idx|idxs|index|indexes|indices|inds|order|ids|pos|positions)$)\w*?(^|_)(mask|masks|keep|valid|invalid|ok|nonpad)(_|$)",
    re.IGNORECASE,
)

_ITEMS = re.compile(r"loss|logit|logp|pred|output|scores?\b", re.IGNORECASE)  # what a step works out


class DataDependent(Check):
    """The size of a result depends on data on the GPU: `x[mask]`, `nonzero`, `unique`, `masked_select` and others.

    ## Why it costs time
    The result cannot be allocated before the GPU has counted. The CPU waits for that number, the queue
    empties, and the GPU waits for the launches that follow. `torch.equal`, `torch.allclose` and many
    functions of `torch.linalg` read an answer back as well.

    ## How we know
    The operation is known to wait, the tensor is on the accelerator as far as the source tells, and the
    line runs in every step, or in a function that a step may call (low). `x[mask]` counts where the mask
    is known to hold truth values, and with little confidence where only its name says so.
    `x[mask] = 0` is a masked fill and does not wait.

    ## When to ignore it
    The dense form would compute far more: a mask that keeps 1% of a large tensor may be worth a wait.
    """

    cost = "drain"
    sees = (Called, Indexed)
    calls = frozenset({*_SIZED, *_CHECKED, "inverse", "where", "repeat_interleave"})

    def __init__(self) -> None:
        self._lines = nearby.Lines()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        found = _indexed(event, job) if isinstance(event, Indexed) else _called(event, job)
        if found is None or over_parameters(event, job):
            return
        does, fix, sure = found
        likely_mask = isinstance(event, Indexed) and sure <= POSSIBLE
        for hit in drains(event, job, does, fix, sure=sure, minor=likely_mask):
            if self._lines.claims(event):
                yield hit

    cases = (
        Invalid(
            "padding is taken out before the loss",
            """\
import torch
from torch.nn import functional as F

def train(model, loader, optimizer):
    model.cuda()
    for tokens, labels in loader:
        tokens = tokens.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        logits = model(tokens)
        keep = labels != -100
        loss = F.cross_entropy(logits[keep], labels[keep])  # !
        rare = torch.nonzero(labels == 7)  # !
        loss = loss + logits[torch.where(labels == 3)].mean() + 0 * rare.sum()  # !
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "masked updates of a decoder's logits, in a function that each token calls",
            """\
import torch

def penalize(logits, seen, penalty):
    raw = torch.gather(logits, 1, seen)
    high = raw > 0
    raw[high] /= penalty[high]  # !
    classes = torch.unique(seen)  # !
    return logits.scatter(1, seen, raw), classes

@torch.inference_mode()
def decode(model, ids, penalty, steps):
    model = model.to("cuda")
    ids, penalty = ids.to("cuda"), penalty.to("cuda")
    for _ in range(steps):
        logits, _ = penalize(model(ids)[:, -1], ids, penalty)
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
    return ids
""",
        ),
        Valid(
            "a masked fill, torch.where with three arguments, rows chosen by number",
            """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        mask = y == 0
        x[mask] = 0.0
        x = torch.where(mask[:, None], x * 2, x).masked_fill(mask[:, None], 1.0)
        rows = torch.randperm(x.size(0), device="cuda")
        out = model(x[rows])
        twice = out.repeat_interleave(2, dim=0)
        loss = torch.nn.functional.cross_entropy(twice[: len(y)], y, ignore_index=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "in the dataset, where workers do it ahead of time",
            """\
import torch
from torch.utils.data import Dataset

class Boxes(Dataset):
    def __init__(self, boxes):
        self.boxes = boxes

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, index):
        boxes = torch.tensor(self.boxes[index])
        boxes = boxes[boxes[:, 2] > boxes[:, 0]]
        return boxes, torch.unique(boxes[:, 4])
""",
        ),
        Valid(
            "numpy's functions of the same names, and a list of lengths on the CPU",
            """\
import numpy as np
import torch

def train(model, loader, optimizer, weights):
    model.cuda()
    for x, y in loader:
        present = np.unique(y.numpy())
        counts = np.bincount(y.numpy(), minlength=10)
        x = x[y >= 0].cuda(non_blocking=True)
        loss = model(x).mean() * float(counts.sum()) * len(present)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _called(event: Event, job: Job) -> tuple[str, Fix, float] | None:
    if not isinstance(event, Called):
        return None
    operand = event.receiver if event.name.startswith(".") else event.argument(0, "input")
    name = event.name.removeprefix("torch.linalg.").removeprefix("torch.").removeprefix(".")
    if operand is None or not operand.has_device_tensor or "." in name:
        return None
    sure = certainty(operand, job)
    call = quoted(event.node)
    if event.name.startswith("torch.linalg.") or event.name == "torch.inverse":
        return (
            (f"{call} checks its result on the CPU", _unchecked(name), sure) if name in _CHECKED | {"inverse"} else None
        )
    if name in _SIZED:
        answers = name in {"equal", "allclose"}
        does = f"{call} reads its answer back from the GPU" if answers else f"{call} has a size that the CPU waits for"
        return does, _SIZED[name], sure
    if name == "where" and not event.name.startswith(".") and len(event.args) == 1 and not event.keywords:
        return f"{call} has a size that the CPU waits for", _MASKED, sure
    if name == "repeat_interleave" and "output_size" not in event.keywords and _counted(event):
        change = f"{ast.unparse(event.node)[:-1]}, output_size=total)  # total known on the CPU"
        return f"{call} has a size that the CPU waits for", Fix("say how large the result will be", change), sure
    return None


def _counted(event: Called) -> bool:
    """Say whether `repeat_interleave` repeats by a tensor of counts."""
    repeats = event.argument(0 if event.name.startswith(".") else 1, "repeats")
    if repeats is None:  # torch.repeat_interleave(counts)
        return not event.name.startswith(".")
    return repeats.has_device_tensor


def _unchecked(name: str) -> Fix:
    if name in _WITHOUT_CHECK | {"inverse"}:
        plain = "inv" if name == "inverse" else name
        return Fix("use the form that does not check", f"torch.linalg.{plain}_ex(a)  # and look at info now and then")
    return Fix("do it every few steps, or on the CPU beside the step", "if step % 100 == 0:\n    ...")


def _indexed(event: Indexed, job: Job) -> tuple[str, Fix, float] | None:
    if not event.value.has_device_tensor:
        return None
    if event.stored and not (event.stores is not None and event.stores.kind == "tensor"):
        return None  # a number fills by mask and does not wait; of what is unknown we say nothing
    sure = certainty(event.value, job)
    if not any(one.boolean for one in event.index.holds()):
        if not _named_mask(event.node.slice, event.index):
            return None
        if event.where.phase == "maybe" and not _ITEMS.search(ast.unparse(event.node.value)):
            return None
        sure = min(sure, POSSIBLE)
    verb = "stores as many values as the mask has True" if event.stored else "keeps as many values as the mask has True"
    return f"{quoted(event.node)} {verb}, which the CPU has to know", _MASKED, sure


def _named_mask(index: ast.expr, value: Value) -> bool:
    """Say whether an index of unknown kind is called a mask."""
    if value.kind not in {"unknown", "tensor"}:
        return False
    if isinstance(index, ast.Subscript):
        index = index.slice if isinstance(index.slice, ast.Constant) else index.value
    if isinstance(index, ast.Constant):
        return isinstance(index.value, str) and bool(_MASK.search(index.value))
    name = index.attr if isinstance(index, ast.Attribute) else getattr(index, "id", "")
    return bool(_MASK.search(name))
