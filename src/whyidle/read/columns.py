"""Slices -> columns. Grows by runs of events, and sorts once at the end."""

from __future__ import annotations

from collections import Counter
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from whyidle.model.evidence import Codes, DeviceSlices, Floats, HostSlices, Ints, Kind
from whyidle.read.base import UnreadableError
from whyidle.read.events import NOTHING, Args, Batch
from whyidle.read.number import NO_TIME, whole_numbers

MOST_TEXT: Final = 1 << 30  # bytes of distinct names, shapes and types
DROPPED, UNKNOWN = -1, -2

# Activity types as Kineto writes them: libkineto's ActivityType.cpp of today, and the capitalised ones of 2021.
CATEGORIES: Final = {
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "Memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "cpu_op": Kind.OP,
    "Operator": Kind.OP,
    "user_annotation": Kind.RANGE,
    "python_function": Kind.PYTHON,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.RUNTIME,
    "Runtime": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "hip_driver": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.RUNTIME,
    "overhead": Kind.OVERHEAD,
    # On device tracks, but no work: the projection of a range, waits, and the span of the whole recording.
    "gpu_user_annotation": DROPPED,
    "cuda_sync": DROPPED,
    "cuda_event": DROPPED,
    "cuda_profiler_range": DROPPED,
    "Trace": DROPPED,
}

# Ranges that are recorded as operators, in 2021 all of them.
RANGES: Final = ("ProfilerStep#", "enumerate(DataLoader)#", "Optimizer.", "## ")

NAME, CATEGORY, PID, TID = map(attrgetter, ("name", "cat", "pid", "tid"))
DEVICE, STREAM, CORRELATION, BYTES = map(attrgetter, ("device", "stream", "correlation", "bytes"))
BLOCKS, MESSAGE = attrgetter("blocks_per_sm"), attrgetter("message")
SHAPES = attrgetter("shapes"), attrgetter("shapes_2021")
TYPES = attrgetter("types"), attrgetter("types_too")
ARGUMENTS = (attrgetter("arguments"),)
STACK = (attrgetter("stack"),)
MESSAGE_OUT, MEMBERS = attrgetter("message_out"), attrgetter("members")
COLLECTIVE = (attrgetter("collective"),)
GROUP, GROUP_RANKS = (attrgetter("group"),), (attrgetter("group_ranks"),)
NO_ARGS: Final = Args()
# Operators whose work depends on more than the sizes of their tensors: strides, whether attention is causal.
ASKED_FOR_ARGUMENTS: Final = ("conv", "attention", "attn")
# Bytes of an element, by c10's name of its type as JSON.
ELEMENT: Final = {
    b'"Byte"': 1, b'"Char"': 1, b'"Bool"': 1, b'"Float8_e4m3fn"': 1, b'"Float8_e5m2"': 1, b'"Short"': 2, b'"Half"': 2,
    b'"BFloat16"': 2, b'"Int"': 4, b'"Float"': 4, b'"Long"': 8, b'"Double"': 8,
}  # fmt: skip


class Texts(dict[str | None, int]):
    """Distinct texts in order of appearance; asking for one gives its code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._bytes = 0

    def __missing__(self, text: str | None) -> int:
        if text is None:
            text = ""
        self._bytes += len(text)
        if self._bytes > MOST_TEXT:
            many = f"more than {MOST_TEXT >> 20:,} MiB of distinct names and shapes."
            raise UnreadableError(self._path, many, "Record fewer steps, or without shapes.", damaged=True)
        return self.setdefault(text, len(self))


class JsonTexts(dict[bytes, int]):
    """Codes of JSON values, by the text in the file: of strings their content, of others JSON without blanks."""

    def __init__(self, texts: Texts) -> None:
        super().__init__({b"": -1, b'""': -1})
        self._texts = texts

    def __missing__(self, raw: bytes) -> int:
        try:
            text = (
                msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else msgspec.json.format(raw, indent=-1).decode()
            )
        except (msgspec.DecodeError, UnicodeDecodeError):  # what nobody decodes is not checked in full
            text = raw.decode("utf-8", "replace")
        code = self[raw] = self._texts[text]
        return code


class Threads(dict[tuple[object, object], int]):
    """Codes of (pid, tid)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.texts = Texts(path)

    def __missing__(self, key: tuple[object, object]) -> int:
        code = self[key] = self.texts[f"{key[0]}/{key[1]}"]
        return code


class Categories(dict[str | None, int]):
    """Kind by category, UNKNOWN for those that torch.profiler does not write."""

    def __init__(self) -> None:
        super().__init__()
        self.update(CATEGORIES)

    def __missing__(self, category: str | None) -> int:
        return UNKNOWN


