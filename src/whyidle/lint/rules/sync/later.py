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
    if event.where.work == "eval":
        return Fix(
            "keep the values on the GPU and read them once, after the loop",
            f"values.append({_detached(spelled)})\n# after the loop:\ntotal = torch.stack(values).sum().item()",
        )
    if isinstance(statement, ast.If | ast.While):
        return Fix(
            "look every hundred steps",
            f"if {nearby.counter(event)} % 100 == 0 and {ast.unparse(statement.test)}:\n    ...",
            risk="what goes wrong is noticed up to a hundred steps later",
        )
    if isinstance(statement, ast.Assign) and statement.value is event.node:
        name = ast.unparse(statement.targets[0])
        return Fix(
            "keep it on the GPU and read it where it is shown, every hundred steps",
            f"{name} = {_detached(spelled)}\nif {nearby.counter(event)} % 100 == 0:\n    print({name}.item())",
            risk=_RISK,
        )
    return seldom(event)


def seldom(event: Event) -> Fix:
    """Return how to do a whole statement every hundred steps; of one that returns, how to hand on the tensor."""
    if isinstance(event.statement, ast.Return):
        return Fix(
            "return the tensor, and let who shows it read it every hundred steps",
            f"return ...  # without the read\n# where it is shown:\nif {nearby.counter(event)} % 100 == 0:\n    ...",
            risk=_RISK,
        )
    first = ast.unparse(event.statement).splitlines()[0]
    code = f"if {nearby.counter(event)} % 100 == 0:\n    {first}"
    return Fix("read it every hundred steps", code, risk=_RISK)


def _appends(value: ast.expr, read: ast.AST) -> bool:
    """Say whether it is `values.append(loss.item())`."""
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".append") and read in value.args


def _summed(event: Event, statement: ast.AugAssign, spelled: str) -> Fix:
    total = ast.unparse(statement.target)
    repair = accumulated(event.node, event.source) if isinstance(event.node, ast.Call) else None
    changes = repair.changes if repair is not None else ()
    codes = [change.code for change in changes if isinstance(change, Replace) and change.node is event.node]
    kept = ast.unparse(statement.value).replace(ast.unparse(event.node), (codes or [_detached(spelled)])[0])
    return Fix(
        "add it up on the GPU and read the sum where it is used",
        f"{total} += {kept}  # stays on the GPU\n# where it is used: {total}.item()",
        repair,
        "" if repair is not None and repair.safe else "the sum has the tensor's precision, not Python's",
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
