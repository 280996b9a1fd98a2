"""A loss that is read in each step to add it up, added up on the GPU instead and read where the sum is used.

`total += loss.item()` becomes `total += loss.detach().double()`, and `total = float(total)` stands before what uses
it. In float64 each value is what `.item()` gives, and the additions are those that Python would do, so the sum is the
same to the last bit; in the loss's own float32 a sum of 10,000 losses is off in its fifth digit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from whyidle.lint.repair import Change, Insert, Repair, Replace
from whyidle.lint.repairs.mentions import Mention, mentions, path_to, places_before, scope_of, stays_unread
from whyidle.lint.repairs.numbers import is_number
from whyidle.lint.source import Source

_EQUAL = "the sum is kept on the GPU in float64 and is the same number"
_DIVIDED = "the sum is kept on the GPU in float64; what is divided there may differ in the last of 16 digits"
_COUNTED = "the count is kept on the GPU and is the same number"
_ROUNDED = "the sum is kept on the GPU in float32: it differs from the sixth digit on"
_ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)
_NO_FLOAT64 = re.compile(r"\bmps\b")
# May choose one without float64; so may who starts the program.
_ANY_DEVICE = re.compile(r"\b(accelerate|accelerator|lightning|fabric|directml|hpu)\b|[\"']--?device[\"']")
# Inside of inference mode a tensor cannot be added to outside; these never change how a line runs.
_ALWAYS_INFERENCE = re.compile(r"^[ \t]*(@|with )(torch\.)?inference_mode(\(\))?:?[ \t]*(#.*)?$", re.MULTILINE)
_NO_FRACTION = re.compile(r"mask|count|num|token|correct|\bn_|ids|index|label")
_COPIES = {"item", "cpu", "numpy", "tolist"}
_COMPARISONS = {"eq", "ne", "gt", "ge", "lt", "le", "equal", "isin"}


def accumulated(read: ast.expr, source: Source) -> Repair | None:
    """Return the repair of `total += loss.item()` in a loop, or of what is like it.

    Args:
        read: the `.item()`, `float()` or `int()` of the tensor, a node of the source's tree.
        source: the file.
    """
    path = path_to(source.tree, read)
    statement = next((node for node in reversed(path) if isinstance(node, ast.stmt)), None)
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return None
    name = statement.target.id
    uses = mentions(scope_of(path), name)
    if uses is None:
        return None
    sums = [use for use in uses if use.loops and _is_sum(use.statement, use)]
    if all(use.statement is not statement for use in sums) or not _starts_plain(uses, sums):
        return None
    shown = [use for use in uses if _is_read(use) and use not in sums]
    kind = _kind([use for use in uses if use not in sums], sums)
    stored = [use for use in uses if isinstance(use.node.ctx, ast.Store) and use not in sums]
    places = places_before(shown, sums, stored)
    if len({ast.dump(node) for node in _reads(sums)}) > 1:  # of the others nobody said that they are tensors
        return None
    if kind is None or places is None or not _may_add(source, sums):
        return None
    if source.cells and stays_unread(sums, places):
        return None
    known = "cuda" in source.text and not _ANY_DEVICE.search(source.text)
    exact = kind == "int" or not _NO_FLOAT64.search(source.text)
    changes: list[Change] = [Replace(node, _kept(node, source, kind, exact)) for node in _reads(sums)]
    changes += [Insert(place, f"{name} = {kind}({name})") for place in places]
    return Repair(tuple(changes), safe=kind == "int" or (exact and known), note=_note(sums, kind, exact))


def _note(sums: Sequence[Mention], kind: str, exact: bool) -> str:
    if kind == "int":
        return _COUNTED
    divided = any(isinstance(node, ast.Div) for use in sums for node in ast.walk(use.statement))
    return (_DIVIDED if divided else _EQUAL) if exact else _ROUNDED


def _may_add(source: Source, sums: Sequence[Mention]) -> bool:
    """Say whether all of the additions are made in inference mode, or none."""
    if "inference_mode" not in source.text:
        return True
    return len(sums) == 1 and "inference_mode" not in _ALWAYS_INFERENCE.sub("", source.text)


def _is_sum(statement: ast.stmt, use: Mention) -> bool:
    """Say whether it is `total += loss.item()`, or that times or over a number."""
    return (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and statement.target is use.node
        and _read_in(statement.value, use.path[0]) is not None
    )


def _read_in(value: ast.expr, scope: ast.AST) -> ast.Call | None:
    """Return the read in what is added, if that is the read alone or the read times or over a number."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        if is_number(value.right, scope):
            return _read_in(value.left, scope)
        if isinstance(value.op, ast.Mult) and is_number(value.left, scope):
            return _read_in(value.right, scope)
        return None
    return value if isinstance(value, ast.Call) and tensor_of(value) is not None else None


def _reads(sums: Sequence[Mention]) -> Iterator[ast.Call]:
    for use in sums:
        assert isinstance(use.statement, ast.AugAssign)
        read = _read_in(use.statement.value, use.path[0])
        assert read is not None
        yield read


