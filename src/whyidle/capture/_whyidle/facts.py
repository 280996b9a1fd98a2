"""What this process was seen to be set to and to do: ID.facts.json, described in docs/run-directory.md.

Other parts of the capture put in what they see; the file is replaced as a whole, so that it is never half written,
at most once a second and when the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from multiprocessing import util as multiprocessing_util
from pathlib import Path
from typing import Any, Callable, Union

from _whyidle import record

Value = Union[bool, int, float, str]

INTERVAL_S = 1.0
MOST_SETTINGS = 256
MOST_LOADERS = 64
LONGEST_TEXT = 500  # characters of one value

_lock = threading.RLock()
_settings: dict[tuple[str, str], dict[str, Value]] = {}
_loaders: dict[int, dict[str, Any]] = {}
_sections: dict[str, Any] = {}
_errors = 0
_changed = False
_written = 0.0  # time.monotonic() of the last write
_registered = False


def add_setting(name: str, value: Value, where: str, subject: str = "") -> None:
    """Remember a setting, over an earlier one of that name and subject."""
    with _lock:
        if (name, subject) in _settings or len(_settings) < MOST_SETTINGS:
            short = value[:LONGEST_TEXT] if isinstance(value, str) else value
            entry: dict[str, Value] = {"name": name, "value": short, "where": where[:LONGEST_TEXT], "subject": subject}
            if _settings.get((name, subject)) != entry:
                _settings[name, subject] = entry
                _touch()


def add_loader(number: int, arguments: dict[str, Any]) -> None:
    """Remember the arguments of a DataLoader."""
    with _lock:
        if number in _loaders or len(_loaders) < MOST_LOADERS:
            _loaders[number] = {"loader": number, **arguments}
            _touch()


def set_section(name: str, value: Any) -> None:
    """Set `syncs`, `profile` or `dynamo`. Who calls it bounds the size."""
    with _lock:
        if _sections.get(name) != value:
            _sections[name] = value
            _touch()


def note_errors(count: int) -> None:
    """Say how many errors the recording itself has met so far."""
    global _errors
    with _lock:
        if count != _errors:
            _errors = count
            _touch()


def write(last: bool = False) -> None:
    """Write the file if anything changed, unless that was done within a second; `last`: whatever the time.

    A process that has no ring, since it never trained or since there was no room for one, has no facts either.
    """
    global _changed, _written
    folder = record.folder()
    now = time.monotonic()
    with _lock:
        if (
            not folder
            or not record.recording()
            or not _changed
            or (not last and _written and now - _written < INTERVAL_S)
        ):
            return
        _changed = False
        _written = now
        try:
            replace(Path(folder, record.identity() + ".facts.json"), document())
        except OSError:  # a full disk: what was written before stays
            record.note_error()


def document() -> dict[str, Any]:
    """Return what the file holds."""
    with _lock:
        return {
            "version": 1,
            "pid": os.getpid(),
            "rank": number(os.environ.get("RANK")),
            "worker_of": os.getppid() if _is_worker() else None,
            "settings": list(_settings.values()),
            "loaders": [_loaders[index] for index in sorted(_loaders)],
            "syncs": _sections.get("syncs"),
            "profile": _sections.get("profile"),
            "dynamo": _sections.get("dynamo"),
            "errors": _errors,
        }


def replace(path: Path, content: dict[str, Any]) -> None:
    """Write JSON beside `path` and rename it into place; OSError where that fails, which leaves nothing behind."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps(content, default=str, separators=(",", ":")), encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def at_end(callback: Callable[[], None]) -> None:
    """Call back when this process ends, unless it is killed; what goes wrong then is noted.

    Processes that `multiprocessing` started run its finalizers and not atexit's, so both are asked.
    """
    pid = os.getpid()
    done: list[bool] = []

    def guarded() -> None:
        if done or os.getpid() != pid:
            return
        done.append(True)
        try:
            callback()
        except Exception:
            record.note_error()

    atexit.register(guarded)
    multiprocessing_util.Finalize(None, guarded, exitpriority=0)


def number(text: str | None) -> int | None:
    """Return a whole number that a text holds, or None."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _touch() -> None:
    global _changed, _registered
    _changed = True
    if not _registered:
        _registered = True
        at_end(lambda: write(last=True))


def _is_worker() -> bool:
    """Return whether this process is a worker of a DataLoader."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(module, "_worker_info", None) is not None


def _forget() -> None:
    """Start anew in a forked child: what its parent was seen to do is not its own."""
    global _lock, _errors, _changed, _written, _registered
    _lock = threading.RLock()  # another thread of the parent may have held it
    _settings.clear()
    _loaders.clear()
    _sections.clear()
    _errors, _changed, _written, _registered = 0, False, 0.0, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
