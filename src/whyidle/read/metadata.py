"""What a trace says of itself around its events: rank, world size, GPUs, how it was recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from whyidle.model.evidence import Gpu, Value

RANK: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b')


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of one trace."""

    rank: int | None = None
    world_size: int | None = None
    gpus: tuple[Gpu, ...] = ()
    scalars: Mapping[str, Value] = field(default_factory=dict)
    readable: bool = True


def peek_rank(head: bytes) -> int | None:
    """Return the rank if it stands in the first bytes."""
    found = RANK.search(head)
    return int(found[1]) if found else None


def metadata_of(header: bytes, trailer: bytes) -> Metadata:
    """Read the metadata before and after the list of events; `trailer` begins with the list's closing bracket.

    Without a trailer the file ended among the events, and the header alone is read.
    """
    if not header:
        return Metadata()  # a bare list of events
    text = header + b'"traceEvents": [' + trailer if trailer else header.rstrip(b" \t\r\n,") + b"}"
    try:
        top = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return Metadata(rank=peek_rank(header + trailer), readable=False)
    if not isinstance(top, dict):
        return Metadata(readable=False)
    scalars = {key: value for key, value in top.items() if isinstance(value, bool | int | float | str)}
    distributed = _mapping(top.get("distributedInfo"))
    amd = any(key.startswith(("hip_", "roctracer_")) for key in scalars)
    listed = top.get("deviceProperties") or top.get("computeProperties")  # the latter in 2021
    gpus = listed if isinstance(listed, list) else []
    return Metadata(
        rank=_natural(distributed.get("rank")),
        world_size=_natural(distributed.get("world_size")),
        gpus=tuple(_gpu(_mapping(gpu), place, amd) for place, gpu in enumerate(gpus)),
        scalars=scalars,
    )


def _gpu(said: Mapping[str, Any], place: int, amd: bool) -> Gpu:
    name = said.get("name")
    name = name.strip() if isinstance(name, str) else ""
    device = _natural(said.get("id"))
    major, minor = (
        _natural(said.get(new, said.get(old))) for new, old in (("computeMajor", "major"), ("computeMinor", "minor"))
    )
    amd = amd or name.startswith(("AMD", "gfx"))
    return Gpu(
        device=place if device is None else device,
        name=name,
        multiprocessors=_natural(said.get("numSms", said.get("multiProcessorCount"))) or 0,
        compute_capability=None if amd or not major or minor is None else (major, minor),
        memory_bytes=_natural(said.get("totalGlobalMem")) or 0,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _natural(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
