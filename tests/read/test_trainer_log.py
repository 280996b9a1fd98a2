"""What trainers print: each in its own words, and always the same series."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load
from whyidle.read.trainer_patterns import TRAINERS

NS = 10**9


def curve_of(tmp_path, text, name="train.log"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    (curve,) = load([path]).curves
    return curve


def series(curve, name):
    return next(one for one in curve.series if one.name == name)


def stamp(seconds):
    return f"2026-01-02 03:{seconds // 60:02d}:{seconds % 60:02d}"


STEP_TIMES = [
    *(0.352, 0.4, 0.3523, 1.2345, 0.1352, 2.0, 1 / 3.45, 1.234, 1 / 0.5123, 0.12, 1.2, 1 / 11.25, 0.352, 0.0501),
    *(None, None),  # tell a rate in its place
]  # s
TOLD_BESIDE = {
    "timm": {"data_wait_s": 0.011, "samples_per_s": 640.0},
    "PyTorch's ImageNet example": {"data_wait_s": 0.022},
    "detectron2, OpenMMLab or torchvision's references": {"data_wait_s": 0.0104},
    "torchtitan": {"tokens_per_s_per_gpu": 5762.0},
    "fairseq": {"tokens_per_s": 12345.6},
    "Composer": {"tokens_per_s": 5012.1},
    "a trainer that tells samples per second": {"samples_per_s": 320.3},
    "a trainer that tells tokens per second": {"tokens_per_s": 5012.0},
    "a trainer that names its step time": {"data_wait_s": 0.021, "tokens_per_s": 5012.0},
}


def at_step(trainer, step):
    """Return the trainer's example as it prints it at another step."""
    pattern = next(known.pattern for known in trainer.numbers if known.series == "step")
    told = pattern.search(trainer.example)
    return (
        trainer.example[: told.start("number")] + str(step) + trainer.example[told.end("number") :]
        if told
        else trainer.example
    )


@pytest.mark.parametrize(
    ("trainer", "seconds"), list(zip(TRAINERS, STEP_TIMES, strict=True)), ids=[one.name for one in TRAINERS]
)
def test_the_example_of_every_trainer_is_read_as_its_own(tmp_path, trainer, seconds):
    lines = [at_step(trainer, step).replace("03:04:05", f"03:04:{2 * step:02d}") for step in range(10, 20)]
    curve = curve_of(tmp_path, "\n".join(lines))
    assert (curve.kind, curve.step_log, curve.facts[0].value) == ("trainer log", True, trainer.name)
    times = [value for one in curve.series if one.name == "step_time_s" for value in one.value]
    assert bool(times) is (seconds is not None)
    assert times == pytest.approx([seconds] * len(times))
    for name, value in TOLD_BESIDE.get(trainer.name, {}).items():
        assert series(curve, name).value == pytest.approx([value] * 10)
    if any(one.name == "step" for one in curve.series):
        assert series(curve, "step").value.tolist() == list(range(10, 20))


def test_an_epoch_of_imagenet(tmp_path):
    lines = [
        f"Epoch: [0][{step:>5}/5005]\tTime  0.{350 + step % 7} ( 0.402)\tData  0.0{20 + step % 5} ( 0.052)\tLoss 6.9"
        for step in range(0, 100, 10)
    ]
    curve = curve_of(tmp_path, "\n".join(lines))
    assert curve.clock == "assumed"
    step_time = series(curve, "step_time_s")
    assert step_time.value == pytest.approx([0.35 + step % 7 / 1000 for step in range(0, 100, 10)])
    assert series(curve, "data_wait_s").value == pytest.approx([0.02 + step % 5 / 1000 for step in range(0, 100, 10)])
    assert series(curve, "step").value.tolist() == list(range(0, 100, 10))
    assert step_time.time[-1] / NS == pytest.approx(9 * 10 * 0.353, rel=0.02)


