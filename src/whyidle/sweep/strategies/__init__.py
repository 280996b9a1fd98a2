"""Which cell of a sweep is run next, and when to stop: one file per strategy."""

from __future__ import annotations

from collections.abc import Sequence

import whyidle.sweep.strategies as package
from whyidle.discover import discover
from whyidle.errors import WhyIdleError
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.strategies.base import Machine, Strategy

__all__ = ["Machine", "Strategy", "names", "strategy"]


def names() -> tuple[str, ...]:
    """Return what `--strategy` knows."""
    return tuple(kind.name for kind in _kinds())


def strategy(name: str, parameters: Sequence[Parameter], machine: Machine) -> Strategy:
    """Return the strategy of that name.

    Raises:
        WhyIdleError: there is none, or these parameters are not for it.
    """
    for kind in _kinds():
        if kind.name == name:
            return kind(parameters, machine)
    raise WhyIdleError(f"no strategy is called {name!r}", f"--strategy is one of {', '.join(names())}")


def _kinds() -> list[type[Strategy]]:
    return discover(package, Strategy)  # type: ignore[type-abstract]
