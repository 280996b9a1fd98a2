"""How to read a value of the GPU rarely instead of in every step, in the words of the code that reads it."""

from __future__ import annotations

import ast

from whyidle.lint.events import Event
from whyidle.lint.repair import Replace
from whyidle.lint.repairs.accumulate import accumulated
from whyidle.lint.repairs.gather import gathered
from whyidle.lint.rules.sync import nearby
from whyidle.lint.rules.sync.drain import Fix

_RISK = "the value that is shown is that of every hundredth step"


def rarely(event: Event, tensor: ast.expr) -> Fix:
    """Return how to read a tensor every hundred steps, or at the end of the epoch where it is summed up.

    Args:
        event: the read.
        tensor: what is read.
    """
    statement, spelled = event.statement, ast.unparse(tensor)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return _summed(event, statement, spelled)
    if isinstance(statement, ast.Expr) and _appends(statement.value, event.node):
        assert isinstance(statement.value, ast.Call)
        return _listed(event, statement.value, spelled)
    test = f"{nearby.counter(event)} % 100 == 0"
    if event.where.work == "eval":
        return Fix(
            "keep the values on the GPU and read them once, after the loop",
            f"values.append({_detached(spelled)})\n# after the loop:\ntotal = torch.stack(values).sum().item()",
        )
    if isinstance(statement, ast.Expr | ast.Assert):
        return Fix("read it every hundred steps", f"if {test}:\n    {_first_line(statement)}", risk=_RISK)
    if isinstance(statement, ast.If | ast.While):
        return Fix(
            "look every hundred steps",
            f"if {test} and {ast.unparse(statement.test)}:\n    ...",
            risk="what goes wrong is noticed up to a hundred steps later",
        )
    return Fix(
        "keep it on the GPU and read it where it is shown, every hundred steps",
        f"value = {_detached(spelled)}\nif {test}:\n    print(value.item())",
        risk=_RISK,
    )


def _appends(value: ast.expr, read: ast.AST) -> bool:
    """Say whether it is `values.append(loss.item())`."""
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".append") and read in value.args


def _summed(event: Event, statement: ast.AugAssign, spelled: str) -> Fix:
    total = ast.unparse(statement.target)
    repair = accumulated(event.node, event.source) if isinstance(event.node, ast.expr) else None
    kept = repair.changes[0] if repair is not None else None
    code = kept.code if isinstance(kept, Replace) else _detached(spelled)
    return Fix(
        "add it up on the GPU and read the sum where it is shown",
        f"{total} += {ast.unparse(statement.value).replace(ast.unparse(event.node), code)}  # stays on the GPU\n"
        f"# where it is shown: float({total})",
        repair,
        "" if repair is not None else "the sum has the tensor's precision, not Python's",
    )


def _listed(event: Event, append: ast.Call, spelled: str) -> Fix:
    values = ast.unparse(append.func).removesuffix(".append")
    return Fix(
        "leave the values on the GPU and read them when they are used",
        f"{values}.append({_detached(spelled)})  # stays on the GPU\n"
        f"# where they are used: [float(value) for value in {values}]",
        gathered(event.node, event.source) if isinstance(event.node, ast.expr) else None,
    )


def _detached(spelled: str) -> str:
    return spelled if spelled.endswith((".detach()", ".data")) else f"{spelled}.detach()"


def _first_line(statement: ast.stmt) -> str:
    lines = ast.unparse(statement).splitlines()
    return lines[0] if lines else ""
