"""What a reader is: the one who knows a format. One subclass, one file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from whyidle.model.evidence import Trace


class Progress(Protocol):
    """Told how far reading has come. Bytes are those of the file on disk, compressed if it is."""

    def __call__(self, path: Path, bytes_done: int, bytes_total: int) -> None: ...


class Reader:
    """Turns a file of one format into evidence. `whyidle.read` finds every subclass and asks each `sniff`."""

    kind: ClassVar[str]  # what a person calls the format

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:
        """Say whether this may be the format, from the first bytes of the content, unpacked if it is a gzip."""
        raise NotImplementedError

    @classmethod
    def peek_rank(cls, head: bytes) -> int | None:
        """Return the rank if the first bytes tell it, so that an older trace of that rank need not be read."""
        return None

    def read(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read the whole file; WhyIdleError where there is nothing to use. Damage becomes a warning of the trace."""
        raise NotImplementedError
