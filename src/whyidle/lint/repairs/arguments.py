"""Arguments that let a copy go on beside the program, and those of loaders."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from whyidle.lint.repair import Change, Repair, Replace, SetArguments

# Of DataLoader, in the order in which they may be given without a name.
_LOADER = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
)  # fmt: skip
_WORKERS = (
    "random augmentations draw from a generator of each worker, so their numbers change; the dataset is copied to each "
    "worker, and what a worker changes in it stays there"
)
_PERSISTENT = (
    "workers keep their copy of the dataset from epoch to epoch: a change made to it in between is not seen; from the "
    "second epoch on shuffling and augmentations draw other random numbers"
)


def non_blocking(copy: ast.Call) -> Repair | None:
    """Return the repair that lets a copy to the GPU go on beside the program, for batches in pinned memory."""
    taken = 2 if isinstance(copy.func, ast.Attribute) and copy.func.attr == "to" else 1
    if len(copy.args) > taken or _is_spread(copy):
        return None
    return Repair((SetArguments(copy, {"non_blocking": "True"}),), safe=True)


def loader(build: ast.Call, arguments: Mapping[str, str]) -> Repair | None:
    """Return the repair that sets arguments of a DataLoader; None where it would be unclear which it has.

    Pinned memory changes no result. Workers do, wherever the dataset draws random numbers or keeps a state.
    """
    if _is_spread(build):
        return None
    by_place = dict(zip(_LOADER, build.args, strict=False))
    named: dict[str, str] = {}
    changes: list[Change] = []
    for name, code in arguments.items():
        if name in by_place:
            changes.append(Replace(by_place[name], code))
        else:
            named[name] = code
    if named:
        changes.insert(0, SetArguments(build, named))
    notes = []
    if "num_workers" in arguments:
        notes.append(_WORKERS)
    if "persistent_workers" in arguments:
        notes.append(_PERSISTENT)
    return Repair(tuple(changes), safe=not notes, note="; ".join(notes))


def _is_spread(call: ast.Call) -> bool:
    return any(isinstance(arg, ast.Starred) for arg in call.args) or any(word.arg is None for word in call.keywords)
