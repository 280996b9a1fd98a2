"""A file as a stream of blocks, unpacked if it is a gzip, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isal import isal_zlib

from whyidle.read.base import Progress

BLOCK: Final = 1 << 20
PACKED_BLOCK: Final = 1 << 17  # 13:1 is what traces pack to, so that this is about a block
HEAD: Final = 1 << 16
GZIP: Final = b"\x1f\x8b"
GZIP_ERROR: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]  # its stubs call it an instance
GZIP_WINDOW: Final = 31  # zlib's number for "with a gzip header"


def head_of(path: Path) -> bytes:
    """Return the first bytes of the content; OSError if the file cannot be read."""
    with path.open("rb", buffering=0) as file:
        head = file.read(HEAD) or b""
    if not head.startswith(GZIP):
        return head
    try:
        return isal_zlib.decompressobj(GZIP_WINDOW).decompress(head, HEAD)
    except GZIP_ERROR:
        return b""


class Blocks:
    """The content of a file, block by block. After iteration `damage` says what was wrong with the packing."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self.damage = ""
        self._progress = progress
        self._size = path.stat().st_size
        self._done = 0

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb", buffering=0) as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            raw = self._raw(file.read, PACKED_BLOCK if packed else BLOCK)
            yield from self._inflated(raw) if packed else raw

    def _raw(self, read: object, size: int) -> Iterator[bytes]:
        assert callable(read)
        while block := read(size):
            self._done += len(block)
            yield block
            if self._progress is not None:
                self._progress(self.path, self._done, self._size)

    def _inflated(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        member = isal_zlib.decompressobj(GZIP_WINDOW)
        try:
            for packed in raw:
                data = packed
                while data:
                    if block := member.decompress(data, BLOCK):
                        yield block
                    if not member.eof:
                        data = member.unconsumed_tail
                    elif data := member.unused_data.lstrip(b"\0"):  # several members follow each other, or padding
                        member = isal_zlib.decompressobj(GZIP_WINDOW)
            if not member.eof:
                yield member.flush()
                self.damage = "the gzip file is cut short"
        except GZIP_ERROR as error:
            self.damage = f"the gzip data is damaged ({error})"


def content_of(path: Path, most: int, *, last: bool = False) -> tuple[bytes, int]:
    """Return a small file's bytes, `most` of them at most, and how many it has.

    Args:
        path: the file.
        most: bytes to return at most.
        last: of a larger file return the last bytes, not the first.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    if not path.is_file():
        raise OSError("not a regular file")  # a pipe would wait for ever
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - most, 0) if last else 0)
        return file.read(most), size
