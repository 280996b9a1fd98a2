"""The text of events -> typed slices with exact times. Only `"ph": "X"` is decoded; the other phases are counted."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias, Union

import msgspec
import numpy as np
from msgspec import Raw

from whyidle.model.evidence import Ints
from whyidle.read.number import EXACT_BELOW, from_floats, from_text

Number: TypeAlias = int | float | str | None  # all of which have been seen where a number belongs

# The trace event format: everything but complete events, which are slices.
OTHER_PHASES: Final = "BEIiCbnesStfTpFPNODMVvRcaA()"

NOTHING: Final = Raw(b"")


class Args(msgspec.Struct, gc=False):
    """What we use of `args`. The spellings are those of 2021 and of today."""

    device: Number = -1
    stream: Number = -1
    correlation: Number = -1
    bytes: Number = -1
    blocks_per_sm: Number = msgspec.field(default=-1.0, name="blocks per SM")
    message: Number = msgspec.field(default=-1, name="In msg nelems")
    message_out: Number = msgspec.field(default=-1, name="Out msg nelems")
    members: Number = msgspec.field(default=-1, name="Group size")
    dtype: Raw = NOTHING
    collective: Raw = msgspec.field(default=NOTHING, name="Collective name")
    group: Raw = msgspec.field(default=NOTHING, name="Process Group Name")
    group_ranks: Raw = msgspec.field(default=NOTHING, name="Process Group Ranks")
    shapes: Raw = msgspec.field(default=NOTHING, name="Input Dims")
    shapes_2021: Raw = msgspec.field(default=NOTHING, name="Input dims")
    types: Raw = msgspec.field(default=NOTHING, name="Input type")
    types_too: Raw = msgspec.field(default=NOTHING, name="Input Type")
    arguments: Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    stack: Raw = msgspec.field(default=NOTHING, name="Call stack")


class Slice(msgspec.Struct, tag_field="ph", tag="X", gc=False):
    """A complete event."""

    name: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None


class TextSlice(msgspec.Struct, tag_field="ph", tag="X", gc=False):
    """The same where a float64 would lose nanoseconds, or where numbers are written as text."""

    name: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Args | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Slices of one run of events, with their times in ns (number.NO_TIME where there is none)."""

    slices: list[Any]  # Slice or TextSlice
    start: Ints
    duration: Ints
    events: int  # of every phase


class Phase(msgspec.Struct):
    """An event of which only the phase matters."""

    ph: str


OTHERS: Final = tuple(
    msgspec.defstruct(f"Phase{ord(phase)}", [], tag_field="ph", tag=phase, gc=False) for phase in OTHER_PHASES
)


def _event_of(complete: type[msgspec.Struct]) -> Any:
    """Return the type of a list of events of every phase, of which only the complete ones are decoded."""
    return list[Union[(complete, *OTHERS)]]  # type: ignore[valid-type]  # made at run time, from OTHER_PHASES


START, DURATION = attrgetter("ts"), attrgetter("dur")
NO_TIMES: Final = np.empty(0, np.int64)
NOT_EVENTS: Final = (
    msgspec.DecodeError,
    RecursionError,
)  # what decoding raises where the text is not what it should be


class EventDecoder:
    """Decodes runs of events. Turns to exact text for the rest of a trace once one of its floats is too large."""

    _floats: ClassVar[msgspec.json.Decoder[list[Any]]] = msgspec.json.Decoder(_event_of(Slice))
    _texts: ClassVar[msgspec.json.Decoder[list[Any]]] = msgspec.json.Decoder(_event_of(TextSlice))

    def __init__(self) -> None:
        self._exact = False

    def decode(self, text: bytes) -> Batch:
        """Decode a JSON list of events; msgspec.DecodeError or ValidationError where it is not one."""
        if not self._exact:
            try:
                batch = self._decode_floats(text)
            except msgspec.ValidationError:
                batch = None
            if batch is not None:
                return batch
        batch = self._decode_texts(text)
        self._exact = True
        return batch

    def decode_each(self, events: list[bytes]) -> tuple[list[Batch], int]:
        """Decode single events one by one; return also how many could not be used."""
        batches, broken = [], 0
        for event in events:
            try:
                batches.append(self.decode(b"[" + event + b"]"))
            except NOT_EVENTS:
                if _is_slice(event):
                    broken += 1
                else:
                    batches.append(Batch([], NO_TIMES, NO_TIMES, 1))
        return batches, broken

    def _decode_floats(self, text: bytes) -> Batch | None:
        events = self._floats.decode(text)
        slices = [event for event in events if type(event) is Slice]
        start = np.fromiter(map(START, slices), np.float64, len(slices))
        if np.any(start >= EXACT_BELOW) and any(type(slice_.ts) is float for slice_ in slices):
            return None
        duration = np.fromiter(map(DURATION, slices), np.float64, len(slices))
        return Batch(slices, from_floats(start), from_floats(duration), len(events))

    def _decode_texts(self, text: bytes) -> Batch:
        events = self._texts.decode(text)
        slices = [event for event in events if type(event) is TextSlice]
        start, duration = (
            np.fromiter((from_text(bytes(time(slice_))) for slice_ in slices), np.int64, len(slices))
            for time in (START, DURATION)
        )
        return Batch(slices, start, duration, len(events))


def _is_slice(event: bytes) -> bool:
    try:
        return msgspec.json.decode(event, type=Phase).ph == "X"
    except NOT_EVENTS:
        return True  # or nothing that we know, which is broken, too
