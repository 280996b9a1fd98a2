"""Who knows what fixes are worth: the replay of a trace, the model of the loader of a watched job, or both together."""

from __future__ import annotations

from dataclasses import replace

from whyidle.measure import Measured
from whyidle.model.finding import Prediction
from whyidle.replay.critical import critical_path
from whyidle.replay.fused import Fused
from whyidle.replay.pricer import Pricer, Replayed
from whyidle.replay.replay import Replay, replay_of
from whyidle.replay.watched import of_log


def pricer(measured: Measured) -> tuple[Pricer | None, Prediction]:
    """Return who knows what fixes are worth, and from what; None where nobody does, and why."""
    log, told = of_log(measured) if measured.watched.logs else (None, Prediction())
    if not measured.analyses and measured.watched.logs:
        return log, told
    replay = replay_of(measured)
    if replay.refused:
        if log is None:
            return None, Prediction(refused=replay.refused)
        return replace(log, untraced=f"not by the trace: {replay.refused}"), told
    traced, shown = Replayed(replay), of_trace(replay)
    if log is None or log.off:
        return traced, shown
    return Fused(log, traced), replace(
        shown,
        source=f"{shown.source}, and {told.source}",
        step_time_s=told.step_time_s,
        step_time_mean_s=told.step_time_mean_s,
    )


def of_trace(replay: Replay) -> Prediction:
    """Return what is said of a replay before anything is changed in it."""
    first = replay.graphs[0]
    return Prediction(
        source=replay.source,
        steps=first.numbers,
        ranks=tuple(g.rank for g in replay.graphs if g.rank is not None),
        local=replay.local,
        step_time_s=replay.base.median_ns / 1e9,
        step_time_mean_s=replay.base.mean_ns / 1e9,
        identity_error=replay.identity_error,
        queue=first.queue.length,
        critical_path=critical_path(replay),
    )
