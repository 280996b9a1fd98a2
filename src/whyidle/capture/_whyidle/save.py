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
        if is_compiling() or _thread.saving:
            return original(*args, **kwargs)
        where = _argument(target, args, kwargs)
        before = _position(where)
        tokens = hooks.before_wait(SAVE) if hooks.waits else None
        sequence = -1
        _thread.saving = True
        start = perf_counter_ns()
        try:
            result = original(*args, **kwargs)
            end = perf_counter_ns()
            sequence = record.put(SAVE, start, end - start, _written(where, before))
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            _thread.saving = False
            if tokens is not None:
                hooks.after_wait(tokens, sequence)
        return result

    hooks.replace(module, name, save)
    alias = sys.modules.get(ALIASES.get((module.__name__, name), ""))
    if alias is not None and getattr(alias, name, None) is original:
        hooks.replace_same(alias, name, getattr(module, name))


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
        pass
    return -1


def _written(where: Any, before: int) -> int:
    """Return bytes written, 0 where that is not cheap to know: one stat, or the file's position."""
    try:
        if isinstance(where, (str, os.PathLike)):
            return os.stat(where).st_size
        if before >= 0:
            return max(int(where.tell()) - before, 0)
    except Exception:  # not a file of this machine
        pass
    return 0
