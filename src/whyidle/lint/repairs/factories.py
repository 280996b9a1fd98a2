"""Tensors that are made on the CPU and then moved, made on the GPU instead."""

from __future__ import annotations

import ast

from whyidle.lint.repair import Repair, Replace

_SAME = {"zeros", "ones", "full", "empty", "eye", "arange"}
_RANDOM = {"rand", "randn", "randint", "randperm"}
# What stands between a factory and the move and gives the same on any device.
_SHAPES = {
    "unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "flatten", "permute", "transpose", "t", "float",
    "long", "int", "bool", "half", "bfloat16", "double", "contiguous",
}  # fmt: skip
_TYPES = {
    "float", "float16", "float32", "float64", "half", "bfloat16", "double", "long", "int", "int8", "int16", "int32",
    "int64", "short", "bool", "uint8",
}  # fmt: skip


def on_device(move: ast.Call, text: str) -> Repair | None:
    """Return the repair of `torch.zeros(n).to(device)`, which becomes `torch.zeros(n, device=device)`.

    Random numbers of the GPU come from another generator than those of the CPU, so that is not safe. A tensor of Python
    data is copied wherever it is made: of a single number, `torch.full` makes one without a copy.

    Args:
        move: the call that moves it.
        text: the file, whose spelling is kept.
    """
    device = _device(move, text)
    if device is None or not isinstance(move.func, ast.Attribute):
        return None
    made = _factory(move.func.value)
    if made is None or any(
        word.arg in {"device", "pin_memory", "out", "generator", "requires_grad"} for word in made.keywords
    ):
        return None
    whole, start = _code(move.func.value, text), _code(made, text)
    if move.lineno != move.end_lineno or not whole.startswith(start):  # comments would be lost, or brackets
        return None
    name = made.func.attr if isinstance(made.func, ast.Attribute) else ""
    if name in {"tensor", "as_tensor"}:
        number = _filled(made, device, text)
        change = Replace(move, f"{number}{whole[len(start) :]}")
        return None if number is None else Repair((change,), safe=True)
    change = Replace(move, f"{start[:-1].rstrip().removesuffix(',')}, device={device}){whole[len(start) :]}")
    if name in _RANDOM:
        return Repair((change,), safe=False, note="random numbers come from the GPU's generator: others than before")
    exact = name != "arange" or _counts(made)
    return Repair((change,), safe=exact, note="" if exact else "numbers with a fraction may differ in their last digit")


def filled(made: ast.Call, text: str) -> Repair | None:
    """Return the repair of `torch.tensor(0.5, device=device)`, which copies a number, for one that does not."""
    device = next((word.value for word in made.keywords if word.arg == "device"), None)
    if device is None or _factory(made) is None:
        return None
    number = _filled(made, _code(device, text), text)
    return None if number is None else Repair((Replace(made, number),), safe=True)


def _code(node: ast.expr, text: str) -> str:
    return ast.get_source_segment(text, node) or ast.unparse(node)


def _filled(made: ast.Call, device: str, text: str) -> str | None:
    """Return what makes a tensor of one number without a copy; None where it holds more, or who knows what."""
    assert isinstance(made.func, ast.Attribute)
    if made.func.attr not in {"tensor", "as_tensor"} or len(made.args) != 1 or not _is_literal(made.args[0]):
        return None
    others = [word for word in made.keywords if word.arg != "device"]
    if any(word.arg not in {"dtype", "requires_grad"} for word in others):
        return None
    words = [f"{word.arg}={_code(word.value, text)}" for word in others]
    arguments = ", ".join(["()", _code(made.args[0], text), *words, f"device={device}"])
    return f"{_code(made.func.value, text)}.full({arguments})"


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _factory(made: ast.expr) -> ast.Call | None:
    """Return the call of torch that makes a tensor, below methods that only shape it."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if isinstance(made.func.value, ast.Name):
            known = made.func.attr in _SAME | _RANDOM | {"tensor", "as_tensor"}
            spread = any(word.arg is None for word in made.keywords)
            return made if made.func.value.id == "torch" and known and not spread else None
        if made.func.attr not in _SHAPES:
            return None
        made = made.func.value
    return None


def _device(move: ast.Call, text: str) -> str | None:
    """Return the code of the device that a tensor is moved to; None where it is moved to something else as well.

    `.cuda(None)` moves to the current GPU, where `device=None` would stay on the CPU.
    """
    others = [word for word in move.keywords if word.arg not in {"device", "non_blocking"}]
    if others or not isinstance(move.func, ast.Attribute) or len(move.args) > 1:
        return None
    given = [*move.args, *(word.value for word in move.keywords if word.arg == "device")]
    if move.func.attr == "cuda":
        if not given:
            return '"cuda"'
        return _code(given[0], text) if isinstance(given[0], ast.Constant) and given[0].value is not None else None
    if move.func.attr != "to" or len(given) != 1 or isinstance(given[0], ast.Starred):
        return None
    target = given[0]
    is_type = isinstance(target, ast.Attribute) and (target.attr in _TYPES or target.attr.endswith("dtype"))
    return None if is_type else _code(target, text)


def _counts(made: ast.Call) -> bool:
    """Say whether nothing of an `arange` is seen to be a fraction."""
    for arg in (*made.args, *(word.value for word in made.keywords)):
        for node in ast.walk(arg):
            if isinstance(node, ast.Div) or (isinstance(node, ast.Constant) and isinstance(node.value, float)):
                return False
            if isinstance(node, ast.Attribute) and node.attr in {"float16", "bfloat16", "half"}:
                return False
    return len(made.args) < 3 or isinstance(made.args[2], ast.Constant)
