"""Files in, evidence out. Nothing else in whyidle parses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Curve, Ignored, Run, Trace
from whyidle.read.base import RECORD, FolderReader, Part, Progress, Reader, UnreadableError
from whyidle.read.files import Found, find, rank_in_name, refused
from whyidle.read.jobs import one_job
from whyidle.read.lives import latest

__all__ = ["FolderReader", "Progress", "Reader", "load", "load_watched"]

NAMED = 3  # files that a message lists by name


def load(paths: str | Path | Sequence[str | Path], progress: Progress | None = None) -> Run:
    """Read everything under `paths`, a path or several, as the evidence of one job.

    Of several traces of one rank the newest is judged. What is not judged is in `Run.ignored`, and in
    `Run.warnings` where that matters.

    Raises:
        WhyIdleError: nothing under `paths` can be judged, or it is of several runs.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    found = find(given, progress)
    parts = _watched(found, progress)
    one_job(parts)
    return _run(given, found, parts, _read(found, progress))


def load_watched(folders: Sequence[Path]) -> Run:
    """Read of run directories of one job only what was watched: traces are not, which takes too long for a look.

    Raises:
        WhyIdleError: as `load`.
    """
    found = find(folders)
    parts = _watched(found, None)
    one_job(parts)
    return _run(folders, found, parts, _Chosen())


def _run(given: Sequence[Path], found: Found, parts: Sequence[Part], chosen: _Chosen) -> Run:
    """Return the evidence of what was read."""
    if not chosen.traces and not chosen.curves and not parts:
        raise _nothing(given, found)
    warnings = [error.message for error in (*found.wrong, *found.refused) if error.damaged or error in found.wrong]
    ignored = [Ignored(str(error.path), error.why) for error in (*found.wrong, *found.refused)]
    for rank, paths_of_older in chosen.older.items():
        newest = chosen.traces[rank].path
        warnings.append(_several(rank, newest, paths_of_older))
        ignored += [Ignored(str(path), f"older than {newest}, which is judged.") for path in paths_of_older]
    nodes = tuple(part.node for part in parts)
    logs, restarts = latest([log for part in parts for log in part.logs], nodes)
    return Run(
        traces=tuple(
            chosen.traces[rank] for rank in sorted(chosen.traces, key=lambda rank: -1 if rank is None else rank)
        ),
        logs=logs,
        series=tuple(series for part in parts for series in part.series),
        nodes=nodes,
        curves=tuple(sorted(chosen.curves, key=lambda curve: curve.path)),
        ignored=tuple(sorted(ignored, key=lambda item: item.path)),
        warnings=(*warnings, *chosen.warnings, *(w for part in parts for w in part.warnings), *restarts),
    )


def _watched(found: Found, progress: Progress | None) -> list[Part]:
    """Read the folders in which a job was watched; equal names of machines are told apart."""
    parts: list[Part] = []
    for candidate in sorted(found.folders, key=lambda candidate: candidate.path):
        try:
            parts.append(candidate.reader().read(candidate.path, progress))
        except (OSError, UnreadableError) as error:
            found.wrong.append(refused(candidate.path, error, named=True))
    return parts


@dataclass(slots=True)
class _Chosen:
    traces: dict[int | None, Trace] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    older: dict[int | None, list[Path]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def _read(found: Found, progress: Progress | None) -> _Chosen:
    """Read the newest trace of each rank, the newest come first, and every curve."""
    chosen = _Chosen()
    for candidate in found.candidates:
        rank = candidate.rank
        if rank is None or rank not in chosen.traces:
            try:
                read = candidate.reader().read(candidate.path, progress)
            except (OSError, UnreadableError) as error:
                told = refused(candidate.path, error, named=candidate.named)
                (found.wrong if candidate.named else found.refused).append(told)
                continue
            if isinstance(read, Curve):
                chosen.curves.append(read)
                continue
            trace = read
            named = rank_in_name(candidate.path)
            rank = named if trace.rank is None else trace.rank
            if rank not in chosen.traces:
                chosen.traces[rank] = replace(trace, rank=rank, kind=candidate.reader.kind)
                if named not in (None, rank):
                    chosen.warnings.append(f"{trace.path}: named for rank {named}, but recorded by rank {rank}.")
                continue
        chosen.older.setdefault(rank, []).append(candidate.path)
    return chosen


def _several(rank: int | None, newest: str, older: Sequence[Path]) -> str:
    which = "traces that do not say their rank" if rank is None else f"traces of rank {rank}"
    return (
        f"{len(older) + 1} {which}: {newest} is judged, the newest; not judged: {_listed(str(path) for path in older)}."
    )


def _nothing(paths: Sequence[Path], found: Found) -> WhyIdleError:
    errors: list[UnreadableError] = sorted((*found.wrong, *found.refused), key=lambda error: not error.damaged)
    if not paths:
        return WhyIdleError("No file to judge.", "whyidle diagnose PATH")
    if not errors:
        folders = _listed(str(path) for path in paths)
        return WhyIdleError(f"{folders}: an empty folder.", RECORD)
    if len(errors) == 1:
        return errors[0]
    where = _listed(str(path) for path in paths)
    what = _listed((f"{error.path.name} is {error.why.rstrip('.')}" for error in errors), "; ")
    return WhyIdleError(f"{where}: none of {len(errors):,} files can be judged: {what}.", errors[0].hint or RECORD)


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    names = list(names)
    more = f"{separator}and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return separator.join(names[:NAMED]) + more
