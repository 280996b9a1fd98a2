"""Which functions and classes of the project a name in the source may mean: by definitions, by what made an object."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import cast

from whyidle.lint.nodes import dotted, last_name, within
from whyidle.lint.project import Definition, Module, Project

_COMMON = frozenset({"step", "update", "forward", "train", "run", "to", "get"})  # methods of anything
_DEEPEST = 6  # classes of classes that are looked through


class Callees:
    """Finds what calls mean; each call is asked about once."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of(self, call: ast.Call, module: Module) -> tuple[Definition, ...]:
        """Return the functions of the project that a call may mean, by its name."""
        key = ("callees", id(call))
        if key not in module.asked:
            meant = tuple(self._meant(call.func, module))
            names = [one for one in call.args if isinstance(one, ast.Name)]  # timer(train_step), step(closure)
            meant += tuple(found for name in names for found in self._meant(name, module))
            module.asked[key] = meant
        return cast("tuple[Definition, ...]", module.asked[key])

    def _meant(self, function: ast.expr, module: Module) -> Iterator[Definition]:
        if isinstance(function, ast.Name):
            found = self._project.member(module, function.id)
            if isinstance(found, Definition) and found.kind == "function":
                yield found
            elif found is None:
                yield from (one for one in module.named.get(function.id, ()) if one.owner is None)
                for factory in self._makers(function.id, module):
                    if factory.kind == "function":
                        yield from made_by(factory)
        elif isinstance(function, ast.Attribute):
            base = function.value
            if isinstance(base, ast.Name) and base.id in module.imports:
                found = self._project.find(f"{module.imports[base.id]}.{function.attr}", module)
                if isinstance(found, Definition) and found.kind == "function":
                    yield found
            elif isinstance(base, ast.Name) and base.id == "self":
                yield from self._own(function, module)
            else:
                yield from self._of_object(last_name(base), function.attr, module)

    def _own(self, function: ast.Attribute, module: Module) -> Iterator[Definition]:
        """Yield what `self.method` means in the class that it stands in, or in classes that derive from it."""
        named = module.by_method(function.attr)
        owner = owner_of(function, module)
        if owner is None:
            yield from named[:2]
            return
        found = self.method(owner, function.attr)
        if found is not None:
            yield found
            return
        for cls in {id(one.owner): one.owner for one in module.functions if one.owner is not None}.values():
            inherited = self.method(cls, function.attr) if self._derives(cls, owner) else None
            if inherited is not None:
                yield inherited

    def _of_object(self, name: str, method: str, module: Module) -> Iterator[Definition]:
        """Yield what a method of a named object means: by the class that made it, else by the name of the method."""
        classes = [one for one in self._makers(name, module) if one.kind == "class"]
        found = [one for one in (self.method(cls, method) for cls in classes) if one is not None]
        if found:
            yield from found
        elif not classes and method not in _COMMON:
            yield from module.by_method(method)[:1]

    def _makers(self, name: str, module: Module) -> Iterator[Definition]:
        """Yield the classes and functions of the project whose calls a name is assigned, wherever in the module."""
        for function in self._made_by(module).get(name, ()):
            found = self.named(function, module)
            if found is not None:
                yield found

    def _made_by(self, module: Module) -> dict[str, list[ast.expr]]:
        """Return what is called for each name that is assigned, and the class that it is annotated with."""
        key = ("makers", 0)
        if key not in module.asked:
            makers: dict[str, list[ast.expr]] = {}
            for node in _statements(module.source.tree.body):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    for target in node.targets if not _for_evaluation(node.value) else ():
                        if isinstance(target, ast.Name | ast.Attribute):
                            makers.setdefault(last_name(target), []).append(node.value.func)
                elif isinstance(node, ast.AnnAssign):
                    makers.setdefault(last_name(node.target), []).append(node.annotation)
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for one in (*node.args.args, *node.args.kwonlyargs):
                        if one.annotation is not None:
                            makers.setdefault(one.arg, []).append(one.annotation)
            module.asked[key] = makers
        return cast("dict[str, list[ast.expr]]", module.asked[key])

    def named(self, node: ast.expr, module: Module) -> Definition | None:
        """Return the function or class of the project that a name means, dotted or not."""
        first, _, rest = dotted(node).partition(".")
        found = self._project.member(module, first) if first else None
        if isinstance(found, Module) and rest:
            found = self._project.find(f"{module.imports.get(first, first)}.{rest}", module)
        return found if isinstance(found, Definition) else None

    def method(self, cls: Definition, name: str, depth: int = 0) -> Definition | None:
        """Return a method of a class or of the project's classes that it derives from."""
        if name in cls.methods:
            return cls.methods[name]
        for base in self._bases(cls) if depth < _DEEPEST else ():
            inherited = self.method(base, name, depth + 1)
            if inherited is not None:
                return inherited
        return None

    def _bases(self, cls: Definition) -> Iterator[Definition]:
        for base in cls.bases:
            first, _, rest = base.partition(".")
            found = self._project.member(cls.module, first)
            if isinstance(found, Module) and rest:
                found = self._project.member(found, rest)
            if isinstance(found, Definition) and found.kind == "class" and found is not cls:
                yield found

    def _derives(self, cls: Definition, base: Definition, depth: int = 0) -> bool:
        return cls is base or (
            depth < _DEEPEST and any(self._derives(one, base, depth + 1) for one in self._bases(cls))
        )


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and all below them, those of functions and classes as well."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, None)
            if isinstance(below, list):
                stack.extend(below)


def _for_evaluation(call: ast.Call) -> bool:
    """Say whether a call makes what does not train: make_step(model, train=False)."""
    return any(
        keyword.arg in {"train", "training", "is_train", "is_training"}
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in call.keywords
    )


def owner_of(node: ast.expr, module: Module) -> Definition | None:
    """Return the class whose method an expression stands in."""
    around = [
        one
        for one in module.functions
        if one.owner is not None and one.node.lineno <= node.lineno <= (one.node.end_lineno or one.node.lineno)
    ]
    return around[-1].owner if around else None  # the innermost stands last


def made_by(factory: Definition) -> Iterator[Definition]:
    """Yield the functions that a function defines and returns: `def make(): def step(): ...; return step`."""
    returned = {
        one.value.id
        for one in within(factory.node.body)
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Name)
    }
    yield from (
        one
        for one in factory.module.functions
        if one.name in returned and one.qualname == f"{factory.qualname}.{one.name}"
    )
