"""Copies what the job's processes wrote into a local folder to the run directory, where the two differ.

Rings must not lie on a network file system; so the processes write everything into a local folder, and what people and
`whyidle diagnose` read is brought here. Rings themselves are drained, not copied (rings.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

PATTERNS = ("*.facts.json", "*.worker-*-*.json", "*.loader.json", "trace-*.json.gz", "errors.txt")

Look = tuple[int, int]


class Mirror:
    """Copies files of one folder to another.

    Args:
        source: where they are written.
        target: where they shall be too; nothing happens where it is the same folder.
        warn: is told once when a file cannot be copied.
    """

    def __init__(self, source: Path, target: Path, warn: Callable[[str], None]) -> None:
        self._source = source
        self._target = target
        self._warn = warn
        self._apart = source.resolve() != target.resolve()
        self._seen: dict[str, Look] = {}
        self._copied: dict[str, Look] = {}

    def copy(self, *, final: bool = False) -> None:
        """Copy what has changed.

        Args:
            final: nobody writes any more; before that, a file is copied only once it has stood still for a while.
        """
        if not self._apart:
            return
        for path in self._files():
            try:
                facts = path.stat()
            except OSError:  # replaced this moment
                continue
            look = (facts.st_mtime_ns, facts.st_size)
            still = final or self._seen.get(path.name) == look
            self._seen[path.name] = look
            if still and self._copied.get(path.name) != look and self._replace(path):
                self._copied[path.name] = look

    def _files(self) -> list[Path]:
        try:
            return [path for pattern in PATTERNS for path in self._source.glob(pattern) if path.is_file()]
        except OSError:
            return []

    def _replace(self, path: Path) -> bool:
        part = self._target / f".{path.name}.part-{os.getpid()}"
        try:
            shutil.copyfile(path, part)
            part.replace(self._target / path.name)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            if path.exists():  # and was not replaced this moment
                self._warn(f"{path.name} stays in {path.parent}: it cannot be copied: {error.strerror or error}")
            return False
        return True
