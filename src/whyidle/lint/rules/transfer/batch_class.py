"""Finds batches of a class of one's own, which `pin_memory=True` leaves in pageable memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.rules.input.loaders import setting
from whyidle.lint.rules.input.worker_code import classes, collate_functions, methods


class BatchClass(Check):
    """`collate_fn` returns an object of one's own class without a `pin_memory` method: `pin_memory=True` has no effect.

    ## Why it costs time
    PyTorch pins tensors, and those in dicts, lists and tuples. Of another object it calls `pin_memory()`, and passes it
    on as it is where there is none. The copy to the GPU then starts from ordinary memory: it is slower, and the CPU
    waits for it, with `non_blocking=True` as well.

    ## How we know
    The loader has `pin_memory=True`, and its `collate_fn` returns an object of a class of this file that has no
    `pin_memory` method and is based on nothing.

    ## When to ignore it
    The object holds no tensors that go to the GPU.
    """

    rule = "transfer.pageable_h2d"
    cost = "copy"

    def end(self, job: Job) -> Iterator[Hit]:
        seen: set[ast.AST] = set()
        for use in job.loaders:
            pinned = setting(use, job, "pin_memory", False)
            if job.gpu == "no" or pinned is None or pinned.value is not True:
                continue
            for kind in self._returned(use):
                if kind in seen or not self._unpinned(kind):
                    continue
                seen.add(kind)
                yield Hit(
                    kind,
                    f"`pin_memory=True` does not reach the tensors in a `{kind.name}`, which has no `pin_memory` "
                    "method: the CPU waits for each copy of a batch to the GPU.",
                    "low",
                    0.7,
                    source=use.call.source,
                    also=(use.call.node,),
                    title="say how a batch is pinned",
                    change=_method(kind),
                    risk="pinned memory cannot be swapped",
                )

    @staticmethod
    def _returned(use: LoaderUse) -> Iterator[ast.ClassDef]:
        """Yield the classes of which the loader's `collate_fn` returns objects, or that it is itself."""
        source = use.call.source
        code = next((keyword.value for keyword in use.call.node.keywords if keyword.arg == "collate_fn"), None)
        if isinstance(code, ast.Name):
            yield from classes(source, code.id)
        for body in collate_functions(use):
            if isinstance(body, ast.Lambda):
                returned = [body.body]
            else:
                returned = [node.value for node in ast.walk(body) if isinstance(node, ast.Return) and node.value]
            for value in returned:
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                    yield from classes(source, value.func.id)

    @staticmethod
    def _unpinned(kind: ast.ClassDef) -> bool:
        based = any(not (isinstance(base, ast.Name) and base.id == "object") for base in kind.bases)
        collates = any(True for _ in methods(kind, "__call__"))
        return not based and not collates and not any(True for _ in methods(kind, "pin_memory"))

    cases = (
        Invalid(
            "a dataclass",
            """\
from dataclasses import dataclass
import torch
from torch.utils.data import DataLoader

@dataclass
class Batch:  # !
    ids: torch.Tensor
    labels: torch.Tensor

def collate(rows):
    ids = torch.stack([row[0] for row in rows])
    return Batch(ids, torch.tensor([row[1] for row in rows]))

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=collate, pin_memory=True)
    for batch in loader:
        ids = batch.ids.cuda(non_blocking=True)
        loss = model(ids, labels=batch.labels.cuda(non_blocking=True)).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "the class is the collate function",
            """\
import torch
from torch.utils.data import DataLoader

class PairBatch:  # !
    def __init__(self, rows):
        left, right = zip(*rows)
        self.left = torch.stack(left)
        self.right = torch.stack(right)

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=PairBatch, pin_memory=True)
    for batch in loader:
        loss = model(batch.left.cuda(non_blocking=True), batch.right.cuda(non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "it says how it is pinned",
            """\
import torch
from torch.utils.data import DataLoader

class PairBatch:
    def __init__(self, rows):
        left, right = zip(*rows)
        self.left = torch.stack(left)
        self.right = torch.stack(right)

    def pin_memory(self):
        self.left = self.left.pin_memory()
        self.right = self.right.pin_memory()
        return self

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=PairBatch, pin_memory=True)
    for batch in loader:
        loss = model(batch.left.cuda(non_blocking=True), batch.right.cuda(non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a named tuple is a tuple",
            """\
from typing import NamedTuple
import torch
from torch.utils.data import DataLoader

class Batch(NamedTuple):
    ids: torch.Tensor
    labels: torch.Tensor

def collate(rows):
    return Batch(torch.stack([row[0] for row in rows]), torch.tensor([row[1] for row in rows]))

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=collate, pin_memory=True)
    for batch in loader:
        loss = model(batch.ids.cuda(non_blocking=True), labels=batch.labels.cuda(non_blocking=True)).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a class that collates into a dict",
            """\
import torch
from torch.utils.data import DataLoader

class Collator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, rows):
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.pad)
        return dict(ids=ids, mask=ids != self.pad)

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=Collator(0), pin_memory=True)
    for batch in loader:
        loss = model(batch["ids"].cuda(non_blocking=True), batch["mask"].cuda(non_blocking=True)).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
    )


def _method(kind: ast.ClassDef) -> str:
    """Return a `pin_memory` method for the attributes that a class is seen to have."""
    declared = (line.target for line in kind.body if isinstance(line, ast.AnnAssign))
    fields = [target.id for target in declared if isinstance(target, ast.Name)]
    fields += [
        node.attr
        for body in methods(kind, "__init__")
        for node in ast.walk(body)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    ]
    lines = [f"    self.{name} = self.{name}.pin_memory()" for name in dict.fromkeys(fields)] or ["    ..."]
    return "\n".join(["def pin_memory(self):", *lines, "    return self"])
