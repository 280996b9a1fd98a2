"""Which cell of a sweep is run next, and when to stop: one file per strategy."""

from __future__ import annotations

from collections.abc import Sequence

import whyidle.sweep.strategies as package
from whyidle.discover import discover
from whyidle.errors import WhyIdleError
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.strategies.base import Machine, Search, Strategy, plain
from whyidle.sweep.strategies.grid import Grid

__all__ = ["Machine", "Search", "Strategy", "fitting", "names", "strategy", "usual"]


def names() -> tuple[str, ...]:
    """Return what `--strategy` knows."""
    return tuple(kind.name for kind in _kinds())


def fitting(parameters: Sequence[str]) -> str:
    """Return the strategy for what is given to -p, where none is asked for: a search for one without values."""
    for kind in _searches():
        if any("=" not in text and kind.word in plain(text) for text in parameters):
            return kind.name
    return Grid.name


def usual(name: str) -> tuple[str, ...]:
    """Return what a strategy varies where nothing is given to -p; nothing where it has to be."""
    return tuple(kind.usual for kind in _searches() if kind.name == name)


def strategy(name: str, parameters: Sequence[Parameter], machine: Machine) -> Strategy:
    """Return the strategy of that name.

    Raises:
        WhyIdleError: there is none, or these parameters are not for it.
    """
    for kind in _kinds():
        if kind.name == name:
            chosen = kind(parameters, machine)
            _check_name(chosen)
            return chosen
    raise WhyIdleError(f"no strategy is called {name!r}", f"--strategy is one of {', '.join(names())}")


def _check_name(chosen: Strategy) -> None:
    """Refuse to look for a number of workers among batch sizes."""
    if not isinstance(chosen, Search):
        return
    other = next((kind for kind in _searches() if kind.word in plain(chosen.parameter)), type(chosen))
    if chosen.word not in plain(chosen.parameter) and other is not type(chosen):
        raise WhyIdleError(
            f"--strategy {chosen.name} looks for the best {chosen.usual}, and -p {chosen.parameter} is none",
            f"--strategy {other.name} -p {chosen.parameter}, or --strategy {chosen.name} -p {chosen.usual}",
        )


def _searches() -> list[type[Search]]:
    return [kind for kind in _kinds() if issubclass(kind, Search)]


def _kinds() -> list[type[Strategy]]:
    return discover(package, Strategy)  # type: ignore[type-abstract]
