"""The code that a DataLoader runs to make a batch, in its workers where it has some: `collate_fn`, `__getitem__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.nodes import every
from whyidle.lint.source import Source

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Objects that hold settings by convention; `x.device` of any other is the place of a tensor that is there already.
SETTINGS = frozenset({"self", "cls", "args", "opt", "cfg", "config", "hparams", "params"})
MAKERS = frozenset({
    "tensor", "as_tensor", "zeros", "ones", "full", "empty", "arange", "rand", "randn", "randint", "eye",
})  # fmt: skip
DEEPEST = 4  # functions that are made of others
ACCELERATORS = ("cuda", "xpu", "hpu", "npu")


def worker_code(use: LoaderUse, job: Job) -> Iterator[tuple[Function, Source]]:
    """Yield the functions of the project that make a loader's batches, with the files that they stand in."""
    source = use.call.source
    for body in collate_functions(use):
        yield body, source
    dataset = use.arguments.get("dataset")
    made_by = dataset.name.rpartition(".")[2] if dataset is not None else ""
    for file in {source, job.source}:
        for kind in classes(file, made_by):
            for name in ("__getitem__", "__getitems__", "__iter__"):
                yield from ((method, file) for method in methods(kind, name))


def collate_functions(use: LoaderUse) -> Iterator[Function]:
    """Yield what `collate_fn` is, where it stands in the file that builds the loader."""
    code = next((keyword.value for keyword in use.call.node.keywords if keyword.arg == "collate_fn"), None)
    yield from _functions(code, use.call.source)


def _functions(code: ast.expr | None, source: Source, depth: int = 0) -> Iterator[Function]:
    if depth > DEEPEST:  # `collate = partial(collate, ...)`
        return
    if isinstance(code, ast.Lambda):
        yield code
    elif isinstance(code, ast.Call):
        called = code.func.attr if isinstance(code.func, ast.Attribute) else getattr(code.func, "id", "")
        if called == "partial" and code.args:
            yield from _functions(code.args[0], source, depth + 1)
        for kind in classes(source, called):
            yield from methods(kind, "__call__")
    elif isinstance(code, ast.Name | ast.Attribute):
        name = code.id if isinstance(code, ast.Name) else code.attr
        yield from (node for node in every(source, ast.FunctionDef) if node.name == name)
        for node in every(source, ast.Assign):
            if any(getattr(target, "id", "") == name for target in node.targets):
                value = node.value if isinstance(node.value, ast.Lambda | ast.Call) else None
                yield from _functions(value, source, depth + 1)


def classes(source: Source, name: str) -> Iterator[ast.ClassDef]:
    """Yield the classes of this name that a file defines."""
    yield from (node for node in every(source, ast.ClassDef) if name and node.name == name)


def methods(kind: ast.ClassDef, name: str) -> Iterator[ast.FunctionDef]:
    """Yield the methods of this name that a class defines itself."""
    yield from (node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == name)


def moves_to_device(call: ast.Call) -> bool:
    """Say whether a call puts something on the GPU, by its words alone: `.cuda()`, `.to(device)`, `device="cuda"`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    device = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    if name == "cuda":
        return not isinstance(call.func, ast.Attribute) or getattr(call.func.value, "id", "") != "torch"
    if name == "to":
        return _is_accelerator(device or (call.args[0] if call.args else None))
    return name in MAKERS and _is_accelerator(device)


def _is_accelerator(device: ast.expr | None) -> bool:
    if isinstance(device, ast.Constant):
        return isinstance(device.value, str) and device.value.startswith(ACCELERATORS)
    if isinstance(device, ast.Attribute):
        return device.attr.endswith("device") and getattr(device.value, "id", "") in SETTINGS
    return isinstance(device, ast.Name) and device.id.lower().endswith("device")
