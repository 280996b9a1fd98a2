"""A node folder of a run directory (docs/run-directory.md): what `whyidle run` saw of a job on one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from whyidle.model.evidence import Fact, Node, Process, Series, StepLog, Value
from whyidle.model.trial import BY_ITSELF
from whyidle.read.asked import not_in_force
from whyidle.read.base import FolderReader, Part, Progress, UnreadableError
from whyidle.read.counters import FILES, read_counters
from whyidle.read.facts import Facts, read_facts, read_workers
from whyidle.read.records import LATEST, Records, read_records
from whyidle.read.typed import WRONG, Float, Int, each, file_as

OURS: Final = re.compile(
    r"node\.json|report\.json|errors\.txt|gpu\.csv|host\.csv|processes\.csv"
    r"|(?P<id>\d+-\d+)\.(?:ring|events|events\.tail\.[01]|facts\.json|loader\.json|worker-\d+-(?:\d+|main)\.json)"
)
TEMPORARY: Final = re.compile(r".*\.(?:tmp|part|new)(?:[-.]?\w+)?")  # what is about to replace a file
ENDED: Final = ("ok", "timed out", "interrupted")  # status of a cell that its sweep may have ended
MOST_RANK: Final = 1 << 24
MOST_PROCESSES: Final = 4096  # of one machine


class _Clock(msgspec.Struct):
    mono_ns: Int | None = 0
    wall_ns: Int | None = 0


class _Cell(msgspec.Struct):
    """cell.json, which a sweep writes."""

    status: str = ""
    why: str = ""


class _Ended(msgspec.Struct):
    mono_ns: Int | None = None
    exit_code: Int | None = None
    signal: Int | None = None


class _NotCaptured(msgspec.Struct):
    pid: Int | None = None
    command: list[str] | str | None = None
    why: str | None = ""
    hint: str | None = ""


class _Node(msgspec.Struct):
    version: Int = msgspec.field(default=1, name="whyidle_run")
    host: str | None = ""
    command: list[str] | None = None
    clock: _Clock | None = None
    rings: str | None = None
    options: dict[str, msgspec.Raw] | None = None
    machine: dict[str, msgspec.Raw] | None = None
    gpus: list[dict[str, msgspec.Raw]] | None = None
    nvml: str | None = ""
    ended: _Ended | None = None
    not_captured: list[msgspec.Raw] | None = None
    warnings: list[str] | None = None


class NodeFolder(FolderReader):
    """Reads node folders, of a job that has ended or that still runs."""

    marker = "node.json"

    @classmethod
    def claims(cls, name: str) -> bool:
        return OURS.fullmatch(name) is not None or TEMPORARY.fullmatch(name) is not None

    @classmethod
    def ours_beside(cls, name: str) -> bool:
        return name in {"report.json", "cell.json"}  # the verdict; of a sweep, how the cell ended

    def read(self, folder: Path, progress: Progress | None = None) -> Part:  # noqa: ARG002  # files are small
        if any(folder.glob("*.loader.json")):
            raise UnreadableError(
                folder,
                "of a job whose loader `whyidle loader` tried: it waited for that, and says nothing of its own pace",
                "whyidle run -- and the training's command, for a verdict",
            )
        warnings: list[str] = []
        try:
            told = file_as(folder / self.marker, _Node, warnings)
        except UnreadableError as error:
            warnings.append(error.message)
            told = _Node()
        node = _node(folder, told, warnings)
        logs = tuple(_logs(folder, told.rings, node.name, warnings))
        if told.ended is not None:
            warnings += not_in_force(told.options, logs)
        series: list[Series] = []
        for name in FILES:
            if (folder / name).exists():
                series += read_counters(folder / name, node.name, warnings)
        if (folder / "errors.txt").exists():
            warnings.append(f"{folder / 'errors.txt'}: something went wrong inside the recording, not in the job.")
        return Part(node, logs, tuple(series), tuple(warnings))


def _node(folder: Path, told: _Node, warnings: list[str]) -> Node:
    ended, clock = told.ended, told.clock or _Clock()
    return Node(
        name=str(folder),
        path=str(folder),
        host=told.host or "",
        command=tuple(told.command or ()),
        started=_time(clock.mono_ns),
        wall=_time(clock.wall_ns),
        ended=None if ended is None or ended.mono_ns is None else _time(ended.mono_ns),
        exit_code=None if ended is None else ended.exit_code,
        signal=None if ended is None else ended.signal,
        ended_on_purpose=_by_sweep(folder),
        facts=tuple(_facts_of_machine(told)),
        nvml=told.nvml or "",
        not_captured=tuple(
            _not_captured(one) for one in each(told.not_captured, _NotCaptured, folder / "node.json", warnings)
        ),
        warnings=tuple(told.warnings or ()),
    )


def _by_sweep(folder: Path) -> str:
    """Return that a sweep ended the job, as its cell.json says; empty where it did not, or where there is none."""
    path = folder.parent / "cell.json"
    try:
        told = msgspec.json.decode(path.read_bytes(), type=_Cell) if path.is_file() else _Cell()
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return ""
    return f"The sweep ended the job: {told.why}." if told.status in ENDED and told.why != BY_ITSELF else ""


def _not_captured(told: _NotCaptured) -> str:
    command = told.command if isinstance(told.command, str) else " ".join(told.command or ())
    who = f"process {told.pid} ({command})" if command else f"process {told.pid}"
    why, hint = (told.why or "not known why").rstrip("."), (told.hint or "").rstrip(".")
    return f"{who} was not watched: {why}." + (f" {hint}." if hint else "")


def _facts_of_machine(told: _Node) -> Iterator[Fact]:
    """Yield the settings of a machine and its GPUs. Of a list of CPUs its length is the fact."""
    machine = told.machine or {}
    where = {"cpu_quota": _value(machine.get("quota_from"))}
    for name, raw in machine.items():
        value = _value(raw)
        if value is not None and name != "quota_from":
            yield Fact(name, value, str(where.get(name) or ""))
    for index, gpu in enumerate(told.gpus or ()):
        number = _value(gpu.get("index"))
        for name, raw in gpu.items():
            value = _value(raw)
            if value is not None and name != "index":
                yield Fact(name, value, "NVML", f"gpu {index if number is None else number}")


def _value(raw: msgspec.Raw | None) -> Value | None:
    """Return a fact's value; None for what is none."""
    if raw is None:
        return None
    try:
        value: Value | list[msgspec.Raw] = msgspec.json.decode(raw, type=bool | Int | Float | str | list[msgspec.Raw])
    except WRONG:
        return None
    return len(value) if isinstance(value, list) else value