def test_steps_of_an_evaluation_are_none_of_the_training(tmp_path):
    train = [f"Epoch: [0][{step:>4}/99]\tTime  0.350 ( 0.402)\tData  0.020 ( 0.052)" for step in range(20)]
    test = [f"Test: [{step:>4}/99]\tTime  9.000 ( 9.000)\tLoss 6.9" for step in range(20)]
    assert set(series(curve_of(tmp_path, "\n".join(train + test)), "step_time_s").value) == {0.35}


def test_lines_that_tell_the_time_are_placed_by_it(tmp_path):
    lines = [
        f"[{stamp(2 * step)}] iteration {step:8}/ 500 | elapsed time per iteration (ms): {2000 + step}.0 |"
        for step in range(10)
    ]
    lines.insert(5, f"[{stamp(9)}] saving checkpoint at iteration 4 to /x")
    lines.insert(8, f"[{stamp(15)}] Running evaluation")
    curve = curve_of(tmp_path, "\n".join(lines))
    assert curve.clock == "wall"
    step_time = series(curve, "step_time_s")
    assert np.diff(step_time.time).tolist() == [2 * NS] * 9
    assert step_time.value[3] == pytest.approx(2.003)
    assert series(curve, "checkpoint").time.tolist() == [step_time.time[0] + 9 * NS]
    assert series(curve, "evaluation").time.tolist() == [step_time.time[0] + 15 * NS]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("step_time=0.352", 0.352),
        ("step time: 352 ms", 0.352),
        ("step_time_ms: 352", 0.352),
        ("'batch_time': 0.352,", 0.352),
        ("iter_time (ms): 352.0", 0.352),
        ("Iteration time: 0.352 sec", 0.352),
        ('INFO {"step_time_s": 0.352, "loss": 1}', 0.352),
        ("step_time: 1,352 ms", 1.352),
        ("step 3 loss 1.44 step_time_ms 352.0", 0.352),
        ("step 3 loss 1.44 step_time 0.352", 0.352),
        ("step 3 | loss 1.44 | 352 ms/step", 0.352),
        ("step 3: 0.352 s/iter, loss 1.44", 0.352),
        ("step 3 loss 1.44 step_time 0.352 samples/s 320", 0.352),
    ],
)
def test_units_are_heeded_wherever_they_stand(tmp_path, text, seconds):
    lines = "".join(f"{text.replace('step 3', f'step {step}')}\n" for step in range(1, 7))
    assert series(curve_of(tmp_path, lines), "step_time_s").value == pytest.approx([seconds] * 6)


def test_of_two_rates_beside_each_other_each_has_its_own_number(tmp_path):
    lines = [f"step {step} loss 2.0 samples/s {320 + step} tokens/s 5012" for step in range(1, 7)]
    curve = curve_of(tmp_path, "\n".join(lines))
    assert series(curve, "samples_per_s").value.tolist() == [321.0, 322.0, 323.0, 324.0, 325.0, 326.0]
    assert series(curve, "step").value.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_what_follows_a_rate_with_its_own_unit_is_not_the_rate(tmp_path):
    lines = [f"step {step} loss 2.0 320 samples/s 1.2 s/it" for step in range(1, 7)]
    curve = curve_of(tmp_path, "\n".join(lines))
    assert {one.name for one in curve.series} == {"step_time_s", "step", "loss"}


def test_steps_of_the_same_second_are_all_kept(tmp_path):
    lines = [f"{stamp(step // 4)} step={step} step_time=0.25" for step in range(40)]
    assert len(series(curve_of(tmp_path, "\n".join(lines)), "step_time_s").time) == 40


def test_step_times_by_the_times_of_lines(tmp_path):
    lines = [
        f"[titan] {stamp(3 * step)},500 - root - INFO - step: {10 * step}  loss: 8.0  tps: 5,762  mfu: 40%"
        for step in range(1, 12)
    ]
    curve = curve_of(tmp_path, "\n".join(lines))
    assert series(curve, "step_time_s").value == pytest.approx([0.3] * 10)
    assert series(curve, "tokens_per_s_per_gpu").value.tolist() == [5762] * 11


