"""Losses that others wrote down, in logs and tables: as series, with what is no number apart from what is not known."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.diagnosis import diagnose
from whyidle.errors import WhyIdleError
from whyidle.measure.loss import losses
from whyidle.read import load
from whyidle.read.trainer_patterns import GRAD_NORM, LOSS, TRAINERS

# Trainers whose example tells a loss and the number of its step.
NUMBERED = [
    one
    for one in TRAINERS
    if LOSS.search(one.example) and any(n.series == "step" and n.pattern.search(one.example) for n in one.numbers)
]


def losses_in(tmp_path, text, name):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    found = losses(load([path]))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ("Epoch: [0][  10/5005]\tTime  0.352 ( 0.402)\tLoss 6.9e+00 (7.0e+00)", 6.9),
        ("total_loss: 1.2  loss_cls: 0.5  time: 0.3523", 1.2),
        ("loss: 2.3 (2.5)  acc1: 3.0", 2.3),
        ("| lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 1.2", 9.1),
        ("iter 100: loss 3.2000, time 135.20ms", 3.2),
        ("{'reduced_train_loss': 9.1, 'global_step': 9}", 9.1),
        ("Train loss/train/total: 2.1", 2.1),
        ("120ms/step - loss: nan - acc: 0.1", math.nan),
        ("{'loss': '2.1', 'grad_norm': '1.2'}", 2.1),
        ('{"step": 3, "train/loss": -Infinity}', -math.inf),
        ("step 7 loss=tensor(2.3, device='cuda:0')", 2.3),
        ("elbo step=3 loss=-1.5", -1.5),
        ("v_num=0, train_loss_step=2.100", 2.1),
        ("The loss was 3.5 and loss: .5.", 0.5),
        ("step 0: val loss 4.3", None),
        ("{'eval_loss': 3.0, 'epoch': 1}", None),
        ("nll_loss=3.0 loss_cls=2.0", None),
        ("loss scaler 3", None),
        ("loss=2.1s", None),
    ],
)
def test_the_loss_of_a_line(line, loss):
    told = LOSS.search(line)
    assert (told is None) == (loss is None)
    if told is not None:
        assert float(told["number"]) == pytest.approx(loss, nan_ok=True)


def test_norms_of_gradients():
    for line in ("grad_norm: 1.25", "'grad_norm': '1.25'", "grad norm: 1.250 |", "gnorm=1.25", "train/grad_norm=1.25"):
        told = GRAD_NORM.search(line)
        assert told is not None
        assert float(told["number"]) == 1.25


@pytest.mark.parametrize("trainer", NUMBERED, ids=lambda one: one.name)
def test_trainers_that_print_losses_have_them_beside_their_steps(tmp_path, trainer):
    lines = [trainer.example.replace("03:04:05", f"03:04:{step:02d}") for step in range(10, 20)]
    pattern = next(known.pattern for known in trainer.numbers if known.series == "step")
    at = [pattern.search(line).span("number") for line in lines]
    lines = [f"{line[:a]}{step}{line[b:]}" for step, line, (a, b) in zip(range(10, 20), lines, at, strict=True)]
    found = losses_in(tmp_path, "\n".join(lines), "train.log")
    assert found.step.tolist() == list(range(10, 20))
    assert set(found.loss) == {float(LOSS.search(trainer.example)["number"])}


loss_values = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan), st.just(math.inf))


def rows_of(values):
    return [{"step": step, "loss": value, "grad_norm": 0.5 + step} for step, value in enumerate(values)]


def as_jsonl(values):
    return "\n".join(json.dumps(row) for row in rows_of(values)), "losses.jsonl"


def as_csv(values):
    rows = (f"{row['step']},{row['loss']},{row['grad_norm']}" for row in rows_of(values))
    return "\n".join(("step,train/loss,grad_norm", *rows)), "losses.csv"


def as_semicolons(values):
    text, name = as_csv(values)
    return text.replace(",", ";").replace(".", ","), name


def as_state(values):
    return json.dumps(
        {"global_step": 9, "log_history": [{"eval_loss": 9.0, "step": 0}, *rows_of(values)]}
    ), "state.json"


def as_log(values):
    return "\n".join(
        f"step {row['step']} loss {row['loss']} grad_norm {row['grad_norm']}" for row in rows_of(values)
    ), "t"


@given(
    st.lists(loss_values, min_size=5, max_size=40), st.sampled_from([as_jsonl, as_csv, as_semicolons, as_state, as_log])
)
def test_what_was_written_is_read_and_no_number_is_no_unknown(tmp_path_factory, values, write):
    if not np.isfinite(values).any():
        values = [*values, 1.0]
    found = losses_in(tmp_path_factory.mktemp("losses"), *write(values))
    assert found.step.tolist() == list(range(len(values)))
    finite = np.isfinite(values)
    assert found.loss[finite].tolist() == pytest.approx(np.array(values)[finite].tolist())
    assert np.isnan(found.loss[~finite]).all()
    assert found.not_finite == np.count_nonzero(~finite)
    assert found.grad_norm.tolist() == [0.5 + step for step in range(len(values))]


def test_a_cell_that_is_empty_is_not_known(tmp_path):
    text = '"Step","run-7 - train/loss","run-7 - train/loss__MIN","val/loss"\n1,2.5,2.5,\n2,,,3.0\n3,nan,,\n'
    found = losses_in(tmp_path, text, "wandb.csv")
    assert found.step.tolist() == [1, 3]
    assert found.loss.tolist() == pytest.approx([2.5, math.nan], nan_ok=True)


def test_steps_that_begin_again_in_each_epoch_go_on(tmp_path):
    lines = [
        f"Epoch: [{epoch}][{step:>4}/100]\tTime  0.350 ( 0.402)\tLoss {epoch}.{step:02d} (7)"
        for epoch in range(3)
        for step in range(0, 100, 10)
    ]
    found = losses_in(tmp_path, "\n".join(lines), "train.log")
    assert found.step[[0, 9, 10, 19, 20]].tolist() == [0, 90, 91, 181, 182]
    assert found.loss[[0, 10, 20]].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("back", [11, 31, 61, 80])
def test_a_job_that_is_resumed_goes_on_from_its_checkpoint(tmp_path, back):
    """Not after the step at which it broke off, as an epoch that begins again does."""
    rows = [*range(1, 81), *range(back, 101)]
    text = "step,loss\n" + "".join(f"{step},{step + (place >= 80)}\n" for place, step in enumerate(rows))
    found = losses_in(tmp_path, text, "losses.csv")
    assert found.step.tolist() == list(range(1, 101))
    assert found.loss.tolist() == [step + (step >= back) for step in range(1, 101)]


def test_steps_with_fractions_number_nothing(tmp_path):
    text = "step,loss\n" + "".join(f"{step / 10},{step}\n" for step in range(50))
    found = losses_in(tmp_path, text, "losses.csv")
    assert found.step.tolist() == list(range(1, 51))


@pytest.mark.parametrize("name", ["split", "Phase", "mode"])
@pytest.mark.parametrize("part", ["val", "eval", "Test"])
def test_what_is_of_an_evaluation_by_its_own_word_is_left_out(tmp_path, name, part):
    rows = [
        (step + 5 * (step % 50 == 0), "train" if step % 50 else part, 9.0 if step % 50 == 0 else 2.0)
        for step in range(1, 400)
    ]
    table = f"step,{name},loss\n" + "".join(f"{step},{which},{loss}\n" for step, which, loss in rows)
    lines = "".join(f'{{"step": {step}, "{name}": "{which}", "loss": {loss}}}\n' for step, which, loss in rows)
    for text, file in ((table, "losses.csv"), (lines, "losses.jsonl")):
        assert set(losses_in(tmp_path, text, file).loss) == {2.0}


def test_which_of_several_runs_in_a_table_is_read_is_said(tmp_path):
    path = tmp_path / "wandb.csv"
    path.write_text('"Step","a - train/loss","b - train/loss"\n1,2.0,3.0\n2,1.0,2.0\n')
    (curve,) = load(path).curves
    assert losses(load(path)).loss.tolist() == [2.0, 1.0]
    assert any("2 columns are losses of a training; 'a - train/loss' is read" in warning for warning in curve.warnings)


def test_losses_of_hugging_face_without_its_bar_are_numbered_by_their_order(tmp_path):
    lines = [f"{{'loss': {9 - place / 10}, 'grad_norm': 1.0, 'epoch': 0.1}}" for place in range(50)]
    found = losses_in(tmp_path, "\n".join([*lines, "{'train_runtime': 3.0, 'train_loss': 2.1}"]), "train.log")
    assert found.step.tolist() == list(range(1, 51))


@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_state, as_log])
def test_losses_alone_are_no_verdict(tmp_path, write):
    text, name = write([2.0 - step / 100 for step in range(40)])
    (tmp_path / name).write_text(text)
    report = diagnose(tmp_path / name)
    assert not report.judged
    assert "does not tell how long steps take" in report.summary.verdict


def test_a_table_of_losses_without_one(tmp_path):
    (tmp_path / "losses.csv").write_text("step,loss\n1,\n")
    with pytest.raises(WhyIdleError, match="without a loss in it"):
        load([tmp_path / "losses.csv"])
