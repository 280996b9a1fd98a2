"""Arguments of the job's DataLoaders that are not as its script has them: what `whyidle run --set loader:…` asks for.

A loader gets them when it is made, whoever makes it, as if its call said so: the attributes are those, and frameworks
that make a loader anew from another one find what was set. What makes no sense or an error without workers goes with
the last of them. A loader that torch will not make like that is made as the script has it.

Whether a setting came into force is seen when a loader is first iterated, and noted (docs/settings.md): `set` where it
is in force, `not_set` where it is not, with why. `switches` does the same for torch.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import multiprocessing
import sys
import weakref
from types import FrameType
from typing import Any

from _whyidle import evaluation, facts, place, record

OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
NEAR = 8  # frames that are asked whose loader it is
EVALUATES = "the loader looks like one for evaluation"

_evaluating: weakref.WeakSet[Any] = weakref.WeakSet()  # data sets of loaders that do, for when one is made anew
_why: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()  # loaders: what they did not get


def asked(kind: str) -> dict[str, Any]:
    """Return the settings of a kind ("loader", "torch") that were asked for, by their names without it."""
    given = record.options().get("set")
    if not isinstance(given, dict):
        return {}
    return {name[len(kind) + 1 :]: value for name, value in given.items() if str(name).startswith(kind + ":")}


def note(name: str, value: Any, where: str) -> None:
    """Note that a setting is in force."""
    facts.add_setting("set", spelled(value), where, name)


def note_failed(name: str, why: str, where: str) -> None:
    """Note that a setting is not in force, and why."""
    facts.add_setting("not_set", why, where, name)


class Call:
    """One call of DataLoader's `__init__`, whose arguments can be changed by name."""

    def __init__(self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.parameters = signature.parameters
        self.before: dict[str, Any] = {}  # attributes of the loader
        self.args = list(args)
        self.kwargs = dict(kwargs)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._positions = [name for name, each in self.parameters.items() if each.kind in kinds][1:]  # but self

    def get(self, name: str) -> Any:
        """Return an argument, as it was given or else its default."""
        if name in self.kwargs:
            return self.kwargs[name]
        if name in self._positions[: len(self.args)]:
            return self.args[self._positions.index(name)]
        return self.parameters[name].default if name in self.parameters else None

    def put(self, name: str, value: Any) -> None:
        """Give an argument another value."""
        if name in self._positions[: len(self.args)]:
            self.args[self._positions.index(name)] = value
        else:
            self.kwargs[name] = value

    def drop(self, name: str) -> None:
        """Give an argument its default."""
        if name in self._positions[: len(self.args)]:
            self.args[self._positions.index(name)] = self.parameters[name].default
        else:
            self.kwargs.pop(name, None)


def changed(signature: inspect.Signature, loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """Return the call that makes a loader as it was asked for; None where it is to be made as the script has it."""
    try:
        wanted = {} if _in_worker() else asked("loader")
        if not wanted:
            return None
        call = Call(signature, args, kwargs)
        call.before = dict(vars(loader))
        why: dict[str, str] = {}
        for name, value in wanted.items():
            why[name] = _why_not(call, name, wanted)
            if not why[name]:
                call.put(name, value)
        if wanted.get("num_workers") == 0:
            for name in OF_WORKERS:
                call.drop(name)
        _why[loader] = {name: text for name, text in why.items() if text}
    except Exception:
        record.note_error("arguments of a DataLoader")
        return None
    return call


def refused(loader: Any, call: Call) -> None:
    """Note that torch does not make a loader as it was asked for: the exception that is being handled says why.

    The loader is then as it was before, to be made as the script has it.
    """
    record.pass_on()
    vars(loader).clear()
    vars(loader).update(call.before)
    error = sys.exc_info()[1]
    text = "DataLoader refused: %s: %s" % (type(error).__name__, str(error).split("\n")[0])
    _why[loader] = dict.fromkeys(asked("loader"), text)


def iterated(loader: Any, where: str) -> None:
    """Note which settings are in force in a loader that is iterated for the first time.

    A loader that is iterated without gradients evaluates, and need not have another batch size.
    """
    for name, value in asked("loader").items():
        now = _in_force(loader, name)
        if now == value:
            note("loader:" + name, value, where)
            continue
        why = _why.get(loader, {}).get(name)
        if name == "batch_size" and (why == EVALUATES or not sys.modules["torch"].is_grad_enabled()):
            continue
        why = why or "it is %s: changed after the loader was made" % spelled(now)
        note_failed("loader:" + name, why, where)


def _in_force(loader: Any, name: str) -> Any:
    if name == "multiprocessing_context":
        context = getattr(loader, name, None)
        return getattr(context, "_name", None) or (None if context is None else str(context))
    value = getattr(loader, name, None)
    if name == "batch_size" and value is None:
        value = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return value


def _why_not(call: Call, name: str, wanted: dict[str, Any]) -> str:
    """Return why a loader does not get an argument; empty where it does."""
    if name not in call.parameters:
        return "DataLoader of this torch has no such argument"
    if name in OF_WORKERS and not wanted.get("num_workers", call.get("num_workers")):
        return "the loader has no workers"
    return _why_not_batch_size(call) if name == "batch_size" else ""


def _why_not_batch_size(call: Call) -> str:
    """Return why a loader keeps its batch size: it evaluates, makes no batches, or was made of one that has it."""
    frames = _frames()
    dataset = call.get("dataset")
    if _looks_like_evaluation(call, frames):
        with contextlib.suppress(TypeError):  # a list, say
            _evaluating.add(dataset)
        return EVALUATES
    if call.get("batch_sampler") is not None:
        return "the loader's batch_sampler makes the batches"
    if call.get("batch_size") is None:
        return "the loader does not make batches"
    if any(_module(frame).split(".")[0] == "accelerate" for frame in frames):
        return "accelerate made it of another loader"  # of whose batch size each rank may get a part
    return ""


def _looks_like_evaluation(call: Call, frames: list[Any]) -> bool:
    """Return whether a loader is made as those for evaluation are; one that shuffles is for training."""
    sampler = call.get("sampler")
    draws = sampler is not None and type(sampler).__name__ != "SequentialSampler" and getattr(sampler, "shuffle", True)
    if call.get("shuffle") or draws:
        return False
    dataset = call.get("dataset")
    own = getattr(dataset, "__dict__", {})
    if (
        own.get("train") is False
        or evaluation.is_named_in(str(own.get("split", "")))
        or not sys.modules["torch"].is_grad_enabled()
    ):
        return True
    made = next((frame for frame in frames if not place.is_library(frame.f_code.co_filename)), None)
    if made is None:  # a framework makes it anew of another
        try:
            return dataset in _evaluating
        except TypeError:
            return False
    line = linecache.getline(made.f_code.co_filename, made.f_lineno)
    return any(evaluation.is_named_in(text) for text in (line, *(frame.f_code.co_name for frame in frames)))


def _frames() -> list[Any]:
    """Return the frames nearest to the call that makes a loader, from the inside, without ours and torch's."""
    frames: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < NEAR:
        if not _module(frame).startswith(("_whyidle", "torch.", "torchdata.")):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _in_worker() -> bool:
    """Return whether this process may not have children of its own: a loader inside a worker stays as it is."""
    return record._is_worker() or multiprocessing.current_process().daemon


def spelled(value: Any) -> str:
    """Return a value as `--set` takes it."""
    return ("off", "on")[value] if isinstance(value, bool) else str(value)
