"""Optimizer steps: STEP, and the news of a step for whoever waits for one.

Through the hooks that torch has for all optimizers: they also fire for an optimizer that is used inside a backward
pass, by a closure, or by a class of the user's own. GradScaler calls no `step` where it skips one: no STEP then.
"""

from __future__ import annotations

import functools
import sys
import weakref
from time import perf_counter_ns
from typing import Any, Callable

from _whyidle import hooks, record
from _whyidle.ring import STEP

MOST = 65_535  # optimizers with a number of their own
_known: dict[int, list[Any]] = {}  # id -> [weak reference, number, start of its current step, ns, or 0]
numbers = 0  # given so far
_after_making: list[Callable[[], None]] = []
stepped_since_update: set[int] = set()  # ids of optimizers; `scaler` empties it

seen_to_step: set[int] = set()


def _entry(optimizer: Any) -> list[Any]:
    """Return what is known of an optimizer; ids come back, so a dead one is forgotten first."""
    global numbers
    key = id(optimizer)
    entry = _known.get(key)
    if entry is None or entry[0]() is not optimizer:
        entry = [
            weakref.ref(optimizer, functools.partial(_forget, key, _known, stepped_since_update, seen_to_step)),
            min(numbers, MOST),
            0,
        ]
        numbers += 1
        _known[key] = entry
    return entry


def _forget(key: int, known: dict[int, list[Any]], stepped: set[int], seen: set[int], _: Any) -> None:
    """Forget a dead optimizer. Uses no globals: optimizers die after them when Python ends."""
    known.pop(key, None)
    stepped.discard(key)
    seen.discard(key)


def after_making(callback: Callable[[], None]) -> None:
    """Have `callback()` called whenever an optimizer was made: training is about to begin."""
    _after_making.append(callback)


def install(torch: Any) -> None:
    """Hook all optimizers."""
    module = sys.modules.get("torch.optim.optimizer")
    if module is None:
        return
    is_compiling = hooks.compiling_test(torch)

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        if is_compiling():
            return
        try:
            _entry(optimizer)[2] = perf_counter_ns()
        except Exception:
            record.note_error()

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        if is_compiling():
            return
        end = perf_counter_ns()
        try:
            entry = _entry(optimizer)
            if entry[2]:
                record.put(STEP, entry[2], end - entry[2], entry[1])
                entry[2] = 0
                stepped_since_update.add(id(optimizer))
                seen_to_step.add(id(optimizer))
                hooks.stepped(optimizer)
        except Exception:
            record.note_error()

    _hook_all(module, before_step, after_step)


def _hook_all(module: Any, before_step: Any, after_step: Any) -> None:
    if getattr(module, "_whyidle", False):
        return
    for function in (before_step, after_step):
        hooks.skip_compiling(function)
    hooked = hasattr(module, "register_optimizer_step_pre_hook") and hasattr(
        module, "register_optimizer_step_post_hook"
    )
    if hooked:
        for handle in (
            module.register_optimizer_step_pre_hook(before_step),
            module.register_optimizer_step_post_hook(after_step),
        ):
            hooks.on_restore(handle.remove)

    def made(optimizer: Any) -> None:
        if not hooked:  # a torch without hooks for all optimizers: wrap the `step` of each class that is used
            _wrap_step(type(optimizer), before_step, after_step)
        for callback in _after_making:
            callback()

    _wrap_init(module.Optimizer, made)
    module._whyidle = True
    hooks.on_restore(lambda: delattr(module, "_whyidle"))
    hooks.on_restore(_after_making.clear)


def _wrap_init(base: Any, made: Callable[[Any], None]) -> None:
    original = base.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        try:
            made(self)
        except Exception:
            record.note_error()

    hooks.replace(base, "__init__", __init__)


def _wrap_step(kind: Any, before_step: Any, after_step: Any) -> None:
    if "step" not in vars(kind):
        kind = next(base for base in kind.__mro__ if "step" in vars(base))
    step = vars(kind)["step"]

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        before_step(self, args, kwargs)
        try:
            result = step(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        after_step(self, args, kwargs)
        return result

    hooks.replace(kind, "step", wrapper)
