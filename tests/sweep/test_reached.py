"""Which values are known not to have reached their job."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whyidle.model.evidence import Value
from whyidle.model.trial import Cell
from whyidle.sweep.cell import Trial
from whyidle.sweep.folder import Outcome
from whyidle.sweep.parameters import How, Parameter
from whyidle.sweep.reached import missed, remarks


def trial(
    name: str,
    value: str,
    settings: Mapping[str, Value] | None = None,
    in_force: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Trial:
    params = {name: value}
    return Trial(
        "cell", Outcome(params, status="ok"), np.ones(9), {}, settings or {}, frozenset(in_force), warnings,
        Cell(params, "ok"),
    )  # fmt: skip


def said(name: str, *trials: Trial, how: How = "option") -> list[tuple[str, str]]:
    parameter = Parameter(name, tuple(one.outcome.params[name] for one in trials), how, name, "")
    return [(params[name], text) for params, text in missed(trials, [parameter])]


def test_an_option_that_the_script_ignores() -> None:
    ignored = [trial("batch-size", value, {"batch_size": 8}) for value in ("8", "16")]
    text = "The value batch-size=16 did not reach the job: its DataLoader has batch_size=8."
    assert said("batch-size", *ignored) == [("16", text)]


def test_a_batch_that_is_divided_among_ranks_is_taken() -> None:
    assert said("batch_size", *(trial("batch_size", str(8 * n), {"batch_size": 2 * n}) for n in (1, 2))) == []
    assert said("batch_size", trial("batch_size", "8", {"batch_size": 2})) == []  # one alone proves nothing


def test_workers_that_the_script_bounds() -> None:
    bounded = [trial("num_workers", value, {"num_workers": min(int(value), 4)}) for value in ("2", "4", "8")]
    assert [value for value, _ in said("num_workers", *bounded)] == ["8"]
    assert said("num_workers", trial("num_workers", "8")) == []  # no DataLoader was seen: not known
    assert said("lr", trial("lr", "8", {"lr": 1})) == []


def test_a_setting_that_came_into_force_nowhere() -> None:
    name = "loader:persistent_workers"
    sentence = f"The setting {name}=on did not come into force at train.py:9: the loader has no workers."
    off, on = trial(name, "off", in_force=(name,)), trial(name, "on", warnings=(sentence,))
    assert said(name, off, on, how="setting") == [("on", sentence)]
    assert said(name, trial(name, "on"), how="setting") == [("on", f"The setting {name}=on did not come into force.")]
    partly = f"The setting {name}=on came into force at a.py:1, but did not come into force at b.py:2: no workers."
    there = trial(name, "on", in_force=(name,), warnings=(partly, "another warning"))
    assert said(name, there, how="setting") == []
    assert remarks([], [there, there]) == [partly]