class WithArguments(dict[str | None, bool]):
    """Whether the arguments of an operator of this name are kept: of the others they would fill the memory."""

    def __missing__(self, name: str | None) -> bool:
        kept = self[name] = any(word in (name or "").lower() for word in ASKED_FOR_ARGUMENTS)
        return kept


class Columns:
    """The columns of one trace as they grow, and what had to be left out."""

    def __init__(self, path: Path) -> None:
        self.events = 0
        self.rows = 0
        self.origin: int | None = None
        self.untimed: Counter[str] = Counter()  # "GPU" and "host" slices without a usable time
        self.kept: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()  # by category
        self._texts = Texts(path)
        self._json = JsonTexts(self._texts)
        self._threads = Threads(path)
        self._categories = Categories()
        self._with_arguments = WithArguments()
        self._device: dict[str, list[NDArray[Any]]] = {name: [] for name in DeviceSlices.__slots__}
        self._host: dict[str, list[NDArray[Any]]] = {name: [] for name in HostSlices.__slots__}

    def add(self, batch: Batch) -> None:
        """Append the slices of one run."""
        self.events += batch.events
        slices, start = batch.slices, batch.start
        kinds = np.fromiter(map(self._categories.__getitem__, map(CATEGORY, slices)), np.int8, len(slices))
        if np.any(kinds == UNKNOWN):
            self.unknown.update(slice_.cat or "" for slice_ in compress(slices, (kinds == UNKNOWN).tolist()))
        on_device, on_host = (kinds >= Kind.KERNEL) & (kinds <= Kind.MEMSET), kinds >= Kind.OP
        timed = (start > NO_TIME) & (batch.duration >= 0)
        if np.any(shown := timed & (start > 0)):
            first = int(start[shown].min())
            self.origin = first if self.origin is None else min(self.origin, first)
        # Kernels at 0 are lost records: github.com/pytorch/kineto/issues/109
        for name, rows, usable in (("GPU", on_device, timed & (start > 0)), ("host", on_host, timed)):
            self.untimed[name] += int(np.count_nonzero(rows & ~usable))
            self.kept[name] += int(np.count_nonzero(rows & usable))
        self._add_device(batch, kinds, on_device & timed & (start > 0))
        self._add_host(batch, kinds, on_host & timed)

    def _add_device(self, batch: Batch, kinds: NDArray[np.int8], rows: NDArray[np.bool_]) -> None:
        slices = list(compress(batch.slices, rows.tolist()))
        args = [slice_.args or NO_ARGS for slice_ in slices]
        device, stream = whole_numbers([*map(DEVICE, args)]), whole_numbers([*map(STREAM, args)])
        if np.any(device < 0):
            device = np.where(device < 0, whole_numbers([*map(PID, slices)]), device)
        if np.any(stream < 0):
            stream = np.where(stream < 0, whole_numbers([*map(TID, slices)]), stream)
        self._append(
            self._device,
            start=batch.start[rows],
            end=(batch.start + batch.duration)[rows],
            kind=kinds[rows].astype(np.uint8),
            name=np.fromiter(map(self._texts.__getitem__, map(NAME, slices)), np.int32, len(slices)),
            device=device.astype(np.int32),
            stream=stream,
            correlation=whole_numbers([*map(CORRELATION, args)]),
            bytes=whole_numbers([*map(BYTES, args)]),
            blocks_per_sm=_blocks_per_sm([*map(BLOCKS, args)]),
            group=self._groups(args),
            **self._collectives(args),
        )

    def _add_host(self, batch: Batch, kinds: NDArray[np.int8], rows: NDArray[np.bool_]) -> None:
        slices, kinds = list(compress(batch.slices, rows.tolist())), kinds[rows]
        count = len(slices)
        correlation = np.full(count, -1, np.int64)
        calls = kinds == Kind.RUNTIME
        correlation[calls] = whole_numbers([(s.args or NO_ARGS).correlation for s in compress(slices, calls.tolist())])
        shapes, types = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        shaped = (kinds == Kind.OP) | (kinds == Kind.RANGE)
        args = [slice_.args or NO_ARGS for slice_ in compress(slices, shaped.tolist())]
        shapes[shaped], types[shaped] = self._json_codes(args, SHAPES), self._json_codes(args, TYPES)
        stacks = np.full(count, -1, np.int32)
        stacks[shaped] = self._json_codes(args, STACK)
        arguments = np.full(count, -1, np.int32)
        asked = shaped & np.fromiter(map(self._with_arguments.__getitem__, map(NAME, slices)), np.bool_, count)
        arguments[asked] = self._json_codes(
            [slice_.args or NO_ARGS for slice_ in compress(slices, asked.tolist())], ARGUMENTS
        )
        thread = map(self._threads.__getitem__, zip(map(PID, slices), map(TID, slices), strict=True))
        self._append(
            self._host,
            start=batch.start[rows],
            end=(batch.start + batch.duration)[rows],
            kind=kinds.astype(np.uint8),
            name=np.fromiter(map(self._texts.__getitem__, map(NAME, slices)), np.int32, count),
            thread=np.fromiter(thread, np.int32, count),
            correlation=correlation,
            shapes=shapes,
            types=types,
            arguments=arguments,
            stacks=stacks,
        )

    def _json_codes(self, args: list[Args], spellings: tuple[attrgetter[Raw], ...]) -> Codes:
        """Return codes of values; where there are several spellings in one event the last of them counts."""
        codes = np.full(len(args), -1, np.int32)
        for spelling in spellings:
            values = [*map(spelling, args)]
            if values.count(NOTHING) < len(values):  # identity, which is quick: most traces have none, or one spelling
                here = np.fromiter(map(self._json.__getitem__, map(bytes, values)), np.int32, len(values))
                codes = np.where(here < 0, codes, here)
        return codes

    def _groups(self, args: list[Args]) -> Codes:
        """Return codes of process groups, by name and ranks: groups of other ranks may have the same name."""
        codes, ranks = self._json_codes(args, GROUP), self._json_codes(args, GROUP_RANKS)
        both = (codes >= 0) & (ranks >= 0)
        if both.any():
            texts = [*self._texts]
            pairs = zip(codes[both].tolist(), ranks[both].tolist(), strict=True)
            codes[both] = [self._texts[f"{texts[name]} {texts[members]}"] for name, members in pairs]
        return np.where(codes >= 0, codes, ranks)

    def _collectives(self, args: list[Args]) -> dict[str, NDArray[Any]]:
        """Return the columns of collectives: what, how much, and between how many."""
        message = whole_numbers([*map(MESSAGE, args)])
        payload, members = np.full(len(args), -1, np.int64), np.full(len(args), -1, np.int64)
        collective = np.full(len(args), -1, np.int32)
        rows = np.flatnonzero(message >= 0)
        if len(rows):
            said = [args[row] for row in rows.tolist()]
            size = np.array([ELEMENT.get(bytes(one.dtype), -1) for one in said], np.int64)
            larger = np.maximum(message[rows], whole_numbers([*map(MESSAGE_OUT, said)]))
            payload[rows] = np.where(size > 0, larger * size, -1)
            members[rows] = whole_numbers([*map(MEMBERS, said)])
            collective[rows] = self._json_codes(said, COLLECTIVE)
        return {"message": message, "collective": collective, "payload": payload, "members": members}

    def _append(self, table: dict[str, list[NDArray[Any]]], **columns: NDArray[Any]) -> None:
        self.rows += len(columns["start"])
        for name, column in columns.items():
            table[name].append(column)

    def device_slices(self) -> DeviceSlices:
        """Return the slices of devices in order of start, and let go of them."""
        columns = {name: _joined(parts) for name, parts in self._device.items()}
        order = np.argsort(columns["start"], kind="stable")
        return DeviceSlices(**{name: column[order] for name, column in columns.items()})

    def host_slices(self) -> HostSlices:
        """Return the slices of hosts in order of start, the longest first, and let go of them."""
        columns = {name: _joined(parts) for name, parts in self._host.items()}
        strings = self.strings()
        is_range = np.fromiter((text.startswith(RANGES) for text in strings), np.bool_, len(strings))
        kind = columns["kind"]
        kind[(kind == Kind.OP) & is_range[columns["name"]]] = Kind.RANGE
        order = longest_first(columns["start"], columns["end"])
        return HostSlices(**{name: column[order] for name, column in columns.items()})

    def strings(self) -> tuple[str, ...]:
        """Return the texts that the codes stand for."""
        return tuple(text or "" for text in self._texts)

    def threads(self) -> tuple[str, ...]:
        """Return "pid/tid" by code."""
        return tuple(text or "" for text in self._threads.texts)


def longest_first(start: Ints, end: Ints) -> NDArray[np.intp]:
    """Return the order by start; of slices that start together the longest is first, of equal ones the file's first."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    follows = np.zeros(len(order) + 1, np.bool_)
    follows[1:-1] = ordered[1:] == ordered[:-1]
    together = follows[1:] | follows[:-1]
    rows = order[together]
    order[together] = rows[np.lexsort((-end[rows], start[rows]))]
    return order


def _blocks_per_sm(values: list[object]) -> Floats:
    try:
        blocks = np.fromiter(values, np.float32, len(values))
    except (TypeError, ValueError):
        blocks = np.full(len(values), np.nan, np.float32)
    blocks[blocks < 0] = np.nan
    return blocks


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    joined = np.concatenate(parts)
    parts.clear()
    return joined
