"""Which calls copy a tensor from the host to the accelerator, and from what kind of memory."""

from __future__ import annotations

import ast
import re
from typing import TypeAlias

from whyidle.lint.enclosing import loop_around
from whyidle.lint.events import Called
from whyidle.lint.job import Job

Line: TypeAlias = tuple[str, int]
BATCH = re.compile(r"(^|_)(mini_?batch|batch|inputs?|labels?|targets?|images?|imgs?|tokens|samples?)(_|$)")
METHODS = (".to", ".cuda", ".xpu", ".npu", ".hpu")
ACCELERATORS = ("cuda", "xpu", "npu", "hpu")
# These move batches themselves, as their loaders are told to: a `.to()` of the user's then does nothing.
MOVING = frozenset({"accelerate", "lightning"})


def moves(call: Called) -> bool:
    """Say whether a call moves a tensor to the accelerator, if it is not there already."""
    if call.name not in METHODS or (call.receiver is not None and call.receiver.kind in {"module", "plain", "name"}):
        return False
    if call.name != ".to":
        return True
    return call.result.kind != "module" and reaches_device(call, "device", target(call), position=0)


def reaches_device(call: Called, keyword: str, code: ast.expr | None, position: int = -1) -> bool:
    """Say whether an argument of a call is the accelerator, by its value or, where that is unknown, by its name."""
    device = call.argument(position, keyword)
    if device is None or device.kind == "tensor":
        return False
    if device.known:
        number = isinstance(device.constant, int) and not isinstance(device.constant, bool)
        return number or (isinstance(device.constant, str) and device.constant.startswith(ACCELERATORS))
    if device.kind == "device":
        return device.place != "host"
    return device.kind in {"unknown", "settings", "plain"} and _named_device(code)


def target(call: Called) -> ast.expr | None:
    """Return the device that a call moves to, as written; None for `.cuda()` and for casts."""
    given = next((keyword.value for keyword in call.node.keywords if keyword.arg == "device"), None)
    return given if given is not None else (call.node.args[0] if call.node.args else None)


def _named_device(code: ast.expr | None) -> bool:
    """Say whether an expression of unknown value is a device by its name: `device`, `self.device`, `x.device`."""
    if isinstance(code, ast.Call):  # torch.device(...), get_device()
        code = code.func
    name = code.attr if isinstance(code, ast.Attribute) else code.id if isinstance(code, ast.Name) else ""
    return name.lower().endswith("device")


def to_where_another_is(call: Called) -> bool:
    """Say whether the target is where another tensor is: `x.to(y.device)`, most often a mere precaution."""
    device = target(call)
    if not isinstance(device, ast.Attribute) or device.attr != "device":
        return False
    settings = {"self", "args", "opt", "cfg", "config", "trainer", "accelerator", "fabric"}
    return not (isinstance(device.value, ast.Name) and device.value.id in settings)


def is_asynchronous(call: Called) -> bool:
    """Say whether the host goes on while the copy runs, if the memory is pinned: `non_blocking` is given."""
    given = call.keywords.get("non_blocking") or call.keywords.get("async")
    if given is None and call.name == ".cuda":
        given = call.argument(1, "non_blocking")
    if given is None and call.name == ".to":
        given = next((value for value in call.args[1:] if value.known and value.constant is True), None)
    return given is not None and not (given.known and given.constant is False)


def moved_by_framework(job: Job) -> bool:
    """Say whether a framework moves batches to the accelerator in this job."""
    return bool(job.frameworks & MOVING)


def named_batch(call: Called) -> bool:
    """Say whether what is moved is a batch by what it is called, or by what the loop around it goes over."""
    func = call.node.func
    moved = func.value if isinstance(func, ast.Attribute) else None
    loop = loop_around(call.source, call.node)
    if isinstance(moved, ast.Name) and BATCH.search(moved.id):
        return True
    if not isinstance(moved, ast.Name) or not isinstance(loop, ast.For):
        return False
    target = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    over = {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
    return moved.id in target and any(BATCH.search(name) for name in over)


def line_of(call: Called) -> Line:
    """Return what makes two calls one finding: the line of the statement that both are part of."""
    return call.source.name, call.statement.lineno
