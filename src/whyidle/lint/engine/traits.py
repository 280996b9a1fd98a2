"""Which code trains: where a backward pass or an optimizer's step is, by itself or in what it calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from whyidle.lint.engine.knowledge import STEP_METHODS
from whyidle.lint.project import Definition, Module, Project

_OPTIMIZER = re.compile(r"opt|optim|scaler|engine|trainer|^(d|g)_?step", re.IGNORECASE)
_NOT_OPTIMIZER = re.compile(r"sched|^lr|env|prof|simul", re.IGNORECASE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and all below them, but not what functions and classes defined there hold."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            stack.extend(ast.iter_child_nodes(node))


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name: `self.optimizer` is "optimizer"; of `x[0]` and calls that of what is."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return ""


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
    """Answers what trains, for functions and loops of a project; each is looked at once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._trains: dict[int, bool] = {}
        self._steps: dict[int, bool] = {}
        self._loops: dict[int, bool] = {}
        self._active: set[tuple[str, int]] = set()

    def trains(self, nodes: Iterable[ast.AST], module: Module, owner: Definition | None = None) -> bool:
        """Say whether there is a backward pass or an optimizer's step, here or in a function called from here."""
        return any(
            isinstance(node, ast.Call)
            and (is_backward(node) or is_optimizer_step(node) or self._trained_by(node, module, owner))
            for node in within(nodes)
        )

    def steps(self, nodes: Iterable[ast.AST], module: Module, owner: Definition | None = None) -> bool:
        """Say whether an optimizer steps here, outside of loops that train themselves."""
        return any(
            isinstance(node, ast.Call)
            and (
                is_optimizer_step(node)
                or self._called(node, module, owner, "steps", self._steps, self._definition_steps)
            )
            for node in self._outside(nodes, module, owner)
        )

    def has_training_loop(self, nodes: Iterable[ast.AST], module: Module, owner: Definition | None = None) -> bool:
        """Say whether a loop that trains stands here, or in a function called from here."""
        return any(
            (isinstance(node, _LOOPS) and self.trains(node.body, module, owner))
            or (
                isinstance(node, ast.Call)
                and self._called(node, module, owner, "loops", self._loops, self._definition_loops)
            )
            for node in within(nodes)
        )

    def _outside(self, nodes: Iterable[ast.AST], module: Module, owner: Definition | None) -> Iterator[ast.AST]:
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if isinstance(node, _LOOPS) and self.trains(node.body, module, owner):
                continue
            yield node
            if not isinstance(node, _FUNCTIONS):
                stack.extend(ast.iter_child_nodes(node))

    def _trained_by(self, call: ast.Call, module: Module, owner: Definition | None) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        found = list(self.callees(call, module, owner))
        if not found and name in STEP_METHODS:
            return True
        return self._called(call, module, owner, "trains", self._trains, self._definition_trains)

    def callees(self, call: ast.Call, module: Module, owner: Definition | None) -> Iterator[Definition]:
        """Yield the functions of the project that a call may mean, by its name."""
        function = call.func
        if isinstance(function, ast.Name):
            found = self._project.member(module, function.id)
            if isinstance(found, Definition) and found.kind == "function":
                yield found
            elif found is None:
                yield from (one for one in module.functions if one.name == function.id and one.owner is None)
        elif isinstance(function, ast.Attribute):
            base = function.value
            if isinstance(base, ast.Name) and base.id in module.imports:
                found = self._project.find(f"{module.imports[base.id]}.{function.attr}", module)
                if isinstance(found, Definition) and found.kind == "function":
                    yield found
            elif isinstance(base, ast.Name) and base.id == "self":
                yield from module.by_method(function.attr)[:2]
            elif function.attr not in {"step", "update", "forward", "train", "run", "__init__", "to", "get"}:
                yield from module.by_method(function.attr)[:1]

    def _called(self, call, module, owner, kind, memo, ask) -> bool:  # type: ignore[no-untyped-def]
        return any(self._memo(one, kind, memo, ask) for one in self.callees(call, module, owner))

    def _memo(self, one: Definition, kind: str, memo: dict[int, bool], ask) -> bool:  # type: ignore[no-untyped-def]
        key = id(one.node)
        if key not in memo:
            if (kind, key) in self._active:
                return False
            self._active.add((kind, key))
            memo[key] = ask(one)
            self._active.discard((kind, key))
        return memo[key]

    def _definition_trains(self, one: Definition) -> bool:
        return self.trains(one.node.body, one.module, one.owner)

    def _definition_steps(self, one: Definition) -> bool:
        return self.steps(one.node.body, one.module, one.owner)

    def _definition_loops(self, one: Definition) -> bool:
        return self.has_training_loop(one.node.body, one.module, one.owner)
