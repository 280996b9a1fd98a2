"""Find every subclass of a base in a package, so that adding one is adding a file."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def discover(package: ModuleType, base: type[T]) -> list[type[T]]:
    """Return the concrete subclasses of `base` that `package` and its sub-packages define, in order of module name."""
    found: list[type[T]] = []
    for info in sorted(pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda info: info.name):
        found += defined(importlib.import_module(info.name), base)
    return found


def defined(module: ModuleType, base: type[T]) -> list[type[T]]:
    """Return the concrete subclasses of `base` that a module itself defines."""
    return [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and member is not base
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
    ]
