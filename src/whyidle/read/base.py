"""What a reader is: the one who knows a format. One subclass, one file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Protocol

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Trace

RECORD: Final = "`whyidle demo --record` shows how to record a trace with torch.profiler."


class Progress(Protocol):
    """Told how far reading has come. Bytes are those of the file on disk, compressed if it is."""

    def __call__(self, path: Path, bytes_done: int, bytes_total: int) -> None: ...


class UnreadableError(WhyIdleError):
    """A file that gives no evidence.

    Args:
        path: the file.
        why: what is wrong with it.
        hint: what to do about it.
        damaged: it should have been evidence, so that its absence has to be told.
    """

    def __init__(self, path: Path, why: str, hint: str = "", *, damaged: bool = False) -> None:
        super().__init__(f"{path}: {why}", hint)
        self.path, self.why, self.damaged = path, why, damaged


class Reader:
    """Turns a file of one format into evidence. `whyidle.read` finds every subclass and asks each `sniff`."""

    kind: ClassVar[str]  # the format in a word, as the report says it
    greedy: ClassVar[bool] = False  # claims more than its own format: asked after the others

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:
        """Say whether this may be the format, from the first bytes of the content, unpacked if it is a gzip."""
        raise NotImplementedError

    @classmethod
    def peek_rank(cls, head: bytes) -> int | None:  # noqa: ARG003  # most formats do not tell it there
        """Return the rank if the first bytes tell it, so that an older trace of that rank need not be read."""
        return None

    def read(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read the whole file. Damage becomes a warning of the trace; UnreadableError where nothing is left to use."""
        raise NotImplementedError
