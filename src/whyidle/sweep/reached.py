"""Whether the values of a sweep reached its jobs: what was not tried cannot be recommended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.trial import Params
from whyidle.read.asked import OF_SETTING
from whyidle.sweep.cell import Trial
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.strategies.base import plain

SEEN: Final = ("num_workers", "batch_size", "prefetch_factor")  # settings that a run tells by these names


def missed(trials: Sequence[Trial], parameters: Sequence[Parameter]) -> Iterator[tuple[Params, str]]:
    """Yield the values that did not reach their job, and in a sentence how that is known.

    Args:
        trials: the jobs that gave a throughput.
        parameters: that were varied.
    """
    for parameter in parameters:
        unset = list(_not_set(parameter, trials)) if parameter.how == "setting" else []
        yield from unset
        if plain(parameter.name) in SEEN:
            lost = [params for params, _ in unset]
            yield from _not_taken(parameter.name, [one for one in trials if one.outcome.params not in lost])


def remarks(unreached: Sequence[tuple[Params, str]], trials: Sequence[Trial]) -> list[str]:
    """Return what is to be said of values that did not reach their job, or not everywhere in it."""
    of_settings = (said for one in trials for said in one.warnings if said.startswith(OF_SETTING))
    return list(dict.fromkeys([*(said for _, said in unreached), *of_settings]))


def _not_set(parameter: Parameter, trials: Sequence[Trial]) -> Iterator[tuple[Params, str]]:
    """Yield what `whyidle run --set` could not do anywhere in a job."""
    for one in trials:
        if parameter.target not in one.in_force:
            told = (said for said in one.warnings if said.startswith(f"{OF_SETTING}{parameter.target}="))
            value = one.outcome.params[parameter.name]
            yield one.outcome.params, next(told, f"{OF_SETTING}{parameter.target}={value} did not come into force.")


def _not_taken(name: str, trials: Sequence[Trial]) -> Iterator[tuple[Params, str]]:
    """Yield what the job's own DataLoader tells: the same whatever was asked for, or another number of workers.

    A batch size may be divided among ranks, or be multiplied: another one alone proves nothing.
    """
    setting = plain(name)
    told = [
        (one, int(one.outcome.params[name]), one.settings[setting])
        for one in trials
        if one.outcome.params.get(name, "").isdecimal() and isinstance(one.settings.get(setting), int)
    ]
    is_fixed = len({asked for _, asked, _ in told}) > 1 and len({seen for _, _, seen in told}) == 1
    for one, asked, seen in told:
        if asked != seen and (is_fixed or setting == "num_workers"):
            yield (
                one.outcome.params,
                f"The value {name}={asked} did not reach the job: its DataLoader has {setting}={seen}.",
            )
