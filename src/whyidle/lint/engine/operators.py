"""What operators give: of constants the number, of tensors a tensor that lives where they do."""

from __future__ import annotations

import ast
from collections.abc import Callable

from whyidle.lint.values import PLAIN, UNKNOWN, Value, constant, join


def combined(tensor: Value, other: Value) -> Value:
    """Return the result of arithmetic with a tensor; a batch and what nobody knows may have been moved by others."""
    result = join(tensor, other) if other.kind == "tensor" else tensor
    unsure = {tensor.place, other.place} == {"unknown", "host"}
    if (other.kind == "unknown" and tensor.is_batch and tensor.on_host) or (other.kind == "tensor" and unsure):
        result = result.but(place="unknown", pinned=None)
    if "device" in (tensor.place, other.place if other.kind == "tensor" else ""):
        result = result.but(place="device")
    elif "assumed" in (tensor.place, other.place if other.kind == "tensor" else ""):
        result = result.but(place="assumed")
    return result.but(is_batch=False, items=None, fields=None, loader=None)


def told(node: ast.expr, value: Value) -> Value:
    """Return what a condition is, from what stands behind each `not` before it."""
    opposite = False
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, opposite = node.operand, not opposite
    return constant(not value.constant) if value.known and opposite else value


def is_text(node: ast.expr) -> bool:
    """Say whether an expression is text by how it is spelled: "%10s" * 2 + "%8.4g"."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def period(value: Value) -> int:
    if value.known and isinstance(value.constant, int | float):
        return max(int(value.constant), 0)
    return 0


def joined(values: tuple[Value, ...]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result.but(known=False, constant=None) if len(values) > 1 and result.known else result


_FOLDS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.Div: lambda a, b: a / b if b else 0,
}
_MOST = 1 << 40  # larger numbers are not computed: the source may hold a power of powers


def folded(operator: ast.operator, left: object, right: object) -> Value:
    fold = _FOLDS.get(type(operator))
    if fold is None or not isinstance(left, int | float) or not isinstance(right, int | float):
        return PLAIN
    if abs(left) > _MOST or abs(right) > _MOST:
        return PLAIN
    return constant(fold(left, right))


def compared(operator: ast.cmpop, left: object, right: object) -> Value:
    if isinstance(operator, ast.Eq):
        return constant(left == right)
    if isinstance(operator, ast.NotEq):
        return constant(left != right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(operator, ast.Lt):
            return constant(left < right)
        if isinstance(operator, ast.LtE):
            return constant(left <= right)
        if isinstance(operator, ast.Gt):
            return constant(left > right)
        if isinstance(operator, ast.GtE):
            return constant(left >= right)
    return PLAIN


def operated(operator: ast.operator, left: Value, right: Value) -> Value:
    """Return what an operator between two values gives."""
    if left.kind == "tensor":
        return combined(left, right)
    if right.kind == "tensor":
        return combined(right, left)
    if isinstance(operator, ast.Mod):
        return Value("plain", every=period(right))
    if left.known and right.known:
        return folded(operator, left.constant, right.constant)
    if isinstance(operator, ast.BitOr) and left.fields is not None and right.fields is not None:
        return Value("plain", fields={**left.fields, **right.fields})
    if left.kind == "plain" and left.items is not None and isinstance(operator, ast.Add):
        return Value("plain", items=(*left.items, *(right.items or ())))
    if "settings" in (left.kind, right.kind):
        return Value("settings")
    return PLAIN if left.kind == right.kind == "plain" else UNKNOWN
