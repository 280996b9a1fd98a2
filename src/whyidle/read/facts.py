"""What a process was set to and what its workers did: ID.facts.json and ID.worker-L-W.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from whyidle.model.evidence import Fact, LoaderSettings, Stack, SyncSite, Worker
from whyidle.read.base import UnreadableError
from whyidle.read.typed import Float, Int, each, file_as

FRAME: Final = re.compile(r"(.*):(\d{1,9}):([^:]*)", re.DOTALL)
STATES: Final = {"cpu", "read", "lock", "sleep"}
LARGEST: Final = 1 << 62
LONGEST_EXPORT_MS: Final = 3_600_000.0  # longer is damage

Raws = list[msgspec.Raw]


class _Setting(msgspec.Struct):
    name: str
    value: bool | Int | Float | str
    where: str | None = ""
    subject: str | None = ""


class _Loader(msgspec.Struct):
    loader: Int
    where: str | None = ""
    kind: str | None = msgspec.field(default="", name="class")
    dataset: str | None = ""
    dataset_path: str | None = ""
    file_system: str | None = ""
    batch_size: Int | None = None
    num_workers: Int | None = None
    pin_memory: bool | None = None
    prefetch_factor: Int | None = None
    persistent_workers: bool | None = None
    length: Int | None = None


class _Site(msgspec.Struct):
    file: str
    line: Int
    count: Int
    function: str | None = ""
    operation: str | None = ""


class _Syncs(msgspec.Struct):
    steps: Int = 0
    sites: Raws = []


class _Profile(msgspec.Struct):
    state: str | None = ""
    why: str | None = ""
    trace: str | None = ""
    export_ms: Float | None = None


class _Dynamo(msgspec.Struct):
    breaks: dict[str, Int] | None = None
    recompilations: dict[str, Int] | None = None


class _Facts(msgspec.Struct):
    version: Int = 1
    pid: Int = 0
    rank: Int | None = None
    worker_of: Int | None = None
    settings: Raws = []
    loaders: Raws = []
    syncs: _Syncs | None = None
    profile: _Profile | None = None
    dynamo: _Dynamo | None = None
    errors: Int = 0


class _Seconds(msgspec.Struct):
    sum: Float = 0.0
    sum_of_squares: Float = 0.0


class _Stack(msgspec.Struct):
    frames: list[str]
    count: Int
    state: str | None = "other"


class _Worker(msgspec.Struct):
    version: Int = 1
    pid: Int = 0
    loader: Int = 0
    worker: Int = 0
    fetches: Int = 0
    fetch_s: _Seconds | None = None
    cpu_s: Float | None = None
    run_delay_s: Float | None = None
    cpus_allowed: Int | None = None
    threads: Int | None = None
    stacks: Raws = []


@dataclass(slots=True)
class Facts:
    """What ID.facts.json tells of a process."""

    pid: int = 0
    rank: int | None = None
    is_worker: bool = False
    settings: tuple[Fact, ...] = ()
    loaders: tuple[LoaderSettings, ...] = ()
    sync_sites: tuple[SyncSite, ...] = ()
    sync_steps: int = 0
    breaks: dict[str, int] = field(default_factory=dict)
    recompilations: dict[str, int] = field(default_factory=dict)
    trace: str = ""
    export_ns: int = 0


def read_facts(path: Path, warnings: list[str]) -> Facts:
    """Return what a process told of itself; nothing where the file is damaged, with a warning."""
    try:
        told = file_as(path, _Facts, warnings)
    except UnreadableError as error:
        warnings.append(error.message)
        return Facts()
    syncs, dynamo = told.syncs or _Syncs(), told.dynamo or _Dynamo()
    if told.profile is not None and told.profile.state in {"skipped", "failed"} and told.profile.why:
        warnings.append(f"{path}: no trace was recorded: {told.profile.why}")
    return Facts(
        told.pid,
        told.rank,
        told.worker_of is not None,
        tuple(
            Fact(one.name, one.value, one.where or "", one.subject or "")
            for one in each(told.settings, _Setting, path, warnings)
        ),
        tuple(_loader(one) for one in each(told.loaders, _Loader, path, warnings)),
        tuple(
            SyncSite(one.file, one.line, one.function or "", one.operation or "", one.count)
            for one in each(syncs.sites, _Site, path, warnings)
            if one.count > 0
        ),
        max(syncs.steps, 0),
        dynamo.breaks or {},
        dynamo.recompilations or {},
        (told.profile.trace or "") if told.profile is not None else "",
        _export_ns(told.profile),
    )


def _export_ns(told: _Profile | None) -> int:
    """Return how long a trace was written; 0 where that is not known, or no time."""
    took = (told.export_ms or 0.0) if told is not None else 0.0
    return int(took * 1e6) if 0 < took <= LONGEST_EXPORT_MS else 0


def read_workers(paths: Iterable[Path], warnings: list[str]) -> Iterator[Worker]:
    """Yield what each worker did, where its file makes sense."""
    for path in paths:
        try:
            told = file_as(path, _Worker, warnings)
        except UnreadableError as error:
            warnings.append(error.message)
            continue
        fetch = told.fetch_s or _Seconds()
        yield Worker(
            told.loader,
            told.worker,
            told.pid,
            max(told.fetches, 0),
            max(fetch.sum, 0.0),
            max(fetch.sum_of_squares, 0.0),
            max(told.cpu_s or 0.0, 0.0),
            max(told.run_delay_s or 0.0, 0.0),
            told.cpus_allowed,
            told.threads,
            tuple(_stack(one) for one in each(told.stacks, _Stack, path, warnings) if one.count > 0),
        )


def _loader(told: _Loader) -> LoaderSettings:
    return LoaderSettings(
        told.loader,
        told.where or "",
        told.kind or "",
        told.dataset or "",
        told.dataset_path or "",
        told.file_system or "",
        told.batch_size,
        told.num_workers,
        told.pin_memory,
        told.prefetch_factor,
        told.persistent_workers,
        told.length,
    )


def _stack(told: _Stack) -> Stack:
    frames = tuple(
        (found[1], int(found[2]), found[3]) for frame in told.frames if (found := FRAME.fullmatch(frame)) is not None
    )
    return Stack(frames, told.count, told.state if told.state in STATES else "other")
