"""What the hooks share: how a function of the job is wrapped and unwrapped, and who is told of steps and waits.

A wrapper yields at once while torch.compile traces it, hides its own frame from tracebacks, and is skipped by the
compiler where it is called between compiled parts: graphs and graph breaks are the same with us and without.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any, Callable

from _whyidle import record

_replaced: list[tuple[Any, str, Any, Any]] = []  # owner, name, what it was or ABSENT, what it is now
_after_step: list[Callable[[int, Any], Any]] = []
_before_backward: list[Callable[[int, Any, Any], Any]] = []
_after_iterate: list[Callable[[int, Any, Any], Any]] = []
_around: dict[str, list[Any]] = {"wait": []}
_undo: list[Callable[[], Any]] = []
_failures: Counter[Any] = Counter()  # by callback
_ours: weakref.WeakSet[Any] = weakref.WeakSet()  # not a mark on the wrappers: they may be pickled
_skipped: set[str] = set()  # our modules of which torch.compile was told
ABSENT = object()
UNCOUNTED = "<whyidle, as importlib._bootstrap>"  # at the end of a file's name; see `warnings._is_internal_frame`
MOST_FAILURES = 3  # of one callback: what fails so often (a GPU that is gone) would fail at every step
steps = 0  # of all optimizers of this process


def _never() -> bool:
    return False


def compiling_test(torch: Any) -> Callable[[], bool]:
    """Return torch's own test of whether torch.compile is tracing the code that asks."""
    test = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if test is None:  # before 2.1
        test = getattr(getattr(torch, "_utils", None), "is_compiling", None)
    return test if test is not None else _never


def is_compiling() -> bool:
    """Return whether torch.compile is tracing; hooks in the job's path ask `compiling_test`'s function directly."""
    torch = sys.modules.get("torch")
    return torch is not None and compiling_test(torch)()


def is_ours(function: Any) -> bool:
    """Return whether a function is a wrapper of ours."""
    return isinstance(function, types.FunctionType) and function in _ours


def replace(owner: Any, name: str, wrapper: Any) -> None:
    """Put `wrapper` in the place of a function, as its double: name, module, signature. Twice does nothing.

    Args:
        owner: a module or class.
        name: of its attribute.
        wrapper: calls what stood there before.
    """
    before = vars(owner).get(name, ABSENT)
    if is_ours(before):
        return
    original = getattr(owner, name)
    if is_ours(original):  # inherited from a class that has a wrapper already
        original = original.__wrapped__
    as_double(wrapper, original)
    setattr(owner, name, wrapper)
    _replaced.append((owner, name, before, wrapper))


def as_double(wrapper: Any, original: Any) -> None:
    """Make a wrapper look like what it wraps, and be left alone by torch.compile.

    torch.compile decides by how the name of a function's file begins whether it looks inside: so it begins as that of
    the original. How it ends decides whether `warnings` counts the frame: a warning is about the caller's line.
    """
    functools.update_wrapper(wrapper, original)
    _ours.add(wrapper)
    code = getattr(original, "__code__", None)
    if code is not None:
        wrapper.__code__ = wrapper.__code__.replace(co_filename=code.co_filename.replace(UNCOUNTED, "") + UNCOUNTED)
    skip_compiling(wrapper)


def replace_same(owner: Any, name: str, wrapper: Any) -> None:
    """Put a wrapper that stands in one place into another one where its function is known too."""
    _replaced.append((owner, name, vars(owner).get(name, ABSENT), wrapper))
    setattr(owner, name, wrapper)


def on_restore(undo: Callable[[], Any]) -> None:
    """Have `undo` called when the recording stops."""
    _undo.append(undo)


def restore() -> None:
    """Take every wrapper out again over which nobody has put another."""
    for owner, name, before, wrapper in reversed(_replaced):
        if vars(owner).get(name) is not wrapper:
            continue
        if before is ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    del _replaced[:]
    while _undo:
        _safely(_undo.pop())
    del _after_step[:], _after_iterate[:], _before_backward[:], waits[:]
    _failures.clear()


class _Gate:
    """What a wrapper inside a user's class asks first.

    Such a class may be pickled by value (cloudpickle, dill), wrapper and all, and loaded where there is no whyidle.
    There the gate is a function of the standard library that returns None, whatever it is given: closed.
    """

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[Any], Any]) -> None:
        self.begin = begin

    def __call__(self, target: Any) -> Any:
        return self.begin(target)

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")