def tensor_of(read: ast.Call) -> ast.expr | None:
    """Return the tensor that is read: of `loss.item()`, `float(loss)` or `float(loss.cpu())`, `loss`."""
    if isinstance(read.func, ast.Attribute) and read.func.attr == "item" and not read.args and not read.keywords:
        return _copied(read)
    if isinstance(read.func, ast.Name) and read.func.id in {"float", "int"} and len(read.args) == 1:
        tensor = _copied(read.args[0])
        return tensor if read.func.id == "float" or is_count(tensor) else None
    return None


def _copied(value: ast.expr) -> ast.expr:
    """Return what was there before it was copied to the host."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _COPIES:
        if value.args or value.keywords:
            break
        value = value.func.value
    return value


def _starts_plain(uses: Sequence[Mention], sums: Sequence[Mention]) -> bool:
    """Say whether the name holds nothing but numbers of Python and our sum."""
    stores = [use for use in uses if isinstance(use.node.ctx, ast.Store) and use not in sums]
    firsts = [_stored(use, is_late=_is_late(use, sums)) for use in stores]
    return bool(stores) and all(isinstance(value, int | float) for value in firsts)


def _is_late(use: Mention, sums: Sequence[Mention]) -> bool:
    """Say whether nothing is added any more once this use is reached."""
    loops = {id(loop) for each in sums for loop in each.loops}
    return all(each.node.lineno < use.node.lineno for each in sums) and not any(id(one) in loops for one in use.loops)


def _stored(use: Mention, *, is_late: bool = False) -> object:
    """Return the number that a statement gives to a name; 0 for `total /= n`, whose result is one; None for others.

    By a number of numpy, too, a sum can be divided that is done: nothing of the GPU is added to what comes out.
    """
    match use.statement:
        case ast.Assign(value=ast.Constant(value=value)) | ast.AnnAssign(value=ast.Constant(value=value)):
            return value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            value = next((value for one, value in zip(names, values, strict=True) if one is use.node), None)
            return value.value if isinstance(value, ast.Constant) else None
        case ast.AugAssign(op=ast.Div() | ast.Mult(), value=value):
            divided = use.node.id
        case ast.Assign(value=ast.BinOp(left=ast.Name(id=divided), op=ast.Div() | ast.Mult(), right=value)):
            pass
        case _:
            return None
    plain = is_number(value, use.path[0]) or (is_late and isinstance(value, ast.Name | ast.Attribute))
    return 0 if divided == use.node.id and plain else None


def _is_read(use: Mention) -> bool:
    return isinstance(use.node.ctx, ast.Load) or isinstance(use.statement, ast.AugAssign)


def _kind(others: Sequence[Mention], sums: Sequence[Mention]) -> str | None:
    """Return what the sum is of, "float" or "int"; None where that cannot be told."""
    tensors = [tensor for read in _reads(sums) if (tensor := tensor_of(read)) is not None]
    if any(isinstance(use.node.ctx, ast.Store) and isinstance(_stored(use), float) for use in others):
        return "float"
    if all(is_fraction(use.node.id, tensor) for use, tensor in zip(sums, tensors, strict=True)):
        return "float"
    plain = all(isinstance(use.statement, ast.AugAssign) and use.statement.value in set(_reads([use])) for use in sums)
    return "int" if plain and all(is_count(tensor) for tensor in tensors) else None


def is_fraction(name: str, tensor: ast.expr) -> bool:
    """Say whether a tensor holds a number with a fraction, by the names that it has: a loss does."""
    spelled = f"{name} {ast.unparse(tensor)}".lower()
    return "loss" in spelled and not is_count(tensor) and not _NO_FRACTION.search(spelled.partition("(")[0])


def is_count(tensor: ast.expr) -> bool:
    """Say whether it is the number of places where something is true: `(guess == label).sum()`."""
    match tensor:
        case ast.Call(func=ast.Attribute(value=truth, attr="sum"), args=[], keywords=[]):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[truth], keywords=[]):
            pass
        case _:
            return False
    match truth:
        case ast.Compare(ops=[_]):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _COMPARISONS
        case _:
            return False


def _kept(read: ast.Call, source: Source, kind: str, exact: bool) -> str:
    """Return what stands in the place of a read: the tensor itself, without what made it."""
    tensor = tensor_of(read)
    assert tensor is not None
    code = spelled(tensor, source)
    if kind == "int":
        return code
    return f"{detached(code)}.double()" if exact else detached(code)


def spelled(tensor: ast.expr, source: Source) -> str:
    """Return the code of an expression as it stands there, ready to be followed by a method."""
    code = source.code(tensor) or ast.unparse(tensor)
    return code if isinstance(tensor, _ATOMS) else f"({code})"


def detached(code: str) -> str:
    """Return the code of a tensor without what made it."""
    return code if code.endswith((".detach()", ".data")) else f"{code}.detach()"
