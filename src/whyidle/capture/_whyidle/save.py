"""Writers of checkpoints: SAVE for `torch.save`, torch.distributed.checkpoint and safetensors; the outermost counts."""

from __future__ import annotations

import os
import sys
import threading
from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import SAVE

# Functions to wrap by module, and which argument says where the file goes: by position, else by name.
WRITERS: dict[str, dict[str, tuple[int, str] | None]] = {
    "torch.serialization": {"save": (1, "f")},
    "torch.distributed.checkpoint.state_dict_saver": {"save": None, "async_save": None},
    "safetensors.torch": {"save_file": (1, "filename"), "save_model": (1, "filename")},
}
ALIASES = {("torch.serialization", "save"): "torch"}  # modules that had the function before we came


class _Thread(threading.local):
    saving = False


_thread = _Thread()


def install(module: Any) -> None:
    """Wrap the writers of a module."""
    name = "torch.serialization" if module.__name__ == "torch" else module.__name__
    for function, target in WRITERS[name].items():
        if hasattr(sys.modules[name], function):
            _wrap(sys.modules[name], function, target)


def _wrap(module: Any, name: str, target: tuple[int, str] | None) -> None:
    original = getattr(module, name)
    is_compiling = hooks.compiling_test(sys.modules["torch"])

    def save(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        writing = _begin(target, args, kwargs)
        try:
            result = original(*args, **kwargs)
            if writing is not None:
                writing.done()
            return result
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            if writing is not None:
                writing.leave()

    hooks.replace(module, name, save)
    alias = sys.modules.get(ALIASES.get((module.__name__, name), ""))
    if alias is not None and getattr(alias, name, None) is original:
        hooks.replace_same(alias, name, getattr(module, name))


class _Writing:
    """A checkpoint that is being written by this thread."""

    __slots__ = ("before", "sequence", "start", "tokens", "where")

    def __init__(self, where: Any) -> None:
        self.where = where
        self.before = _position(where)
        self.sequence = -1
        self.tokens = hooks.before_wait(SAVE) if hooks.waits else None
        _thread.saving = True
        self.start = perf_counter_ns()

    def done(self) -> None:
        """Record it."""
        end = perf_counter_ns()
        self.sequence = record.put(SAVE, self.start, end - self.start, _written(self.where, self.before))

    def leave(self) -> None:
        """Whether it was written or failed, the next one is an outermost one again."""
        _thread.saving = False
        if self.tokens is not None:
            hooks.after_wait(self.tokens, self.sequence)


def _begin(target: tuple[int, str] | None, args: Any, kwargs: Any) -> _Writing | None:
    """Note that a checkpoint is being written; None for a part of one."""
    try:
        return None if _thread.saving else _Writing(_argument(target, args, kwargs))
    except Exception:
        record.note_error()
        return None


def _argument(target: tuple[int, str] | None, args: Any, kwargs: Any) -> Any:
    if target is None:
        return None
    position, name = target
    return args[position] if len(args) > position else kwargs.get(name)


def _position(where: Any) -> int:
    """Return where an open file stands; -1 for what is none. Asks nothing of objects that are not plain files."""
    try:
        if type(where).__module__ in {"_io", "tempfile"}:
            return int(where.tell())
    except Exception:  # a pipe, a closed file
        record.pass_on()
    return -1


def _written(where: Any, before: int) -> int:
    """Return bytes written, 0 where that is not cheap to know: one stat, or the file's position."""
    try:
        if isinstance(where, (str, os.PathLike)):
            return os.stat(where).st_size
        if before >= 0:
            return max(int(where.tell()) - before, 0)
    except Exception:  # not a file of this machine
        record.pass_on()
    return 0