def test_a_progress_bar_is_the_training_not_the_loading_of_shards(tmp_path):
    shards = "".join(f"\rLoading shards: {place}%|#  | {place}/4 [00:01<00:01, 3.00it/s]" for place in range(5))
    bar = "".join(f"\r\x1b[32m{place}%\x1b[0m|##   | {place}/1000 [00:10<01:00, 1.25s/it]" for place in range(1, 60))
    curve = curve_of(tmp_path, shards + bar + bar.rpartition("\r")[2])
    step_time = series(curve, "step_time_s")
    assert set(step_time.value) == {1.25}
    assert len(step_time.value) == 59


def test_rates_become_times(tmp_path):
    lines = "\r".join(f"Epoch 0: {step}%|#  | {step}/99 [00:10<01:00, 8.00it/s, v_num=0]" for step in range(1, 20))
    assert set(series(curve_of(tmp_path, lines), "step_time_s").value) == {0.125}


def test_pages_of_settings_come_first(tmp_path):
    settings = "\n".join(f"option_{place}: value" for place in range(8000))
    lines = "\n".join(f"iter {step}: loss 3.2, time {135 + step}.20ms, mfu 40.00%" for step in range(30))
    assert len(series(curve_of(tmp_path, settings + "\n" + lines), "step_time_s").value) == 30


def test_a_log_that_begins_with_the_table_of_nvidia_smi_is_a_trainers(tmp_path):
    table = "+---+\n| NVIDIA-SMI 590.48.01  Driver Version: 590.48.01 |\n+---+\n"
    lines = "\n".join(f"iter {step}: loss 3.2, time {135 + step}.20ms, mfu 40.00%" for step in range(30))
    assert curve_of(tmp_path, table + lines).step_log


@pytest.mark.parametrize(
    "other",
    [
        "node1:77:99 [0] NCCL INFO Channel 00/02 : 0 1",
        "W0102 torch/_dynamo/convert_frame.py:777] torch._dynamo hit config.",
    ],
)
def test_lines_of_libraries_may_stand_among_the_trainers(tmp_path, other):
    lines = [f"iter {step}: loss 3.2, time {135 + step}.20ms, mfu 40.00%" for step in range(30)]
    assert curve_of(tmp_path, "\n".join([other] * 20 + lines)).step_log
    path = tmp_path / "other.log"
    path.write_text("\n".join([other] * 20))
    with pytest.raises(WhyIdleError, match="does not read yet"):
        load([path])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\n".join(f"{{'eval_loss': {place}.5, 'epoch': 0.1}}" for place in range(50)), "progress bar"),
        ("\n".join(f"iter {step}: loss 3.2, time 135.20ms, mfu 40.00%" for step in range(3)), "3 steps"),
        ("\n".join(f"step: {step}  tps: 5,762" for step in range(30)), "neither"),
    ],
)
def test_logs_that_do_not_tell_enough(tmp_path, text, told):
    path = tmp_path / "train.log"
    path.write_text(text)
    with pytest.raises(WhyIdleError, match=told):
        load([path])


@given(st.integers(0, 3000), st.binary(max_size=5))
def test_cut_or_with_other_bytes_in_it_nothing_but_a_message(tmp_path_factory, place, other):
    lines = [
        f"[{stamp(2 * step)}] iteration {step:8}/ 500 | elapsed time per iteration (ms): {2000 + step}.0 |"
        for step in range(30)
    ]
    whole = "\n".join(lines).encode()
    path = tmp_path_factory.mktemp("damage") / "train.log"
    for content in (whole[:place], whole[:place] + other + whole[place:]):
        path.write_bytes(content)
        with contextlib.suppress(WhyIdleError):
            (curve,) = load([path]).curves
            assert all(np.all(np.diff(one.time) > 0) for one in curve.series)
