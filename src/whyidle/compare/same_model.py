"""Whether two runs train the same model: by what they were seen to train, else by the products in their traces.

Names of operators do not tell: one model under two versions of PyTorch shares half of their time, two transformers
share all. How many convolutions and matrix products a step has does: resnet50 has 53 and 3 whatever else is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.compare.arms import Repeat
from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.model.comparison import Confounder
from whyidle.model.evidence import Kind

# Judgement: adapters add less to a model, the next size of one far more.
PARAMETERS_APART: Final = 0.02
SHARDED: Final = ("fsdp", "fully", "deepspeed")  # in names of wrappers whose ranks hold a part of the parameters each
# Of all products those that are convolutions: 0.9 in resnets, below 0.01 in transformers and recommenders (corpus).
KIND_APART: Final = 0.5
# Times: computing activations again at most doubles them, merging projections takes a third away (judgement).
PRODUCTS_APART, PRODUCTS_DOUBTED = 2.2, 1.2


@dataclass(frozen=True, slots=True)
class Products:
    """What a trace computes, in calls per step; in all where it has no steps."""

    convolutions: float
    products: float
    per_step: bool

    @property
    def count(self) -> float:
        return self.convolutions + self.products

    def __str__(self) -> str:
        return f"{self.convolutions:,.3g} convolutions and {self.products:,.3g} matrix products"


def models(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield that the two train different models, or may."""
    had, has = (one.report.run.settings for one in (before, after))
    if "model" in had and "model" in has:
        yield from _by_settings(before, after)
        return
    one, other = products_of(before), products_of(after)
    if one is None or other is None:
        return
    apart = abs(one.convolutions / one.count - other.convolutions / other.count)
    more = max(one.count / other.count, other.count / one.count) if one.per_step and other.per_step else 1.0
    what = f"BEFORE runs {one}{' per step' if one.per_step else ''}, AFTER {other}"
    if apart > KIND_APART:
        yield Confounder("model", str(one), str(other), "blocks", f"the models differ: {what}.")
    elif more > PRODUCTS_APART:
        message = f"a step is not the same work, by another model or more batches to a step: {what}."
        yield Confounder("model", str(one), str(other), "blocks", message)
    elif more > PRODUCTS_DOUBTED:
        yield Confounder("model", str(one), str(other), "doubts", f"the models may differ: {what}.")


def _by_settings(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    (old, size), (new, size_) = (
        (str(one.report.run.settings["model"]), one.report.run.settings.get("parameters")) for one in (before, after)
    )
    sizes = [float(each) for each in (size, size_) if isinstance(each, int | float) and each > 0]
    apart = max(sizes) / min(sizes) - 1 if len(sizes) == 2 else 0.0
    shared = _share_parameters(before, after)
    if old == new and not apart:
        return
    one, other = (f"{name} with {count:,} parameters" if count else name for name, count in ((old, size), (new, size_)))
    unknown = len(sizes) < 2 and _class(old) != _class(new)
    if (apart > PARAMETERS_APART or unknown) and not shared:
        yield Confounder("model", one, other, "blocks", f"the models differ: {one}, and {other}.")
    else:
        yield Confounder("model", one, other, "doubts", f"the models may differ: {one}, and {other}.")


def _class(model: str) -> str:
    """Return the name of a class without its module, which may move, and without what FSDP puts before it."""
    return model.rpartition(".")[2].removeprefix("FSDP")


def _share_parameters(*sides: Repeat) -> bool:
    """Say whether ranks hold a part of the parameters each, and not as large a part on both sides."""
    wrappers = [str(one.report.run.settings.get("wrapper", "")).lower() for one in sides]
    sizes = {one.report.run.world_size for one in sides}
    return any(word in name for name in wrappers for word in SHARDED) and (len(set(wrappers)) > 1 or len(sizes) > 1)


def products_of(one: Repeat) -> Products | None:
    """Return what the first trace computes; None without one, or where a compiler may have merged what it computes."""
    if not one.measured.analyses or one.report.run.settings.get("compiled"):
        return None
    analysis = one.measured.analyses[0]
    convolutions, products = (_calls(analysis, name) for name in (names.CONVOLUTION_CALL, names.MATMUL_OP))
    found = Products(convolutions, products, bool(analysis.steps))
    return found if found.count else None


def _calls(a: Analysis, name: re.Pattern[str]) -> float:
    h = a.t.host
    ops = a.t.host_like(name, Kind.OP)
    inside = int(np.count_nonzero(a.in_steps(h.start[ops])))
    return inside / max(a.steps, 1)
