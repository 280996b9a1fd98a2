"""Cut the text of a trace into runs of whole events without parsing it, so that memory does not grow with the file.

`},{"ph":` cannot stand inside a string: there the quote would be escaped. It can stand inside an event that
holds a list of objects; then the decoder fails on the run and hands back what it could not use (see repair.py).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from whyidle.read.base import UnreadableError

MOST_HEADER: Final = 1 << 26  # metadata before the events: 64 MiB; real ones have kilobytes
MOST_TRAILER: Final = 1 << 26  # and after them
MOST_EVENT: Final = 1 << 26  # text without a place to cut
SEARCH: Final = 1 << 14  # how far back to look for a cut first

EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
LIST: Final = re.compile(rb"\s*\[")
OTHER_EVENT: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"[^"\\]{1,40}"\s*:)')
FIRST_KEY: Final = re.compile(rb'\s*\{\s*("[^"\\]{1,40}")\s*:')
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class EventText:
    """The text around and between the events of one trace.

    Iteration gives runs of events without the brackets around them. Whoever decodes them calls `give_back` with the
    text of an event that is not complete yet, and `end` with what follows the list of events.
    """

    def __init__(self, blocks: Iterable[bytes], path: Path) -> None:
        self.header = b""  # text before the list of events; empty for a bare list
        self.trailer = b""  # text after it
        self.found = False  # a list of events
        self.ended = False  # and its end
        self._path = path
        self._blocks = iter(blocks)
        self._returned = b""
        self._separator = OTHER_EVENT

    def __iter__(self) -> Iterator[bytes]:
        text = self._open()
        if not self.found:
            return
        if first := FIRST_KEY.match(text):
            self._separator = re.compile(rb"\}\s*,\s*(?=\{\s*" + re.escape(first[1]) + rb"\s*:)")
        for block in self._blocks:
            if self.ended:
                self._follow(block)
                continue
            cut = self._last_cut(text)
            if cut is not None:
                yield text[: cut.start() + 1]
                if self.ended:
                    self._follow(text[cut.start() + 1 :] + block)
                    continue
                text = b",".join(part for part in (self.take_back(), text[cut.end() :]) if part)
            text += block
        if not self.ended:
            yield text

    def give_back(self, text: bytes) -> None:
        """Take the start of an event that continues in the next run."""
        self._returned = text

    def take_back(self) -> bytes:
        """Return what was given back and not given out again."""
        text, self._returned = self._returned, b""
        return text

    def end(self, trailer: bytes) -> None:
        """Take what follows the list of events in the last run."""
        self.ended = True
        self.trailer = trailer

    def _open(self) -> bytes:
        """Read up to the first event and return the text from there."""
        text, searched = b"", 0
        for block in self._blocks:
            text = text + block if text else block.removeprefix(BYTE_ORDER_MARK)
            bare = LIST.match(text)
            start = bare or EVENTS.search(text, max(0, searched - 64))
            if start:
                self.found = True
                self.header = b"" if bare else text[: start.start()]
                return text[start.end() :]
            searched = len(text)
            if searched > MOST_HEADER:
                break
        self.header = text
        return b""

    def _follow(self, block: bytes) -> None:
        if len(self.trailer) < MOST_TRAILER:
            self.trailer += block

    def _last_cut(self, text: bytes) -> re.Match[bytes] | None:
        """Return the last place between two events of `text`; None if that has to wait for more text."""
        start, last = len(text), None
        while last is None and start > 0:
            start = max(0, start - max(SEARCH, len(text) - start))
            last = next(iter(deque(self._separator.finditer(text, start), maxlen=1)), None)
        if last is None and len(text) > MOST_EVENT // 16:
            self._separator = OTHER_EVENT
        if last is None and len(text) > MOST_EVENT:
            raise UnreadableError(
                self._path,
                f"{len(text) >> 20} MiB of it without an end of an event.",
                "Events of a profiler trace are small. Is the file damaged?",
                damaged=True,
            )
        return last
