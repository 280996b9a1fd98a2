"""What a prediction rests on that nobody measured in this job, in words: those coefficients of its edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from whyidle.model.finding import Edit

WHAT: Final[Mapping[str, str]] = {
    "data_wait": "the time that a batch takes",
    "checkpoint": "a checkpoint's pause",
    "evaluation": "an evaluation's pause",
    "logging": "logging",
    "gc": "garbage collection",
    "host": "the host's own work",
    "compile": "compilation",
    "python": "Python between operators",
    "mergeable": "the kernels that are merged",
    "collective": "collectives",
    "shards": "exchanging shards",
    "collective_wait": "waiting for late ranks",
    "matmul": "products off tensor cores",
    "fp32": "products in fp32",
    "cast": "casts",
    "recompute": "what is computed again",
    "compute": "the kernels",
}


def assumed(edits: Iterable[Edit]) -> tuple[str, ...]:
    """Return what is assumed of these edits, each once, as clauses."""
    return tuple(dict.fromkeys(clause(edit) for edit in edits if edit.coefficients.get("prior")))


def clause(edit: Edit) -> str:
    """Return what the coefficients of an edit assume."""
    c = edit.coefficients
    if "slowdown" in c:
        return f"what runs beside collectives takes {c['slowdown'] - 1:.0%} longer"
    if "factor" not in c:
        return f"all of {named(edit) or 'it'} can go away"
    factor = c["factor"]
    if "number" in edit.selector:
        return f"{named(edit)} reach a part of the extra speed that {edit.selector['number']} has on paper"
    if edit.kind == "larger_batch":
        return f"the batch is {factor:.2g} times as large"
    if edit.selector.get("cause") == "host" and factor > 1:
        return f"workers make the host's own work {factor - 1:.0%} slower"
    if "step" in edit.selector:
        return f"{factor:.0%} of the first wait is left"
    if "copy" in edit.selector:
        return f"{factor:.0%} of the time of copies is left"
    return f"{factor:.0%} of {named(edit) or 'it'} is left"


def named(edit: Edit) -> str:
    """Return what an edit speaks of; of several the first."""
    every = (str(edit.selector.get(name, "")).split(",")[0] for name in ("cause", "class", "range"))
    word = next((word for word in every if word), "")
    return WHAT.get(word, words(word))


def words(name: str) -> str:
    """Return a name of ours as a person would write it."""
    return {"Optimizer.step": "the optimizer's kernels", "zero_grad": "setting gradients to zero"}.get(
        name, name.replace("_", " ")
    )
