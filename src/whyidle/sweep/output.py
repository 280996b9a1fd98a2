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
        with self._pipe, self._file() as file:
            room, left_out = MOST_BYTES, 0
            while part := self._part():
                self._tail = (self._tail + part)[-TAIL_BYTES:]
                kept = part[:room]
                room, left_out = room - len(kept), left_out + len(part) - len(kept)
                if not _written(file, kept):
                    room = 0  # the disk is full: the job shall not hang on a full pipe for it
            if left_out:
                _written(file, f"\n[{left_out:,} bytes left out; the last of them:]\n".encode() + self._tail)

    def tail(self) -> str:
        """Return the end of what was printed."""
        return self._tail.decode("utf-8", "replace")

    def _file(self) -> IO[bytes]:
        try:
            return self._path.open("wb", buffering=0)
        except OSError:
            return Path(os.devnull).open("wb", buffering=0)

    def _part(self) -> bytes:
        try:
            return os.read(self._pipe.fileno(), 1 << 16)
        except (OSError, ValueError):
            return b""


def _written(file: IO[bytes], content: bytes) -> bool:
    try:
        file.write(content)
    except OSError:
        return False
    return True