def gated(
    kind: Any, name: str, own: Any, is_compiling: Callable[[], bool], begin: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a method for a class that may be the user's; it refers to nothing of ours except through a gate.

    Args:
        kind: the class.
        name: of the method.
        own: what the class has there itself; None where it inherits. Then the method is looked up at each call, since
            others (torch.fx) exchange it for a while.
        is_compiling: see `compiling_test`; `bool` (False) for what is never compiled. It must be importable anywhere.
        begin: called with the object; returns None, or something with an `end()`.
    """
    gate = _Gate(begin)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return own(self, *args, **kwargs) if own is not None else getattr(super(kind, self), name)(*args, **kwargs)
        call = gate(self)
        try:
            return own(self, *args, **kwargs) if own is not None else getattr(super(kind, self), name)(*args, **kwargs)
        except BaseException as error:
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if call is not None:
                call.end()

    return method


def hide(error: BaseException) -> None:
    """Take the frame that handles `error` off its traceback: a user's error shows the user's frames."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def skip_compiling(function: Any) -> None:
    """Tell torch.compile not to compile this function of ours when it meets it by itself.

    This is what `torch._dynamo.disable` arrives at, without importing torch._dynamo, which takes seconds.
    """
    code = getattr(function, "__code__", None)
    torch = sys.modules.get("torch")
    frames = getattr(getattr(getattr(torch, "_C", None), "_dynamo", None), "eval_frame", None)
    if code is None or frames is None:
        return
    for each in _codes(code):
        if hasattr(frames, "skip_code"):
            frames.skip_code(each)
        elif hasattr(frames, "set_code_exec_strategy"):
            action = frames._FrameAction
            frames.set_code_exec_strategy(each, frames._FrameExecStrategy(action.SKIP, action.DEFAULT))


def skip_compiling_package() -> None:
    """The same for all functions and methods of this package; those that were told already cost nothing."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("_whyidle.") or name in _skipped:
            continue
        _skipped.add(name)
        for value in list(vars(module).values()):
            if getattr(value, "__module__", None) == name:
                for each in [value, *vars(value).values()] if isinstance(value, type) else [value]:
                    skip_compiling(each)


def _safely(function: Callable[..., Any], *args: Any, of: list[Any] | None = None, entry: Any = None) -> Any:
    """Call a callback; what goes wrong in it is noted, and costs the job nothing more after a few times.

    Args:
        function: the callback.
        args: what it gets.
        of: the list from which it is taken when it has failed too often.
        entry: what stands for it there.
    """
    try:
        return function(*args)
    except Exception:
        _failed(of, entry)
        return None


def _failed(callbacks: list[Any] | None, entry: Any) -> None:
    """Note what went wrong, and take out what has done so too often."""
    record.note_error()
    if callbacks is not None:
        _failures[entry] += 1
        if _failures[entry] >= MOST_FAILURES and entry in callbacks:
            callbacks.remove(entry)


def _tell(callbacks: list[Any], *args: Any) -> None:
    """Call those who want to know; who returns False does not want to know any more."""
    for callback in tuple(callbacks):
        try:
            if callback(*args) is False and callback in callbacks:
                callbacks.remove(callback)
        except Exception:
            _failed(callbacks, callback)


def after_step(callback: Callable[[int, Any], Any]) -> None:
    """Have `callback(count, optimizer)` called after every optimizer step, until it returns False.

    Args:
        callback: gets the number of steps of this process so far, all optimizers together, and the optimizer.
    """
    _after_step.append(callback)


def stepped(optimizer: Any) -> None:
    """Tell of an optimizer step."""
    global steps
    steps += 1
    if _after_step:
        _tell(_after_step, steps, optimizer)


def before_backward(callback: Callable[[int, Any, Any], Any]) -> None:
    """Have `callback(start, args, kwargs)` called before every backward pass, until it returns False.

    Args:
        callback: gets when it begins, ns, and the arguments of `torch.autograd.backward`.
    """
    _before_backward.append(callback)


def goes_back(start: int, args: Any, kwargs: Any) -> None:
    """Tell of a backward pass that begins."""
    if _before_backward:
        _tell(_before_backward, start, args, kwargs)


def after_iterate(callback: Callable[[int, Any, Any], Any]) -> None:
    """Have `callback(number, loader, frame)` called when a DataLoader starts an epoch, until it returns False.

    Args:
        callback: gets the loader's number, the loader, and the frame that asked for its iterator.
    """
    _after_iterate.append(callback)


def iterated(number: int, loader: Any, frame: Any) -> None:
    """Tell of a DataLoader's new iterator."""
    _tell(_after_iterate, number, loader, frame)


def around(name: str) -> list[Any]:
    """Return the list of callbacks around something, to append to.

    Args:
        name: "wait": pairs (before_wait, after_wait). `before_wait(kind)` is called when a BATCH or a SAVE begins
            and returns a token, `after_wait(token, sequence)` when it was recorded; sequence -1: it was not.
    """
    return _around.setdefault(name, [])


waits = around("wait")  # hooks look here first, so that no callbacks cost nothing


def before_wait(kind: int) -> list[tuple[Any, Any]]:
    """Tell that a wait begins. Returns what `after_wait` needs."""
    return [(pair, _safely(pair[0], kind, of=waits, entry=pair)) for pair in tuple(waits)]


def after_wait(tokens: list[tuple[Any, Any]], sequence: int) -> None:
    """Tell that a wait ended and under which sequence it was recorded."""
    for pair, token in tokens:
        _safely(pair[1], token, sequence, of=waits, entry=pair)


def after_fork() -> None:
    """Count from the beginning in a forked child."""
    global steps
    steps = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
