"""Kineto, the trace of torch.profiler: `.pt.trace.json`, packed or not, of every PyTorch since 1.8 (2021)."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Trace
from whyidle.read.base import RECORD, Progress, Reader, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.chunks import BYTE_ORDER_MARK, EventText
from whyidle.read.columns import Columns
from whyidle.read.events import NOT_EVENTS, Batch, EventDecoder
from whyidle.read.metadata import metadata_of, peek_rank
from whyidle.read.repair import Salvage, salvage

MOST_EVENTS: Final = 200_000_000  # slices; 8 GiB of columns
START: Final = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[{\]])')
LIST_END: Final = re.compile(rb'(\})\s*(?:,\s*)?(?=\]\s*(?:,\s*"[^"\\]*"\s*:|\}?\s*$))')


class Kineto(Reader):
    """Reads Kineto traces."""

    kind = "kineto"
    greedy = True  # any JSON: the events may be far behind the first bytes

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003  # names of traces tell nothing
        return START.match(head.removeprefix(BYTE_ORDER_MARK)) is not None

    @classmethod
    def peek_rank(cls, head: bytes) -> int | None:
        return peek_rank(head)

    def read(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read a trace; what is broken in it is left out, with a warning.

        Raises:
            UnreadableError: no trace, or none of torch.profiler, nothing in it, or more than MOST_EVENTS slices.
        """
        blocks = Blocks(path, progress)
        text = EventText(blocks, path)
        columns = Columns(path)
        decoding = _Decoding()
        with _no_collection():
            for batch in decoding.batches(text):
                columns.add(batch)
                if columns.rows > MOST_EVENTS:
                    many = f"more than {MOST_EVENTS:,} slices."
                    raise UnreadableError(path, many, "Record fewer steps.", damaged=True)
        if not columns.rows:
            raise _nothing(path, text, blocks, columns)
        metadata = metadata_of(text.header, text.trailer)
        warnings = [*_cut_short(text, blocks, decoding, columns), *_left_out(decoding, columns)]
        if not metadata.readable:
            warnings.append("The metadata around the events is not valid JSON: GPU model and settings are unknown.")
        host, device = columns.host_slices(), columns.device_slices()
        return Trace(
            path=str(path),
            rank=metadata.rank,
            world_size=metadata.world_size,
            device_slices=device,
            host_slices=host,
            strings=columns.strings(),
            threads=columns.threads(),
            gpus=metadata.gpus,
            origin=columns.origin or 0,
            events=columns.events,
            metadata=metadata.scalars,
            warnings=tuple(f"{path}: {warning}" for warning in warnings),
        )


class _Decoding:
    """Decodes runs of events and keeps count of what is broken."""

    def __init__(self) -> None:
        self.broken = 0
        self.unfinished = False  # the text ends in the middle of an event
        self._decoder = EventDecoder()

    def batches(self, text: EventText) -> Iterator[Batch]:
        for run in text:
            try:
                yield self._decoder.decode(b"[%b]" % run)
            except NOT_EVENTS:
                yield from self._last(run, text) or self._saved(salvage(run, more=True), text)
        if rest := text.take_back():
            yield from self._saved(salvage(rest, more=False), text)
            self.unfinished = bool(text.take_back())

    def _last(self, run: bytes, text: EventText) -> list[Batch]:
        """Decode a run that is well, but for the end of the list in it; nothing if it is not."""
        end = LIST_END.search(run)
        if end is None:
            return []
        try:
            batch = self._decoder.decode(b"[%b]" % run[: end.end(1)])
        except NOT_EVENTS:
            return []
        text.end(run[end.end() :])
        return [batch]

    def _saved(self, saved: Salvage, text: EventText) -> list[Batch]:
        self.broken += saved.broken
        text.give_back(saved.rest)
        if saved.trailer is not None:
            text.end(saved.trailer)
        try:
            return [self._decoder.decode(b"[%b]" % b",".join(saved.events))]
        except NOT_EVENTS:
            batches, broken = self._decoder.decode_each(saved.events)
            self.broken += broken
            return batches


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from walking objects that hold no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _cut_short(text: EventText, blocks: Blocks, decoding: _Decoding, columns: Columns) -> Iterator[str]:
    complete = text.ended or not (text.header or decoding.unfinished)  # a bare list needs no end
    if complete and not blocks.damage:
        return
    why = blocks.damage or "the file is cut short"
    yield f"{why[0].upper()}{why[1:]}: only the first {columns.events:,} events could be read."


def _left_out(decoding: _Decoding, columns: Columns) -> Iterator[str]:
    if decoding.broken:
        yield f"{decoding.broken:,} of {decoding.broken + columns.events:,} events are not valid and are left out."
    if lost := columns.untimed["GPU"]:
        yield (
            f"{lost:,} of {lost + columns.kept['GPU']:,} GPU events have no time and are left out: the profiler lost "
            "their records, and the GPU was busier than shown (github.com/pytorch/kineto/issues/109)."
        )
    if lost := columns.untimed["host"]:
        yield f"{lost:,} of {lost + columns.kept['host']:,} host events have no time and are left out."
    if columns.unknown:
        yield f"{columns.unknown.total():,} slices not of torch.profiler are left out ({_categories(columns)})."


def _nothing(path: Path, text: EventText, blocks: Blocks, columns: Columns) -> UnreadableError:
    again = "Copy or record the trace again."
    if blocks.damage:
        return UnreadableError(path, f"{blocks.damage}, with no slice before that.", again, damaged=True)
    if not text.found:
        return UnreadableError(path, "JSON, but not a trace (no traceEvents).", RECORD)
    if columns.unknown:
        return UnreadableError(path, f"a Chrome trace, but not of torch.profiler ({_categories(columns)}).", RECORD)
    if lost := columns.untimed.total():
        return UnreadableError(path, f"a trace whose {lost:,} slices all lack a time.", RECORD, damaged=True)
    if text.ended and text.header:
        more = "Record at least one active step; the schedule's wait and warmup steps are not kept."
        return UnreadableError(path, "a trace with no slice in it.", more, damaged=True)
    if text.header:
        return UnreadableError(path, "a trace that is cut short before its first slice.", again, damaged=True)
    return UnreadableError(path, "a JSON list, but not of trace events.", RECORD)


def _categories(columns: Columns) -> str:
    return "categories: " + ", ".join(category or "none" for category, _ in columns.unknown.most_common(3))
