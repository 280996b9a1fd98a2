"""DataLoader iteration: BATCH for each `next()`, ITERATE for each epoch's start, whoever iterates and wherever.

All iterators of torch, and those of torchdata, derive from one class. Samples and tokens are read off the shapes of
the batch, and left unknown where shapes do not tell. Of a loader with workers the thread's CPU time is taken, too:
receiving a batch that is ready is work, not waiting, and more workers would not make it less.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import UserDict
from itertools import islice
from time import perf_counter_ns, thread_time_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import BATCH, ITERATE

END, WORKERS = 1, 2  # flags
COMPUTED, FULL = 2, 62  # flags from bit 2 on: 1 + the part of the time in which the thread computed, in 62nds
LAST = 127  # the value is signed: the last number that fits, and all loaders after it
_known: dict[int, tuple[Any, int]] = {}  # id of a loader -> (weak reference, number)
_holders: dict[Any, tuple[Any, int]] = {}  # what a loader looks like -> (weak reference to the last such, number)
_next_number = 0


def install(module: Any) -> None:
    """Hook the iterators of torch, or the loader of torchdata, which has an `__iter__` of its own."""
    if module.__name__ == "torch":
        dataloader = sys.modules.get("torch.utils.data.dataloader")
        if dataloader is not None:
            _hook_next(dataloader._BaseDataLoaderIter, hooks.compiling_test(module))
            _hook_iter(dataloader.DataLoader, hooks.compiling_test(module))
    elif "__iter__" in vars(module.StatefulDataLoader):
        _hook_iter(module.StatefulDataLoader, hooks.compiling_test(sys.modules["torch"]))


def _hook_next(iterator: Any, is_compiling: Any) -> None:
    original = iterator.__next__

    def __next__(self: Any) -> Any:
        if is_compiling():
            return original(self)
        tokens = hooks.before_wait(BATCH) if hooks.waits else None
        sequence = -1
        computed = thread_time_ns() if getattr(self, "_num_workers", 0) else -1
        start = perf_counter_ns()
        try:
            batch = original(self)
            sequence = _put(self, start, perf_counter_ns(), batch, 0, computed)
            return batch
        except BaseException as error:
            if isinstance(error, StopIteration):
                sequence = _put(self, start, perf_counter_ns(), None, END, computed)
            hooks.hide(error)
            raise
        finally:
            if tokens is not None:
                hooks.after_wait(tokens, sequence)

    hooks.replace(iterator, "__next__", __next__)


def _put(iterator: Any, start: int, end: int, batch: Any, flags: int, computed: int) -> int:
    value = 0
    try:
        if computed >= 0:
            part = (thread_time_ns() - computed) * FULL // max(end - start, 1)
            flags |= WORKERS | 1 + min(part, FULL) << COMPUTED
        loader, batch_size = getattr(iterator, "_whyidle", (0, None))
        value = loader << 56
        if batch is not None:
            value |= _size_like_the_last(iterator, batch, batch_size)
    except Exception:
        record.note_error()
    return record.put(BATCH, start, end - start, value, flags)


def _size_like_the_last(iterator: Any, batch: Any, batch_size: int | None) -> int:
    """Return `size_of` a batch, without looking further where its first tensor has the shape that the last one had."""
    kind = type(batch)
    first = batch
    if kind is list or kind is tuple:
        first = batch[0] if batch else None
    elif kind is dict:
        first = next(iter(batch.values()), None)
    shape = getattr(first, "shape", None)
    last = getattr(iterator, "_whyidle_last", None)
    if last is not None and shape is not None and shape == last[0] and kind is last[1]:
        return int(last[2])
    size = size_of(batch, getattr(iterator, "_auto_collation", True), batch_size)
    iterator._whyidle_last = (shape, kind, size)
    return size


def _hook_iter(loader: Any, is_compiling: Any) -> None:
    original = loader.__iter__

    def __iter__(self: Any) -> Any:
        if is_compiling():
            return original(self)
        frame = sys._getframe(1)
        number = _number(self, frame)  # before workers start: they are told
        start = perf_counter_ns()
        try:
            iterator = original(self)
        except BaseException as error:
            hooks.hide(error)
            raise
        end = perf_counter_ns()
        try:
            iterator._whyidle = (number, getattr(self, "batch_size", None))
            workers = getattr(self, "num_workers", 0)
            record.put(ITERATE, start, end - start, number << 56 | workers, WORKERS if workers else 0)
            hooks.iterated(number, self, frame)
        except Exception:
            record.note_error()
        return iterator

    hooks.replace(loader, "__iter__", __iter__)


def _number(loader: Any, frame: Any) -> int:
    try:
        return number_of(loader, frame)
    except Exception:
        record.note_error()
        return LAST


def number_of(loader: Any, frame: Any) -> int:
    """Return a loader's number, in order of first use.

    One that is made anew for each epoch or evaluation at the same place, and looks like one that is gone, is the same
    loader to a reader, and gets its number.
    """
    global _next_number
    known = _known.get(id(loader))
    if known is not None and known[0]() is loader:
        return known[1]
    looks = looks_of(loader, frame)
    holder = _holders.get(looks)
    if holder is not None and holder[0]() is None:
        number = holder[1]
    else:
        number = min(_next_number, LAST)
        _next_number += 1
    key = id(loader)
    # `pop` alone, with the reference as its default: loaders die after this module's globals when Python ends.
    _known[key] = (weakref.ref(loader, functools.partial(_known.pop, key)), number)
    if len(_holders) < 1024 or looks in _holders:
        _holders[looks] = (weakref.ref(loader), number)
    return number


def looks_of(loader: Any, frame: Any) -> tuple[Any, ...]:
    """Return by what a loader that is made anew for each epoch is known, and by the frame that iterates it."""
    return (
        type(loader).__qualname__,
        type(getattr(loader, "dataset", None)).__qualname__,
        getattr(loader, "batch_size", None),
        getattr(loader, "num_workers", None),
        frame.f_code,
        frame.f_lineno,
    )


def is_new(loader: Any) -> bool:
    """Return whether a loader was not used yet."""
    known = _known.get(id(loader))
    return known is None or known[0]() is not loader


def size_of(batch: Any, collated: bool = True, batch_size: int | None = None) -> int:
    """Return samples << 32 | tokens of a batch, each 0 where it is not known.

    Args:
        batch: what the loader gave.
        collated: whether the loader put samples together itself; else a lone tensor may be one sample.
        batch_size: of the loader, None where it has none.
    """
    tensors, tokens = _tensors(batch)
    sizes = [shape[0] for shape in tensors if len(shape)]
    samples = sizes[0] if sizes else 0
    if any(size != samples for size in sizes[1:]) or (not collated and len(sizes) < 2):
        samples = 0
    if collated and batch_size is not None and (samples > batch_size or (samples == 1 < batch_size)):
        samples = 0  # not rows of samples: packed by the user's collate_fn
    return (samples if samples < 1 << 24 else 0) << 32 | (tokens if tokens < 1 << 32 else 0)


def _tensors(batch: Any) -> tuple[list[Any], int]:
    """Return the shapes of the first tensors of a batch, and how many tokens it has (0: not known)."""
    ids = None
    if isinstance(batch, UserDict):  # what tokenizers of Hugging Face give
        batch = vars(batch).get("data")
    if isinstance(batch, dict):  # no other mapping: it may make its values when it is asked for them
        ids = dict.get(batch, "input_ids")
        parts = list(islice(dict.values(batch), 4))
    elif isinstance(batch, (list, tuple)):
        parts = list(batch[:4])
        if len(parts) == 2 and _are_token_pairs(*parts):
            ids = parts[0]
    else:
        parts = [batch]
    shapes = [part.shape for part in parts if hasattr(part, "shape")]
    if not shapes and parts and isinstance(parts[0], (list, tuple)):  # a pair of pairs
        shapes = [part.shape for part in parts[0][:2] if hasattr(part, "shape")]
    if ids is not None and len(getattr(ids, "shape", ())) == 2:
        return shapes, int(ids.shape[0]) * int(ids.shape[1])
    return shapes, 0


def _are_token_pairs(one: Any, other: Any) -> bool:
    """Return whether these are inputs and targets of a language model: whole numbers in rows, twice the same shape."""
    shape = getattr(one, "shape", ())
    return (
        len(shape) == 2
        and shape == getattr(other, "shape", None)
        and "int" in str(getattr(one, "dtype", ""))
        and "int" in str(getattr(other, "dtype", ""))
    )
