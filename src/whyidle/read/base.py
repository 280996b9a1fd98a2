"""What a reader is: the one who knows a format, of a file or of a folder. One subclass, one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Curve, Node, Series, StepLog, Trace

READS: Final = (
    "whyidle reads traces of torch.profiler, what nvidia-smi, DCGM, Prometheus and CloudWatch record of GPUs, and "
    "trainers' logs. To record a trace: whyidle demo --record; a curve: nvidia-smi dmon -o DT > gpu.txt"
)
RECORD: Final = "`whyidle demo --record` shows how to record a trace with torch.profiler."


class Progress(Protocol):
    """Told how far reading has come. Bytes are those of the file on disk, compressed if it is.

    While a folder is searched, `bytes_total` is 0 and `bytes_done` the number of files that were looked at.
    """

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

    def read(self, path: Path, progress: Progress | None = None) -> Trace | Curve:
        """Read the whole file. Damage becomes a warning of it; UnreadableError where nothing is left to use."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Part:
    """What a folder gives: what was watched on one machine."""

    node: Node
    logs: tuple[StepLog, ...] = ()
    series: tuple[Series, ...] = ()
    warnings: tuple[str, ...] = ()


class FolderReader:
    """Turns a folder of one format into evidence. A file of the name `marker` in it tells that it is one.

    Files in it that belong to the format are the folder reader's; others are looked at as everywhere.
    """

    marker: ClassVar[str]

    @classmethod
    def claims(cls, name: str) -> bool:
        """Say whether a file of this name in such a folder belongs to the format."""
        raise NotImplementedError

    @classmethod
    def ours_beside(cls, name: str) -> bool:  # noqa: ARG003
        """Say whether a file of this name in the folder above was made by us from such folders: it is no evidence."""
        return False

    def read(self, folder: Path, progress: Progress | None = None) -> Part:
        """Read the whole folder. Damage becomes a warning; UnreadableError where nothing is left to use."""
        raise NotImplementedError
