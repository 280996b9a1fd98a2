"""The modules of a project: what each defines and imports, and which file an import of the project's own means."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, cast

from whyidle.lint.nodes import dotted, within
from whyidle.lint.source import Source

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True, eq=False)
class Definition:
    """A function or class of the project."""

    kind: Literal["function", "class"]
    node: Function | ast.ClassDef
    module: Module
    qualname: str
    owner: Definition | None = None  # the class of a method
    methods: dict[str, Definition] = field(default_factory=dict)  # of a class
    bases: tuple[str, ...] = ()  # of a class, dotted

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(slots=True, eq=False)
class Module:
    """One file of the project, with what it defines at the top level and what its imports are called."""

    source: Source
    imports: dict[str, str] = field(default_factory=dict)  # name in the file: dotted name, with dots where relative
    definitions: dict[str, Definition] = field(default_factory=dict)
    functions: list[Definition] = field(default_factory=list)  # all of them, methods too, in order of the source
    named: dict[str, list[Definition]] = field(default_factory=dict)  # the same by their names
    by_node: dict[int, Definition] = field(default_factory=dict)  # all definitions, by identity of the node
    stars: tuple[str, ...] = ()  # modules of `from x import *`
    asked: dict[tuple[str, int], object] = field(default_factory=dict)  # answers about its nodes, by their identity

    # What a project found of it: what its dotted names mean, and the folders that it stands in.
    found: dict[str, Definition | Module | None] = field(default_factory=dict)
    folders: tuple[Path, ...] | None = None

    def within(self, block: Sequence[ast.stmt]) -> list[ast.AST]:
        """Return the statements of a block and all below them, as `nodes.within` does; each block is walked once."""
        key = ("within", id(block))
        if key not in self.asked:
            self.asked[key] = within(block)
        return cast("list[ast.AST]", self.asked[key])

    def by_method(self, name: str) -> list[Definition]:
        """Return the methods of this name, of whatever class of the file."""
        return [one for one in self.named.get(name, ()) if one.owner is not None]


def module_of(source: Source) -> Module:
    """Return what a file defines and imports."""
    module = Module(source)
    _collect(module, source.tree.body, "", None)
    module.stars = tuple(
        "." * node.level + (node.module or "")
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    )
    return module


def _collect(module: Module, body: Iterable[ast.stmt], prefix: str, owner: Definition | None) -> None:
    for node in _statements(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                module.imports[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module + "." if node.module else "")
            for alias in node.names:
                module.imports[alias.asname or alias.name] = base + alias.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made = Definition("function", node, module, prefix + node.name, owner)
            module.functions.append(made)
            module.named.setdefault(node.name, []).append(made)
            module.by_node[id(node)] = made
            (module.definitions if not prefix else {}).setdefault(node.name, made)
            if owner is not None:
                owner.methods[node.name] = made
            _collect(module, node.body, f"{prefix}{node.name}.", None)
        elif isinstance(node, ast.ClassDef):
            made = Definition("class", node, module, prefix + node.name, None, {}, tuple(map(dotted, node.bases)))
            module.by_node[id(node)] = made
            (module.definitions if not prefix else {}).setdefault(node.name, made)
            _collect(module, node.body, f"{prefix}{node.name}.", made)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and those in blocks within them, but not what functions and classes hold."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, ()))
        for handler in getattr(node, "handlers", ()):
            yield from _statements(handler.body)
        for case in getattr(node, "cases", ()):
            yield from _statements(case.body)


class Project:
    """Finds the module that an import means, among files below a root; each file is read once."""

    def __init__(self, roots: Iterable[Path] = (), read: Callable[[Path], Source | None] | None = None) -> None:
        """Look for modules below `roots` with `read`, which returns None for what cannot be parsed."""
        self._roots = [root.resolve() for root in roots]
        self._read = read
        self._modules: dict[Path, Module | None] = {}
        self._folders: dict[Path, frozenset[str]] = {}

    def module(self, source: Source) -> Module:
        """Return the module of a file that was read already."""
        path = source.path.resolve()
        known = self._modules.get(path)
        if known is None or known.source is not source:
            known = self._modules[path] = module_of(source)
        return known

    def find(self, dotted: str, asker: Module, depth: int = 0) -> Definition | Module | None:
        """Return the function, class or module that a dotted name means; None if it is none of the project."""
        if depth > 4 or not dotted:
            return None
        if dotted not in asker.found:
            asker.found[dotted] = None  # imports may go round in circles
            asker.found[dotted] = self._find(dotted, asker, depth)
        return asker.found[dotted]

    def _find(self, dotted: str, asker: Module, depth: int) -> Definition | Module | None:
        level = len(dotted) - len(dotted.lstrip("."))
        names = dotted[level:].split(".")
        around = self._around(asker)
        folders = [one for one in (around[level - 1 : level] if level else around) if names[0] in self._names(one)]
        for parts in range(len(names), 0, -1):
            found = self._file(names[:parts], folders)
            if found is None:
                continue
            if parts == len(names):
                return found
            if parts == len(names) - 1:
                return self.member(found, names[-1], depth)
            return None
        return None

    def member(self, module: Module, name: str, depth: int = 0) -> Definition | Module | None:
        """Return what a module calls so: its own, or what it imports itself."""
        if name in module.definitions:
            return module.definitions[name]
        if name in module.imports:
            return self.find(module.imports[name], module, depth + 1)
        for star in module.stars:
            found = self.find(f"{star}.{name}", module, depth + 1)
            if found is not None:
                return found
        return None

    def _file(self, names: list[str], folders: Iterable[Path]) -> Module | None:
        for folder in folders:
            place = folder.joinpath(*names)
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                found = self._at(file)
                if found is not None:
                    return found
        return None

    def _around(self, asker: Module) -> tuple[Path, ...]:
        """Return the folders that a module stands in, as far as the project goes, the nearest first."""
        if asker.folders is None:
            roots = set(self._roots)
            parents = asker.source.path.resolve().parents
            asker.folders = tuple(one for one in parents if roots.intersection((one, *one.parents)))
        return asker.folders

    def _names(self, folder: Path) -> frozenset[str]:
        """Return the names of modules and packages in a folder."""
        if folder not in self._folders:
            try:
                self._folders[folder] = frozenset(one.name.removesuffix(".py") for one in folder.iterdir())
            except OSError:
                self._folders[folder] = frozenset()
        return self._folders[folder]

    def _at(self, file: Path) -> Module | None:
        if file not in self._modules:
            source = self._read(file) if self._read is not None and file.is_file() else None
            self._modules[file] = None if source is None else module_of(source)
        return self._modules[file]
