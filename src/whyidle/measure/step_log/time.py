"""How long steps take, what the training thread does in them, and what of its waits is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from whyidle.measure.step_log import gaps
from whyidle.measure.step_log.losses import (
    data_losses,
    data_ranges,
    evaluation_loss,
    of_another_thread,
    other_data_loss,
    save_loss,
)
from whyidle.measure.step_log.nesting import CHECKPOINT, END_OF_DATA, IN_BACKGROUND
from whyidle.measure.step_log.phases import EVALUATION
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Ints, LoaderSettings, Record
from whyidle.model.finding import PHASES, Location
from whyidle.model.measurement import Measurement

MOST_DIGITS: Final = 9  # of the number of a line


def measure(w: Watch) -> Iterator[Measurement]:
    """Yield what is known of a rank's time."""
    times = w.steps.times
    yield Measurement("watched_s", w.total / 1e9)
    yield Measurement("watched_steps", w.count)
    yield Measurement("steps", w.count)
    yield Measurement("step_time_s", float(np.median(times)) / 1e9)
    yield Measurement("step_time_mean_s", w.total / w.count / 1e9)
    place = loader_place(w)
    for name in PHASES:
        yield Measurement(f"host_{name}_share", w.shares[name], locations=place if name in {"data", "start"} else ())
    if len(w.batches.index):
        yield Measurement("data_wait_share", w.shares["data"], locations=place)
    first = not w.log.later and bool(w.log.sequence.min() == 0)  # it began with the command, and its beginning is here
    if first and w.node is not None and 0 < w.node.started < w.steps.start[0]:
        yield Measurement("startup_s", float(w.steps.start[0] - w.node.started) / 1e9)
    if w.on_gpu is not None:
        yield Measurement("on_gpu", w.on_gpu)
        yield from losses(w)
    yield from gaps.measure(w, taken_for_data(w))
    yield from pauses(w)


def loader_place(w: Watch) -> tuple[Location, ...]:
    """Return where the loader that the training waits for was made."""
    return place_of(w.loader_settings)


def place_of(settings: LoaderSettings | None) -> tuple[Location, ...]:
    """Return where a loader was made."""
    file, _, line = settings.where.rpartition(":") if settings is not None else ("", "", "")
    return (Location(file, int(line)),) if file and line.isdecimal() and len(line) <= MOST_DIGITS else ()


def losses(w: Watch) -> Iterator[Measurement]:
    place = loader_place(w)
    loader = evaluation_loader(w)
    data = dict(data_losses(w.waits, w.batches, w.total, float(np.median(w.steps.times))))
    other = other_data_loss(w.rows, w.steps, w.waits, w.batches, w.phase)
    apart = of_another_thread(w.log, w.rows, w.steps, w.phase, w.thread) if other else None
    if other and apart is not None and data:
        zero, workers = (min(share, other) for share in apart)
        data["lost_data_zero_share"] += zero
        data["lost_data_workers_share"] += workers
        other = max(other - zero - workers, 0.0)
    for name, share in data.items():
        yield Measurement(name, share, locations=place)
    others = {
        "lost_data_other_share": other,
        "lost_save_share": save_loss(w.rows, w.waits, w.total),
        "lost_evaluation_share": evaluation_loss(
            w.rows, w.phase, w.waits, dict(w.shares), w.window, on_gpu=bool(w.on_gpu)
        ),
    }
    for name, cost in others.items():
        if cost is not None:
            yield Measurement(name, cost, locations=place_of(loader) if name == "lost_evaluation_share" else ())


def taken_for_data(w: Watch) -> float:
    """Return the share of time that is taken for a wait for data though nothing is recorded in it."""
    if w.on_gpu is None or w.waits.host[data_ranges(w.rows, w.phase)].sum():
        return 0.0
    return other_data_loss(w.rows, w.steps, w.waits, w.batches, w.phase) or 0.0


def pauses(w: Watch) -> Iterator[Measurement]:
    """Yield how many checkpoints and evaluations there were, and how fast checkpoints were written."""
    rows = w.rows
    here = w.inside(rows.start, rows.end) > 0
    works = rows.of(Record.STEP, Record.FORWARD, Record.BACKWARD, Record.BATCH)
    saves = here & (rows.of(Record.SAVE) | (rows.of(Record.RANGE) & (rows.flags == CHECKPOINT)))
    yield Measurement("saves", len(np.unique(np.cumsum(works)[saves])))
    files = here & rows.of(Record.SAVE) & ~rows.within(Record.SAVE) & (rows.value > 0)
    written = here & rows.of(Record.SAVE)
    if written.any():
        yield Measurement("saves_in_background", bool((rows.flags[written] & IN_BACKGROUND != 0).any()))
    spent = int((rows.end - rows.start)[files].sum())
    if spent:
        yield Measurement("save_bytes_per_s", float(rows.value[files].sum(dtype=np.float64)) / (spent / 1e9))
    trains = rows.of(Record.STEP, Record.BACKWARD)
    yield from evaluation_data(w)
    evaluations = here & (w.phase == EVALUATION) & rows.of(Record.FORWARD, Record.BATCH, Record.RANGE)
    yield Measurement("evaluations", len(np.unique(np.cumsum(trains)[evaluations])))


def evaluation_batches(w: Watch) -> Ints:
    """Return which rows are waits for batches of evaluations in the watched time."""
    rows = w.rows
    its = rows.of(Record.BATCH) & ~rows.within(Record.BATCH) & w.evaluates & (rows.flags & END_OF_DATA == 0)
    return np.flatnonzero(its & (w.inside(rows.start, rows.end) > 0))


def evaluation_loader(w: Watch) -> LoaderSettings | None:
    """Return the loader that evaluations wait for longest."""
    its = evaluation_batches(w)
    if not len(its):
        return None
    loaders, place = np.unique(w.rows.loader[its], return_inverse=True)
    longest = int(loaders[np.argmax(np.bincount(place, weights=w.waits.host[its]))])
    return next((settings for settings in w.log.loaders if settings.loader == longest), None)


def evaluation_data(w: Watch) -> Iterator[Measurement]:
    """Yield how long evaluations wait for their batches, and how many workers make these."""
    its = evaluation_batches(w)
    if not len(its):
        return
    waited = w.inside(w.rows.start[its], w.rows.end[its])
    yield Measurement("evaluation_data_share", float(waited.sum()) / w.total)
    yield Measurement("evaluation_batch_seconds", float(waited.mean()) / 1e9)
    settings = evaluation_loader(w)
    if settings is not None and settings.num_workers is not None:
        yield Measurement("evaluation_workers", settings.num_workers, locations=place_of(settings))
