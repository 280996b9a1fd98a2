"""Which calls of PyTorch make a tensor in the host's memory, and of what an expression was computed."""

from __future__ import annotations

import ast

from whyidle.lint.events import Called

# Makers of tensors that take a `device`; what the first three copy comes from Python or numpy.
COPYING = frozenset({"tensor", "as_tensor", "asarray"})
FILLING = frozenset({"zeros", "ones", "full", "empty", "arange", "eye"})
ROUNDING = frozenset({"linspace", "logspace", "rand", "randn", "randint", "randperm", "normal"})
MAKERS = COPYING | FILLING | ROUNDING
LEGACY = frozenset({"Tensor", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "DoubleTensor"})
DATA = frozenset({"from_numpy", "frombuffer"})  # more likely a batch than a constant


def made_by(event: Called) -> str:
    """Return the name of the function of torch's that made what is moved."""
    func = event.node.func
    maker = maker_of(func.value) if isinstance(func, ast.Attribute) else None
    if maker is not None and isinstance(maker.func, ast.Attribute):
        return maker.func.attr
    return event.receiver.name.rpartition(".")[2] if event.receiver is not None else ""


def maker_of(node: ast.expr) -> ast.Call | None:
    """Return the call that makes the tensor that an expression is computed from: `torch.arange(n)` of `2 * ... + 1`."""
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in {"torch", "th"}:
            if func.attr in COPYING | FILLING | ROUNDING | LEGACY | DATA:
                moved = any(keyword.arg == "device" for keyword in node.keywords)
                return None if moved or is_empty(node) else node
            return next((made for made in map(maker_of, node.args) if made is not None), None)
        return maker_of(func.value) if isinstance(func, ast.Attribute) else None
    if isinstance(node, ast.BinOp):
        return maker_of(node.left) or maker_of(node.right)
    if isinstance(node, ast.UnaryOp):
        return maker_of(node.operand)
    return maker_of(node.value) if isinstance(node, ast.Subscript) else None


def is_empty(maker: ast.Call) -> bool:
    """Say whether a tensor has no values, so that nothing is copied: `torch.empty(0)`, `torch.tensor([])`."""
    first = maker.args[0] if maker.args else None
    if isinstance(first, ast.Constant):
        return first.value == 0 and getattr(maker.func, "attr", "") not in COPYING | {"full", "arange", "new_tensor"}
    return isinstance(first, ast.List | ast.Tuple) and not first.elts
