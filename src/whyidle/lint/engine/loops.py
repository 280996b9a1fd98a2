"""What a loop is: over epochs, over steps, over micro-steps, over an evaluation set, over tokens, or within a step."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from whyidle.lint.engine.guess import named
from whyidle.lint.nodes import last_name
from whyidle.lint.project import Module
from whyidle.lint.values import UNKNOWN, Value
from whyidle.lint.where import Where

if TYPE_CHECKING:
    from whyidle.lint.engine.statements import Statements

_GENERATES = re.compile(
    r"generat|sampl|decod|infer|predict|rollout|beam|transcrib|synthes|denois|diffus", re.IGNORECASE
)
_COUNTS = re.compile(r"\b(range|trange|arange|count|timesteps)\b")
_EVALUATES = re.compile(r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|test|predict|infer)(_|$)", re.I)


class LoopKind(Enum):
    """What goes round in a loop."""

    PLAIN = "nothing that we follow"
    EPOCH = "epochs, or other things that training loops stand in"
    STEP = "training steps"
    UPDATE = "optimizer steps, each of several micro-steps in a loop of their own"
    MICRO = "micro-steps"
    WITHIN = "parts of a step"
    EVAL = "batches of an evaluation"
    INFER = "tokens, frames or steps of a diffusion"
    ROLLOUT = "steps of an environment"

    def place(self, outer: Where) -> Where:
        """Return where the body of such a loop is, from where the loop stands."""
        if self is LoopKind.PLAIN:
            return outer
        if self is LoopKind.EPOCH:
            return replace(outer, phase="epoch")
        if self is LoopKind.WITHIN:
            return replace(outer, inner=True)
        if self is LoopKind.MICRO:
            return replace(outer, micro=True, update=False, work=outer.work or "train")
        work = {"eval": "eval", "infer": "infer", "rollout": "rollout"}.get(self.name.lower(), "train")
        fresh = replace(outer, phase="step", work=work, inner=False, micro=False)  # type: ignore[arg-type]
        if outer.phase in {"once", "epoch"} and work == "train":
            fresh = replace(fresh, guard="", every=1)  # a training behind an option is a training all the same
        return replace(fresh, update=self is LoopKind.UPDATE)


def steps_environment(node: ast.For | ast.AsyncFor | ast.While, module: Module) -> bool:
    """Say whether a loop steps an environment of reinforcement learning."""
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "step"
        and re.search(r"(^|_)envs?(_|$)|environment", last_name(one.func.value), re.IGNORECASE)
        for one in module.within(node.body)
    )


def kind_of(engine: Statements, node: ast.For | ast.AsyncFor | ast.While, over: Value) -> LoopKind:
    """Return what goes round in a loop."""
    frame = engine.frame
    module, where = frame.module, frame.where
    if engine.traits.trains(node.body, module):
        nested = engine.traits.has_training_loop(node.body, module)
        if where.phase == "step" and where.work == "train":
            return LoopKind.MICRO if not nested else LoopKind.WITHIN
        if not nested or (_takes_a_batch(node, over) and _once_for_all(engine, node)):
            return LoopKind.STEP
        return LoopKind.UPDATE if engine.traits.steps(node.body, module) else LoopKind.EPOCH
    if where.phase == "step":
        return LoopKind.ROLLOUT if steps_environment(node, module) else LoopKind.WITHIN
    return _without_training(engine, node, over, where)


def _once_for_all(engine: Statements, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Say whether the batch that a round takes is all that it trains on: loops within take none of their own."""
    traits, module = engine.traits, engine.frame.module
    if traits.steps(node.body, module):
        return True
    inner = [loop for loop in traits.parts(node.body, module)[1] if traits.trains(loop.body, module)]
    if any(traits.has_training_loop(loop.body, module) for loop in inner):
        return False  # epochs over what a round has collected, as PPO has them
    taking = (
        _takes_a_batch(loop, UNKNOWN)
        or (not isinstance(loop, ast.While) and any(named(last).kind == "loader" for last in _names(loop.iter)))
        for loop in inner
    )
    return bool(inner) and not any(taking)


def _names(node: ast.expr) -> set[str]:
    return {last_name(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)}


def _takes_a_batch(node: ast.For | ast.AsyncFor | ast.While, over: Value) -> bool:
    """Say whether each round takes a batch, outside of loops within: then those go over parts of a step."""
    if over.kind == "loader" and isinstance(node, ast.For | ast.AsyncFor):
        return True
    stack: list[ast.AST] = list(node.body)
    while stack:
        one = stack.pop()
        if isinstance(one, ast.Call) and last_name(one.func) in {"next", "next_batch", "get_batch"}:
            return True
        if not isinstance(one, ast.For | ast.While | ast.AsyncFor | ast.FunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(one))
    return False


def _without_training(
    engine: Statements, node: ast.For | ast.AsyncFor | ast.While, over: Value, where: Where
) -> LoopKind:
    module = engine.frame.module
    calls = [one for one in module.within(node.body) if isinstance(one, ast.Call)]
    if steps_environment(node, module):
        return LoopKind.ROLLOUT
    if not isinstance(node, ast.While) and isinstance(node.iter, ast.List | ast.Tuple):
        return LoopKind.WITHIN if where.phase == "maybe" else LoopKind.PLAIN  # a few things that the source lists
    if over.kind == "loader":
        return LoopKind.EVAL
    name = where.function.rpartition(".")[2]
    quiet = where.no_grad or any(
        isinstance(one, ast.With)
        and any("no_grad" in ast.unparse(i) or "inference_mode" in ast.unparse(i) for i in one.items)
        for one in module.within(node.body)
    )
    if quiet and _EVALUATES.search(name) and not _GENERATES.search(name):
        return LoopKind.EVAL
    if (quiet or _GENERATES.search(name)) and _calls_network(engine, calls):
        counted = _counted(node)
        if not counted and _generates_within(engine, node):
            return LoopKind.WITHIN if where.phase == "maybe" else LoopKind.PLAIN  # over prompts, each a loop of its own
        return LoopKind.INFER if counted or _GENERATES.search(name) else LoopKind.EVAL
    if where.phase == "maybe":
        return LoopKind.WITHIN
    return LoopKind.PLAIN


def _counted(node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Say whether rounds are counted, as those over tokens are, and not taken from something."""
    return isinstance(node, ast.While) or bool(_COUNTS.search(ast.unparse(node.iter)))


def _generates_within(engine: Statements, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    traits, module = engine.traits, engine.frame.module
    inner = traits.parts(node.body, module)[1]
    return any(_counted(loop) and _calls_network(engine, traits.parts(loop.body, module)[0]) for loop in inner)


def _calls_network(engine: Statements, calls: list[ast.Call]) -> bool:
    """Say whether a network is called, here or in a function of the project that is called here."""
    traits, module = engine.traits, engine.frame.module
    callees = [one for call in calls for one in engine.callees.of(call, module)]
    calls = calls + [call for one in callees for call in traits.parts(one.node.body, one.module)[0]]
    return any(
        named(last_name(one.func)).kind == "module"
        or last_name(one.func) in {"forward", "fwd", "decode_one_token", "decode_step", "denoise"}
        for one in calls
    )
