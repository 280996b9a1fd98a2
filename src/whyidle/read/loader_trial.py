"""ID.loader.json of a run directory: what `whyidle loader` measured of the training's DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from whyidle.model.loader_trial import LoaderTrial, Pass, Point, SeenLoader, Steps, Storage
from whyidle.read.typed import Float, Int, each, file_as

MOST_RANKS: Final = 1024  # of one machine; more is damage
STATES: Final = ("looking", "measuring", "training", "done", "ended", "failed")  # the order of how far it came
STATUSES: Final = ("ok", "failed", "timed out", "skipped")


class _Loader(msgspec.Struct):
    loader: Int
    where: str | None = ""
    kind: str | None = msgspec.field(default="", name="class")
    dataset: str | None = ""
    batch_size: Int | None = None
    num_workers: Int | None = None
    prefetch_factor: Int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    start_method: str | None = None
    iterable: bool | None = None
    length: Int | None = None
    skipped: str | None = ""


class _Point(msgspec.Struct):
    workers: Int
    prefetch: Int
    status: str
    why: str | None = ""
    batches: Int = 0
    seconds: Float = 0.0
    first_batch_s: Float | None = None
    fetch_s: list[Float] = []
    receive_s: Float | None = None
    repeated: bool = False
    cpu_s: Float | None = None
    run_delay_s: Float | None = None
    memory_bytes: Int | None = None
    peak_memory_bytes: Int | None = None
    batch_bytes: Int | None = None
    batch_samples: Int | None = None


class _Pass(msgspec.Struct):
    batches: Int
    seconds: Float
    read_bytes: Int | None = None
    disk_bytes: Int | None = None
    dropped: Int | None = None


class _Storage(msgspec.Struct):
    first: _Pass | None = None
    cold: _Pass | None = None
    warm: _Pass | None = None
    files: Int = 0
    opened: Int = 0
    files_bytes: Int | None = None
    example: str | None = ""
    status: str = "ok"
    why: str | None = ""


class _Steps(msgspec.Struct):
    steps: Int
    mean_s: Float
    median_s: Float
    optimizer_steps: Int | None = None


class _Training(msgspec.Struct):
    now: _Steps | None = None
    cached: _Steps | None = None


class _Trial(msgspec.Struct):
    version: Int = 1
    state: str = "looking"
    why: str | None = ""
    loader: Int | None = None
    loaders: list[msgspec.Raw] = []
    points: list[msgspec.Raw] = []
    storage: _Storage | None = None
    training: _Training | None = None
    cuda_initialized: bool | None = False
    local_ranks: Int | None = 1
    available_memory_bytes: Int | None = None
    free_shared_memory_bytes: Int | None = None


def read_loader_trials(run: Path, warnings: list[str]) -> list[LoaderTrial]:
    """Return the trials of a run directory, the one that came farthest first.

    Args:
        run: the directory, or a machine's folder in it.
        warnings: takes what is damaged.
    """
    trials = [
        read_loader_trial(path, warnings) for path in sorted({*run.glob("*.loader.json"), *run.glob("*/*.loader.json")})
    ]
    return sorted(trials, key=lambda trial: (trial.loader is None, -STATES.index(trial.state), -len(trial.loaders)))


def read_loader_trial(path: Path, warnings: list[str]) -> LoaderTrial:
    """Return a trial; UnreadableError where the file is no such thing."""
    told = file_as(path, _Trial, warnings)
    training = told.training or _Training()
    return LoaderTrial(
        state=told.state if told.state in STATES else "failed",  # type: ignore[arg-type]
        why=told.why or "",
        loader=told.loader,
        loaders=tuple(_loader(one) for one in each(told.loaders, _Loader, path, warnings)),
        points=tuple(_point(one) for one in each(told.points, _Point, path, warnings)),
        storage=None if told.storage is None else _storage(told.storage),
        now=_steps(training.now),
        cached=_steps(training.cached),
        cuda=bool(told.cuda_initialized),
        local_ranks=min(max(told.local_ranks or 1, 1), MOST_RANKS),
        available_memory_bytes=told.available_memory_bytes,
        free_shared_memory_bytes=told.free_shared_memory_bytes,
    )


def _loader(told: _Loader) -> SeenLoader:
    values = msgspec.structs.asdict(told)
    for name in ("where", "kind", "dataset", "skipped"):
        values[name] = values[name] or ""
    return SeenLoader(**values)


def _point(told: _Point) -> Point:
    values = msgspec.structs.asdict(told)
    values["status"] = told.status if told.status in STATUSES else "failed"
    values["why"] = told.why or ""
    values["fetch_s"] = tuple(time for time in told.fetch_s if time >= 0)
    return Point(**values)


def _storage(told: _Storage) -> Storage:
    return Storage(
        first=_pass(told.first),
        cold=_pass(told.cold),
        warm=_pass(told.warm),
        files=told.files,
        opened=told.opened,
        files_bytes=told.files_bytes,
        example=told.example or "",
        why="" if told.status == "ok" else told.why or told.status,
    )


def _pass(told: _Pass | None) -> Pass | None:
    return None if told is None else Pass(**msgspec.structs.asdict(told))


def _steps(told: _Steps | None) -> Steps | None:
    """Return the steps of a part of the training; None where it made none, or none that take time."""
    return Steps(**msgspec.structs.asdict(told)) if told is not None and told.steps > 0 and told.mean_s > 0 else None
