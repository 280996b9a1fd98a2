"""What a cell's job prints: kept in a file of bounded size, and its end in mind to say why it failed."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO, Final

MOST_BYTES: Final = 16 << 20  # of the beginning
TAIL_BYTES: Final = 64 << 10  # of the end


class Output(threading.Thread):
    """Copies a pipe to a file until nobody writes to the pipe any more.

    Args:
        pipe: what the job and `whyidle run` print.
        path: of the file.
    """

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        super().__init__(name="whyidle-output", daemon=True)
        self._pipe = pipe
        self._path = path
        self._tail = b""

    def run(self) -> None:
        written = left_out = 0
        try:
            file = self._path.open("wb", buffering=0)
        except OSError:
            file = None  # the job shall not hang on a full pipe for it
        while part := self._part():
            self._tail = (self._tail + part)[-TAIL_BYTES:]
            kept = part[: max(MOST_BYTES - written, 0)]
            left_out += len(part) - len(kept)
            written += len(kept)
            if file is not None and kept:
                try:
                    file.write(kept)
                except OSError:
                    file = None
        if file is not None:
            if left_out:
                file.write(f"\n[{left_out:,} bytes left out; the last of them:]\n".encode() + self._tail)
            file.close()

    def tail(self) -> str:
        """Return the end of what was printed."""
        return self._tail.decode("utf-8", "replace")

    def _part(self) -> bytes:
        try:
            return os.read(self._pipe.fileno(), 1 << 16)
        except (OSError, ValueError):
            return b""
