"""Calls of outermost modules: FORWARD.

Which modules are called by the job itself, and not by another module, shows only when they are called. So for the first
steps `Module.__call__` is ours: an outermost call of a module with parameters makes its class one that is watched, by a
`__call__` of its own, and after a few steps `Module.__call__` is torch's again. Nothing is left that costs time in each
layer, and nothing hangs on the modules themselves: hooks there would be pickled and copied with the model, TorchScript
would compile them with it, and hooks for all modules make torch.compile warn.

torch.compile has a short cut for modules whose `__call__` is torch's own. So ours stands aside while a newly found root
runs, and while torch.compile traces.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from time import perf_counter_ns
from typing import Any, Callable

from _whyidle import backward, hooks, optimizer, record
from _whyidle.ring import FORWARD

TRAINING, GRADIENTS = 1, 2  # flags
STEPS = 5  # optimizer steps for which roots are looked for, again when an optimizer was made
CALLS = 2_000  # outermost calls after which looking ends in any case
TURNS = 64  # how often `Module.__call__` may change: each change makes Python forget what it knows of all modules
LAST = 65_535  # the largest number of a module


class _Thread(threading.local):
    inside = False  # of a call of an outermost module


_thread = _Thread()
_known: dict[int, tuple[Any, int]] = {}  # id of a module -> (weak reference, its number, or -1: not watched)
_numbers = 0
_before_training: list[Callable[[Any, int], None]] = []
_search: _Search | None = None


class _Search:
    """Looks for outermost modules while `Module.__call__` is ours."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.module = torch.nn.Module
        self.original = vars(self.module)["__call__"]
        self.ours = _first_call(self, torch)
        self.looking = False
        self.aside = 0
        self.turns = self.calls = self.steps = 0

    def begin(self) -> None:
        """Look from now on."""
        self.steps = self.calls = 0
        self.meet_compiler()
        if not self.looking and self.turns < TURNS:
            self.looking = True
            self._turn(self.original, self.ours)

    def end(self) -> None:
        """Look no more."""
        self.looking = False
        self._turn(self.ours, self.original)

    def meet_compiler(self) -> None:
        """Be told when torch.compile traces; its reset forgets us."""
        handler: Any = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is not None and self.stand_aside not in handler.start_callbacks:
            handler.register_start_callback(self.stand_aside)
            handler.register_end_callback(self.come_back)

    def leave_compiler(self) -> None:
        """Undo `meet_compiler`."""
        handler: Any = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is not None and self.stand_aside in handler.start_callbacks:
            handler.remove_start_callback(self.stand_aside)
            handler.remove_end_callback(self.come_back)

    def stand_aside(self, *_: Any) -> None:
        """Give torch its `__call__` back for a while."""
        self.aside += 1
        if self.looking:
            self._turn(self.ours, self.original)

    def come_back(self, *_: Any) -> None:
        """Go on after `stand_aside`, unless it has become too often."""
        self.aside = max(self.aside - 1, 0)
        if self.looking and not self.aside:
            if self.turns < TURNS:
                self._turn(self.original, self.ours)
            else:
                self.looking = False

    def _turn(self, before: Any, after: Any) -> None:
        if vars(self.module).get("__call__") is before:  # else somebody's who came after us
            self.module.__call__ = after
            self.turns += 1

    def after_step(self, _count: int, _optimizer: Any) -> None:
        """Count steps, and end with the last of them."""
        if self.looking:
            self.steps += 1
            if self.steps >= STEPS:
                self.end()

    def number(self, module: Any) -> int:
        """Return the number of an outermost module, whose class is watched from now on; -1: not to be recorded."""
        if not self.looking:
            return -1
        self.calls += 1
        if self.calls > CALLS:
            self.end()
            return -1
        number = number_of(module)
        if number >= 0:
            _watch(type(module), self.torch)
        return number


def number_of(module: Any) -> int:
    """Return a module's number, in order of first use; -1 for what is no root.

    A module without parameters is a loss, a metric or a transform. One that is called while a backward pass runs is
    recomputed by it, perhaps on another thread.
    """
    global _numbers
    if backward.running:
        return -1
    known = _known.get(id(module))
    if known is not None and known[0]() is module:
        return known[1]
    number = -1
    if next(iter(module.parameters()), None) is not None:
        number = min(_numbers, LAST)
        _numbers += 1
    key = id(module)
    # `pop` alone, with the reference as its default: modules die after this module's globals when Python ends.
    _known[key] = (weakref.ref(module, functools.partial(_known.pop, key)), number)
    return number


def _first_call(search: _Search, torch: Any) -> Any:
    """Return the `__call__` that all modules have while roots are looked for."""
    is_compiling = hooks.compiling_test(torch)
    original = search.original

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        call = _begin(self, search.number) if search.looking and not _thread.inside else None
        if call is not None:
            search.stand_aside()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            if call is not None:
                call.end()
                search.come_back()

    return __call__


def _watch(kind: Any, torch: Any) -> None:
    """Give a class a `__call__` that records calls of its outermost objects."""
    own = vars(kind).get("__call__")
    if not hooks.is_ours(own):
        hooks.replace(kind, "__call__", hooks.gated(kind, "__call__", own, hooks.compiling_test(torch), _begin))


class _Call:
    """A call of an outermost module that is under way."""

    __slots__ = ("flags", "number", "start")

    def __init__(self, number: int, flags: int) -> None:
        self.number = number
        self.flags = flags
        self.start = perf_counter_ns()

    def end(self) -> None:
        """Record it."""
        record.put(FORWARD, self.start, perf_counter_ns() - self.start, self.number, self.flags)
        _thread.inside = False


def before_training(change: Callable[[Any, int], None]) -> None:
    """Have `change(module, number)` called before an outermost module is called to train, each time."""
    _before_training.append(change)


def _begin(module: Any, find: Any = number_of) -> _Call | None:
    """Note that a module is called; None where the call is not to be recorded."""
    if _thread.inside:
        return None
    try:
        number = find(module)
        if number < 0:
            return None
        flags = TRAINING if getattr(module, "training", False) else 0
        if sys.modules["torch"].is_grad_enabled():
            flags |= GRADIENTS
        if _before_training and flags == TRAINING | GRADIENTS:
            for change in _before_training:
                change(module, number)
    except Exception:
        record.note_error()
        return None
    _thread.inside = True
    return _Call(number, flags)


def install(module: Any) -> None:
    """Begin to look for roots, or make up with the part of torch.compile that was imported."""
    global _search
    if module.__name__ == "torch" and _search is None:
        _search = _Search(module)
        hooks.as_double(_search.ours, _search.original)
        hooks.after_step(_search.after_step)
        optimizer.after_making(_search.begin)
        hooks.on_restore(_forget)
        _search.begin()
    if _search is None:
        return
    if module.__name__ == "torch._dynamo.utils":
        # It takes whatever `__call__` is there now for torch's own.
        if getattr(module, "unpatched_nn_module_call", None) is _search.ours:
            module.unpatched_nn_module_call = _search.original
    elif module.__name__ == "torch._dynamo.callback":
        _search.meet_compiler()


def _forget() -> None:
    """End the search when the recording stops."""
    global _search
    if _search is not None:
        _search.end()
        _search.leave_compiler()
    _search = None
    del _before_training[:]