def _logs(folder: Path, rings: str | None, node: str, warnings: list[str]) -> Iterator[StepLog]:
    """Yield a log for each process that used PyTorch, but for workers; it is empty where nothing was trained.

    Rings may lie in a local folder, which is there only on the machine itself.
    """
    folders = [folder, *([Path(rings)] if rings and Path(rings).is_absolute() and Path(rings).is_dir() else [])]
    files: dict[str, dict[str, Path]] = {}
    for place in folders:
        for path in sorted(place.iterdir()):
            found = OURS.fullmatch(path.name)
            if found is not None and found["id"] and path.is_file():
                files.setdefault(found["id"], {}).setdefault(path.name.removeprefix(found["id"]), path)
    if len(files) > MOST_PROCESSES:
        warnings.append(f"{folder}: of {len(files):,} processes the first {MOST_PROCESSES:,} are read.")
    for identity in sorted(files)[:MOST_PROCESSES]:
        log = _log(folder, node, identity, files[identity])
        if log is not None:
            yield log


def _log(folder: Path, node: str, identity: str, files: dict[str, Path]) -> StepLog | None:
    warnings: list[str] = []
    facts = read_facts(files[".facts.json"], warnings) if ".facts.json" in files else Facts()
    drained = [files[name] for name in (".events", *_tails(files)) if name in files]
    if facts.is_worker or not (drained or ".ring" in files or ".facts.json" in files):
        return None
    found = read_records(drained, files.get(".ring"), warnings)
    rows = found.rows
    order = np.argsort(rows["start"], kind="stable")
    rows = rows[order]
    workers = sorted(path for name, path in files.items() if name.startswith(".worker-"))
    return StepLog(
        path=str(folder / identity),
        process=_process(node, identity, found, facts),
        kind=rows["kind"].copy(),
        flags=rows["flags"].copy(),
        thread=rows["thread"].astype(np.uint16),
        sequence=found.sequence[order],
        start=rows["start"].astype(np.int64),
        duration=rows["duration"].astype(np.int64),
        value=rows["value"].astype(np.int64),
        lost=found.lost,
        facts=facts.settings,
        loaders=facts.loaders,
        workers=tuple(read_workers(workers, warnings)),
        sync_sites=facts.sync_sites,
        sync_steps=facts.sync_steps,
        graph_breaks=facts.breaks,
        recompilations=facts.recompilations,
        trace=facts.trace,
        export_ns=facts.export_ns,
        warnings=tuple(warnings),
    )


def _tails(files: dict[str, Path]) -> list[str]:
    """Return the names of the tails, the older first: the one that begins earlier."""
    names = [name for name in (".events.tail.0", ".events.tail.1") if name in files]
    return sorted(names, key=lambda name: _first_time(files[name]))


def _first_time(path: Path) -> int:
    found = read_records([path], None, [])
    return int(found.rows["start"][0]) if len(found.rows) else 1 << 62


def _process(node: str, identity: str, found: Records, facts: Facts) -> Process:
    header = found.header
    named, _, _ = identity.partition("-")
    pid = header.pid or facts.pid or int(named)
    rank = header.rank if header.rank is not None else facts.rank
    return Process(
        node,
        pid,
        _time(header.start_ns),
        _rank(rank),
        _rank(header.local_rank),
        _rank(header.world_size),
        header.restart,
        tuple(header.argv),
    )


def _time(ns: int | None) -> int:
    """Return a time; 0, which is not known, for what is none."""
    return ns if ns is not None and 0 <= ns < LATEST else 0


def _rank(number: int | None) -> int | None:
    return number if number is not None and 0 <= number < MOST_RANK else None
