"""Which code trains: where a backward pass or an optimizer's step is, by itself or in what it calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from whyidle.lint.engine.callees import Callees
from whyidle.lint.engine.knowledge import STEP_METHODS
from whyidle.lint.nodes import last_name
from whyidle.lint.project import Module

_OPTIMIZER = re.compile(r"opt|optim|scaler|engine|trainer|^(d|g)_?step", re.IGNORECASE)
_NOT_OPTIMIZER = re.compile(r"sched|^lr|env|prof|simul", re.IGNORECASE)
Parts: TypeAlias = tuple[list[ast.Call], list[ast.For | ast.AsyncFor | ast.While]]
Question: TypeAlias = Literal["trains", "steps", "loops"]

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_backward(call: ast.Call) -> bool:
    """Say whether a call is a backward pass."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"backward", "manual_backward"}:
        return True
    name = last_name(call.func)
    return "scaler" in name.lower() and len(call.args) >= 2  # timm's and MAE's: scaler(loss, optimizer, …)


def is_optimizer_step(call: ast.Call) -> bool:
    """Say whether a call is an optimizer's step."""
    if not isinstance(call.func, ast.Attribute):
        return "scaler" in last_name(call.func).lower() and len(call.args) >= 2
    if call.func.attr == "optimizer_step":
        return True
    if call.func.attr != "step":
        return False
    receiver = last_name(call.func.value)
    if _NOT_OPTIMIZER.search(receiver):
        return False
    return bool(_OPTIMIZER.search(receiver)) or receiver in {"model", "self"} or (len(receiver) <= 2 and not call.args)


class Traits:
    """Answers what trains, for blocks of a project: the body of a loop, a function, a module. Each is asked once."""

    def __init__(self, callees: Callees) -> None:
        self._callees = callees
        self._open: set[tuple[Question, int]] = set()  # questions that are being answered
        self._circular = False  # one of these was asked again meanwhile
        self._again = 0

    def trains(self, block: Sequence[ast.stmt], module: Module) -> bool:
        """Say whether there is a backward pass or an optimizer's step, here or in a function called from here."""
        return self._answer("trains", block, module)

    def steps(self, block: Sequence[ast.stmt], module: Module) -> bool:
        """Say whether an optimizer steps here, outside of loops that train themselves."""
        return self._answer("steps", block, module)

    def has_training_loop(self, block: Sequence[ast.stmt], module: Module) -> bool:
        """Say whether a loop that trains stands here, or in a function called from here."""
        return self._answer("loops", block, module)

    def _answer(self, question: Question, block: Sequence[ast.stmt], module: Module) -> bool:
        key = (question, id(block))
        if key in module.asked:
            return bool(module.asked[key])
        if key in self._open:  # functions that call each other in a circle
            self._circular = True
            return False
        self._open.add(key)
        before, self._circular = self._circular, False
        ask = {"trains": self._trains, "steps": self._steps, "loops": self._loops}[question]
        result = ask(block, module)
        self._open.discard(key)
        self._again += self._circular
        if result or not self._circular or not self._open or self._again > _MOST:
            module.asked[key] = result  # a no within a circle may be a yes once the circle is closed
        self._circular = before or (self._circular and bool(self._open))
        return result

    def _trains(self, block: Sequence[ast.stmt], module: Module) -> bool:
        calls, _ = self.parts(block, module)
        return any(is_backward(call) or is_optimizer_step(call) for call in calls) or any(
            self._in_callee("trains", call, module) for call in calls
        )

    def _steps(self, block: Sequence[ast.stmt], module: Module) -> bool:
        calls, loops = self.parts(block, module)
        apart = {
            id(call) for loop in loops if self.trains(loop.body, module) for call in self.parts(loop.body, module)[0]
        }
        return any(
            is_optimizer_step(call) or self._in_callee("steps", call, module) for call in calls if id(call) not in apart
        )

    def _loops(self, block: Sequence[ast.stmt], module: Module) -> bool:
        calls, loops = self.parts(block, module)
        return any(self.trains(loop.body, module) for loop in loops) or any(
            self._in_callee("loops", call, module) for call in calls
        )

    def _in_callee(self, question: Question, call: ast.Call, module: Module) -> bool:
        callees = self._callees.of(call, module)
        if question == "trains" and isinstance(call.func, ast.Attribute) and call.func.attr in STEP_METHODS:
            elsewhere = not callees or last_name(call.func.value) != "self"
            if elsewhere:
                return True
        return any(self._answer(question, one.node.body, one.module) for one in callees)

    def parts(self, block: Sequence[ast.stmt], module: Module) -> Parts:
        """Return the calls and the loops in a block, at whatever depth."""
        key = ("parts", id(block))
        if key not in module.asked:
            nodes = module.within(block)
            module.asked[key] = (
                [node for node in nodes if isinstance(node, ast.Call)],
                [node for node in nodes if isinstance(node, _LOOPS)],
            )
        return cast("Parts", module.asked[key])


_MOST = 2000  # answers that are sought again because of circles
