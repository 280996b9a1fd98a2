"""Functions of the project: how each is entered, with what arguments, and what objects of its classes hold."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.callees import made_by
from whyidle.lint.engine.calls import Calls
from whyidle.lint.engine.guess import annotated, of_parameter
from whyidle.lint.engine.state import CONTEXTS, DEEPEST, FOREIGN, Frame
from whyidle.lint.nodes import last_name
from whyidle.lint.project import Definition
from whyidle.lint.values import UNKNOWN, Value, constant
from whyidle.lint.where import Where


class Functions(Calls):
    """Enters functions."""

    def invoke(
        self,
        definition: Definition,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        node: ast.Call | None,
        owner_value: Value | None = None,
    ) -> Value:
        """Follow a function with these arguments, from where the frame is; return what it returns."""
        function = definition.node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        caller, key = self.frame, id(function)
        where = caller.where
        env = self._arguments(definition, args, keywords, owner_value, entry=node is None)
        rest = function.args.kwarg
        if rest is not None and node is not None and all(keyword.arg is not None for keyword in node.keywords):
            env[rest.arg] = env[rest.arg].but(name="keywords")  # these are all that there are
        signature = tuple(
            (name, value.kind, value.place, value.known and str(value.constant)[:20]) for name, value in env.items()
        )
        asked = (key, replace(where, function=""), signature)
        if asked in self.answers:
            return self.answers[asked]
        deep = len(caller.via) >= DEEPEST or not self._worth(definition, where)
        if key in self.running or deep or self.contexts.get(key, 0) >= CONTEXTS:
            return self.answers.get((key,), UNKNOWN)
        self.contexts[key] = self.contexts.get(key, 0) + 1
        self.visited.add(key)
        if where.phase == "step" and (key not in self.entered or (where.hot and not self.entered[key].hot)):
            self.entered[key] = where
        self.running.add(key)
        via = caller.via if node is None else (*caller.via, (caller.module.source, node))
        where = _decorated(function, replace(where, function=definition.qualname))
        self.frame = Frame(
            definition.module, where, env, definition, definition.owner, self.closures.get(key), via=via,
            losses=_names(definition).losses,
        )  # fmt: skip
        self.body(function.body)
        result = self.frame.result
        if result.kind == "unknown":
            result = annotated(function.returns) or result
        self.frame = caller
        self.running.discard(key)
        self.answers[asked] = self.answers[key,] = result
        return result

    def _worth(self, definition: Definition, where: Where) -> bool:
        """Say whether to follow a function: of other modules, what steps do, what trains, and what makes objects."""
        if definition.module.source is self.job.source:
            return True
        body, module = definition.node.body, definition.module
        hot = where.phase == "step" or definition.name == "__init__" or self.traits.trains(body, module)
        hot = hot or knowledge.LOADER_FACTORY.search(definition.name) is not None
        hot = hot or any(self.traits.trains(one.node.body, module) for one in made_by(definition))
        self.foreign += hot
        return hot and self.foreign <= FOREIGN

    def _arguments(
        self,
        definition: Definition,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        owner_value: Value | None,
        *,
        entry: bool,
    ) -> dict[str, Value]:
        function = definition.node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        spec = function.args
        names = [*spec.posonlyargs, *spec.args]
        values = list(args)
        static = any(last_name(one) == "staticmethod" for one in function.decorator_list)
        if definition.owner is not None and not static and names:
            values.insert(0, owner_value if owner_value is not None else self.self_of(definition.owner))
        given = dict(zip((one.arg for one in names), values, strict=False))
        given.update({name: value for name, value in keywords.items() if name not in given})
        defaults = dict(zip((one.arg for one in reversed(names)), reversed(spec.defaults), strict=False))
        defaults |= {one.arg: d for one, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
        uses = _names(definition).uses
        in_forward = entry and function.name == "forward" and definition.owner is not None
        env: dict[str, Value] = {}
        for one in (*names, *spec.kwonlyargs):
            value = given.get(one.arg)
            if value is None or value.kind == "unknown":
                default = defaults.get(one.arg) if value is None else None
                value = self._default(one, default, uses.get(one.arg, frozenset()), in_forward)
            env[one.arg] = value
        if spec.vararg is not None:
            rest = tuple(values[len(names) :])
            env[spec.vararg.arg] = Value("plain", items=rest) if rest else UNKNOWN
        if spec.kwarg is not None:
            known = {one.arg for one in (*names, *spec.kwonlyargs)}
            extra = {name: value for name, value in keywords.items() if name not in known}
            env[spec.kwarg.arg] = Value("plain", fields=extra) if extra or not entry else UNKNOWN
        return env

    def _default(self, one: ast.arg, default: ast.expr | None, uses: frozenset[str], in_forward: bool) -> Value:
        guess = of_parameter(one, uses, in_forward=in_forward and default is None)
        if default is None:
            return guess
        value = constant(default.value) if isinstance(default, ast.Constant) else UNKNOWN
        if value.known and value.constant is not None:
            return value.but(node=default, name=one.arg)
        return guess

    def self_of(self, owner: Definition) -> Value:
        """Return an object of a class that nobody constructs in view, as its own `__init__` makes it."""
        key = id(owner.node)
        if key not in self.fields:
            fields: dict[str, Value] = {}
            self.fields[key] = fields
            is_network = self.derives(owner, knowledge.MODULE_BASES)
            made = Value("module" if is_network else "instance", define=owner, fields=fields, name=owner.qualname)
            fields.update(self.class_fields(owner))
            start = self.callees.method(owner, "__init__")
            if start is not None and id(start.node) not in self.running:
                before = self.frame.where
                self.frame.where = Where()
                self.invoke(start, (), {}, None, made)
                self.frame.where = before
        is_network = self.derives(owner, knowledge.MODULE_BASES)
        return Value("module" if is_network else "instance", define=owner, fields=self.fields[key], name=owner.qualname)


def _decorated(function: ast.FunctionDef | ast.AsyncFunctionDef, where: Where) -> Where:
    for decorator in function.decorator_list:
        name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if knowledge.NO_GRAD.search(name):
            where = replace(where, no_grad=True)
        elif name in {"torch.compile", "compile"} or name.endswith(".compile"):
            where = replace(where, compiled=True)
        elif name.endswith(("compiler.disable", "_dynamo.disable")):
            where = replace(where, compiled=False)
        elif knowledge.AUTOCAST.search(name):
            where = replace(where, autocast="enabled=False" not in ast.unparse(decorator).replace(" ", ""))
    return where


@dataclass(slots=True)
class _Names:
    """What a function does with names, by one look at all of it."""

    uses: dict[str, frozenset[str]]  # attributes that are asked of each
    losses: frozenset[str]  # that a backward pass starts from


def _takes_loss(call: ast.Call) -> bool:
    """Say whether a call starts from a loss: `scaler.scale(loss)`, or the step of an optimizer that does it all."""
    if last_name(call.func) in {"backward", "manual_backward", "scale"}:
        return True
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr == "step" and "optim" in last_name(func.value).lower()


def _names(definition: Definition) -> _Names:
    asked, key = definition.module.asked, ("names", id(definition.node))
    if key not in asked:
        uses: dict[str, set[str]] = {}
        losses: set[str] = set()
        for node in definition.module.within(definition.node.body):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                uses.setdefault(node.value.id, set()).add(node.attr)
            elif isinstance(node, ast.Call) and _takes_loss(node):
                losses.update(one.id for one in node.args[:1] if isinstance(one, ast.Name))
        losses |= {name for name, attributes in uses.items() if "backward" in attributes}
        asked[key] = _Names({name: frozenset(names) for name, names in uses.items()}, frozenset(losses))
    return cast("_Names", asked[key])
