"""What is known of the whole program that a file belongs to, once the engine has followed it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal

from whyidle.lint.events import Called, Event, Looped, Set, Stepped
from whyidle.lint.source import Source
from whyidle.lint.values import Value


@dataclass(slots=True)
class LoaderUse:
    """A DataLoader of the program: the call that builds it, and what becomes of it."""

    call: Called
    arguments: Mapping[str, Value]  # by name, positions resolved; dicts that are spread are looked into
    complete: bool  # False: arguments are passed on that the source does not spell out
    iterated: list[Looped] = field(default_factory=list)
    per_epoch: bool = False  # iterated again and again: in a loop over epochs, or in a function called in one
    moved: list[Called] = field(default_factory=list)  # copies of its batches to the accelerator
    trains: bool = False  # some training loop takes from it

    def constant(self, name: str) -> object:
        """Return an argument that is a known constant, else None."""
        value = self.arguments.get(name)
        return value.constant if value is not None and value.known else None


@dataclass(slots=True)
class Job:
    """A file, the functions of the project that it calls, and all that happened in them."""

    source: Source
    events: list[Event] = field(default_factory=list)  # all, in the order in which they were met
    loaders: list[LoaderUse] = field(default_factory=list)
    settings: dict[str, Set] = field(default_factory=dict)  # the last of each name
    defaults: dict[str, Value] = field(default_factory=dict)  # of command line arguments, by their name in the code
    default_nodes: dict[str, ast.Call] = field(default_factory=dict)  # add_argument calls of these
    gpu: Literal["yes", "assumed", "no"] = "assumed"  # no: all tensors stay on the CPU, and the source says so
    trains: bool = False  # somewhere there is a backward pass or an optimizer's step
    frameworks: frozenset[str] = frozenset()  # that it imports: "torch", "lightning", "accelerate", "transformers"

    _called: dict[str, list[tuple[int, Called]]] = field(default_factory=dict, repr=False)  # by name, with their place
    _sorted: int = 0  # so many events were put there

    def calls(self, *names: str) -> Sequence[Called]:
        """Return the calls of these names, dotted, or of methods (".backward")."""
        for number, event in enumerate(self.events[self._sorted :], self._sorted):
            if isinstance(event, Called):
                self._called.setdefault(event.name, []).append((number, event))
        self._sorted = len(self.events)
        found = [one for name in names for one in self._called.get(name, ())]
        return [event for _, event in (sorted(found, key=itemgetter(0)) if len(names) > 1 else found)]

    def steps(self) -> Sequence[Stepped]:
        """Return the training steps that were followed."""
        return [event for event in self.events if isinstance(event, Stepped)]
