"""Which values are known not to have reached their job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from whyidle.model.evidence import Value
from whyidle.model.trial import Cell
from whyidle.sweep.cell import Trial
from whyidle.sweep.doubts import doubts
from whyidle.sweep.folder import Outcome
from whyidle.sweep.parameters import How, Parameter, parse
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
        "cell", Outcome(params, status="ok"), np.ones(9), {}, settings or {}, frozenset(in_force), warnings, None,
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


def test_what_the_script_does_not_seem_to_know_is_doubted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('no options')\n", "utf-8")
    parameters = parse(["lr=1,2"], ["python3", "train.py"], tmp_path)
    done = [Cell({"lr": value}, "ok", settled=True) for value in "12"]
    (said,) = doubts(done, [], [], parameters, 1)
    assert said.startswith("-p lr was given as --lr, which train.py does not seem to know: whether it had an effect")
    (said,) = doubts([Cell({"lr": "1"}, "failed")], [], [], parameters, 1)
    assert "that may be why no job worked. Put {lr} in the command where the value goes, as in lr={lr}." in said
    (slip,) = parse(["num_wrkers=1,2"], ["python3", "train.py"], tmp_path)
    assert slip.advice == "did you mean -p num_workers?"
    known = parse(["lr=1,2"], ["python3", "train.py", "--lr", "3"], tmp_path)
    assert list(doubts(done, [], [], known, 1)) == []


def test_epochs_that_no_cell_saw_the_end_of_are_told() -> None:
    seen = [replace(trial("x", value), seconds=np.full(60, 0.1), epoch_steps=200.0) for value in "12"]
    (said,) = doubts([], seen, [], [], 1)
    assert said.startswith("an epoch is 200 steps, 20 s at most, and 2 cells ended within the first")
    assert "--min-steps 400" in said
    assert not list(doubts([], [replace(one, seconds=np.full(250, 0.1)) for one in seen], [], [], 1))
    assert not list(doubts([], [replace(one, epoch_steps=1e6) for one in seen], [], [], 1))  # it lasts a day
    assert not list(doubts([], [replace(one, epoch_steps=None) for one in seen], [], [], 1))


def test_a_setting_that_only_the_loader_for_evaluation_got() -> None:
    name = "loader:num_workers"
    got = trial(name, "4", {"num_workers": 0}, in_force=(name,))
    text = "The value loader:num_workers=4 did not reach the job: its DataLoader has num_workers=0."
    assert said(name, got, how="setting") == [("4", text)]
