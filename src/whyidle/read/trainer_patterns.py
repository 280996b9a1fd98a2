"""What trainers print of their steps, as data: a regular expression for each number, as SageMaker's metric definitions.

A trainer is a row of TRAINERS, with a line of its own as the example that a test reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# As json writes a small double: four zeros and 17 digits behind the point.
NUMBER: Final = r"(?P<number>\d[\d,]{0,15}\.?\d{0,24}(?:e[+-]?\d{1,2})?)"
WHOLE: Final = r"(?P<number>\d{1,15})"
UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "min": 60.0}


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a line, and its unit (`unit` behind the number, `of` before it) where the trainer tells that."""

    series: str  # docs/curves.md
    pattern: re.Pattern[str]
    factor: float = 1.0  # to the series' unit
    is_rate: bool = False  # steps per second, where the series is seconds per step


@dataclass(frozen=True, slots=True)
class Trainer:
    """Who prints such lines, and what is in them. The first number is the one that a line has to have."""

    name: str
    example: str
    numbers: tuple[Number, ...]
    is_progress_bar: bool = False  # of several bars the one that is printed most is the training
    times_steps: bool = False  # prints no step time: it is told by the times of two lines
    sums_ranks: bool = False  # its rates are those of all GPUs together, as its source has it; else nobody knows


def _number(series: str, pattern: str, factor: float = 1.0, *, is_rate: bool = False) -> Number:
    return Number(series, re.compile(pattern.replace("NUMBER", NUMBER).replace("WHOLE", WHOLE)), factor, is_rate)


STEP_TIME: Final = "step_time_s"
DATA_WAIT: Final = "data_wait_s"
STEP: Final = "step"
TOKENS: Final = "tokens_per_s"
TOKENS_EACH: Final = "tokens_per_s_per_gpu"
SAMPLES: Final = "samples_per_s"
PER_GPU: Final = r"(?:s(?:ec(?:ond)?)?(?:/|_per_)gpu|gpu(?:/|_per_)s(?:ec(?:ond)?)?)"
UNIT: Final = r"\s*(?P<unit>us|ms|seconds|secs|sec|s|min)?\b"

BEFORE_IT: Final = r"['\"]?(?:\s*[:=]\s*|\s+)"  # between a name and its number
SAID: Final = r"(?:[_ ]\(?(?P<of>ms|sec|s)\b\)?)?" + BEFORE_IT + "NUMBER" + UNIT
PER_S: Final = r"(?:/|_per_)s(?:ec(?:ond)?)?"
NO_OTHER: Final = r"(?![\d.]|\s*(?:[mu]?s|sec|it)\b)"  # of "320 samples/s 1.2 s/it" the second number is no rate
TOKENS_SAID: Final = r"(?i)\btok(?:ens)?" + PER_S + BEFORE_IT + "NUMBER" + NO_OTHER
SAMPLES_SAID: Final = r"(?i)\b(?:samples|images|imgs?)" + PER_S + BEFORE_IT + "NUMBER" + NO_OTHER
STEP_SAID: Final = r"(?i)\b(?:global_)?(?:step|iter(?:ation)?)['\"]?\s*[:= ]\s*WHOLE"

# In order of asking: where two fit equally many lines, the first is taken.
TRAINERS: Final = (
    Trainer(
        "PyTorch's ImageNet example",
        "Epoch: [0][  10/5005]\tTime  0.352 ( 0.402)\tData  0.022 ( 0.052)\tLoss 6.9e+00 (7.0e+00)",
        (
            _number(STEP_TIME, r"\bTime\s+NUMBER\s*\("),
            _number(DATA_WAIT, r"\bData\s+NUMBER\s*\("),
            _number(STEP, r"\[\d+\]\s?\[\s*WHOLE/"),
        ),
    ),
    Trainer(
        "timm",
        "Train: 0 [  50/1251 (  4%)]  Loss: 6.95  Time: 0.400s,  640.00/s  (0.450s,  568.89/s)  Data: 0.011 (0.031)",
        (
            _number(STEP_TIME, r"\bTime: NUMBERs,"),
            _number(DATA_WAIT, r"\bData: NUMBER"),
            _number(SAMPLES, r"\bTime: [\d.]+s,\s*NUMBER/s"),
            _number(STEP, r"\[\s*WHOLE/\d+ \("),
        ),
        sums_ranks=True,
    ),
    Trainer(
        "detectron2, OpenMMLab or torchvision's references",
        "2026/01/02 03:04:05 - mmengine - INFO - Epoch(train) [1][ 50/1000] time: 0.3523 data_time: 0.0104",
        (
            _number(STEP_TIME, r"(?<![\w/])time: NUMBER(?![\d.]|\s*[mu]s)"),
            _number(DATA_WAIT, r"(?<![\w/])data(?:_time)?: NUMBER"),
            _number(STEP, r"(?:\biter: |\]\s{0,2}\[\s*)WHOLE"),
        ),
    ),
    Trainer(
        "Megatron",
        " iteration       10/     500 | consumed samples: 1280 | elapsed time per iteration (ms): 1234.5 | loss: 9.1",
        (
            _number(STEP_TIME, r"elapsed time per iteration \(ms\): NUMBER", 1e-3),
            _number(STEP, r"\biteration\s+WHOLE/"),
        ),
    ),
    Trainer(
        "nanoGPT",
        "iter 100: loss 3.2000, time 135.20ms, mfu 40.00%",
        (
            _number(STEP_TIME, r"\b(?:time|dt):? NUMBER\s*(?P<unit>ms|s)\b"),
            _number(STEP, r"\b(?:iter|step)\s+WHOLE"),
            _number(TOKENS, r"\btok(?:ens)?/s(?:ec)?:? NUMBER"),
        ),
    ),
    Trainer(
        "torchtitan",
        "[titan] 2026-01-02 03:04:05,678 - root - INFO - step: 10  loss: 8.1  tps: 5,762  mfu: 40.1%",
        (
            _number(TOKENS_EACH, r"\b[tw]ps: NUMBER"),  # of a GPU: 5,762 on 8, 5,605 on 128 of them
            _number(STEP, r"\bstep:\s+WHOLE"),
        ),
        times_steps=True,
    ),
    Trainer(
        "fairseq",
        "2026-01-02 03:04:05 | INFO | train_inner | epoch 001:  100 / 5000 loss=9.1, wps=12345.6, ups=3.45, wpb=3578.4",
        (
            _number(STEP_TIME, r"\bups=NUMBER", is_rate=True),
            _number(TOKENS, r"\bwps=NUMBER"),
            _number(STEP, r"\bnum_updates=WHOLE"),
        ),
        sums_ranks=True,
    ),
    Trainer(
        "NeMo",
        "Training epoch 0, iteration 9/999 | lr: 1e-05 | global_step: 9 | train_step_timing in s: 1.234",
        (
            _number(STEP_TIME, r"train_step_timing in s['\"]?\s*[:=]\s*NUMBER"),
            _number(STEP, r"global_step['\"]?\s*[:=]\s*WHOLE"),
        ),
    ),
    Trainer(
        "Composer",
        "[batch=20/1000]: Train throughput/batches_per_sec: 0.5123 Train throughput/tokens_per_sec: 5012.1",
        (
            _number(STEP_TIME, r"throughput/batches_per_sec: NUMBER", is_rate=True),
            _number(TOKENS, r"throughput/tokens_per_sec: NUMBER"),
            _number(TOKENS_EACH, r"throughput/device/tokens_per_sec: NUMBER"),
            _number(SAMPLES, r"throughput/samples_per_sec: NUMBER"),
            _number(STEP, r"\bbatch=WHOLE/"),
        ),
        sums_ranks=True,
    ),
    Trainer(
        "Keras",
        " 100/1875 [>.............................] - ETA: 12s 120ms/step - loss: 0.5",
        (
            _number(STEP_TIME, r"\bNUMBER(?P<unit>us|ms|s)/(?:step|batch)\b"),
            _number(STEP, r"^\s*WHOLE/\d+ "),
        ),
    ),
    Trainer(
        "a progress bar of seconds per step",
        " 12%|#2        | 120/1000 [02:24<17:36,  1.20s/it]",
        (
            _number(STEP_TIME, r"[<, ]NUMBERs/(?:it|step|batch)\b"),
            _number(STEP, r"\|\s*WHOLE/(?:\d+)\s*\["),
        ),
        is_progress_bar=True,
    ),
    Trainer(
        "a progress bar of steps per second",
        "Epoch 0:  12%|#2        | 120/1000 [00:10<01:18, 11.25it/s, v_num=0]",
        (
            _number(STEP_TIME, r"[<, ]NUMBER\s?(?:it|steps?|batch(?:es)?)/s\b", is_rate=True),
            _number(STEP, r"\|\s*WHOLE/(?:\d+)\s*\["),
        ),
        is_progress_bar=True,
    ),
    Trainer(
        "a trainer that names its step time",
        "step=10 loss=2.1 step_time=0.352 data_time=0.021 tokens/s=5012",
        (
            _number(STEP_TIME, r"(?i)\b(?:step|batch|iter(?:ation)?)[_ ]?time" + SAID),
            _number(DATA_WAIT, r"(?i)\b(?:data|load(?:er|ing)?)[_ ]?(?:load_?)?(?:time|wait)" + SAID),
            _number(TOKENS, TOKENS_SAID),
            _number(TOKENS_EACH, r"(?i)\btok(?:ens)?(?:/|_per_)" + PER_GPU + r"['\"]?\s*[:=]\s*NUMBER"),
            _number(SAMPLES, SAMPLES_SAID),
            _number(STEP, STEP_SAID),
        ),
    ),
    Trainer(
        "a trainer that tells the time per step",
        "step 3 | loss 1.44 | 50.1 ms/step",
        (
            _number(STEP_TIME, r"(?i)\bNUMBER\s?(?P<unit>us|ms|secs|sec|s)/(?:step|iter(?:ation)?|it|batch)\b"),
            _number(TOKENS, TOKENS_SAID),
            _number(SAMPLES, SAMPLES_SAID),
            _number(STEP, STEP_SAID),
        ),
    ),
    Trainer(
        "a trainer that tells samples per second",
        "step 3 loss 1.44 samples/s 320.3",
        (_number(SAMPLES, SAMPLES_SAID), _number(STEP, STEP_SAID)),
    ),
    Trainer(
        "a trainer that tells tokens per second",
        "step 3 loss 1.44 tokens/s 5012",
        (_number(TOKENS, TOKENS_SAID), _number(STEP, STEP_SAID)),
    ),
)
# Of a loop of one's own, for who asks what would be read.
EXAMPLES: Final = "`step 3 loss 1.44 step_time 0.05` (`step_time_ms 50.1`, `50.1 ms/step`, `samples/s 320`)"

SUM_RANKS: Final = frozenset(one.name for one in TRAINERS if one.sums_ranks)

# The loss, whoever prints it (total_loss, train/loss, lm loss, reduced_train_loss), but for one of an evaluation and
# for the parts of a sum (loss_cls). A loss may be negative, and may be no number, which is told, too.
ANY_NUMBER: Final = (
    r"(?P<number>[+-]?(?:nan|inf(?:inity)?|(?:\d{1,15}\.?\d{0,20}|\.\d{1,20})(?:e[+-]?\d{1,3})?))(?!\w|\.\d)"
)
SAID_OF_IT: Final = r"['\"]?(?:\s*[:=]\s*|\s+)['\"]?(?:tensor\()?" + ANY_NUMBER
LOSS: Final = re.compile(
    r"(?i)(?<![\w/.-])(?<!val )(?<!valid )(?<!validation )(?<!eval )(?<!evaluation )(?<!test )"
    r"(?:loss/)?(?:(?:total|reduced_train|train(?:ing)?|lm)[_ /])*(?:loss(?:_step)?|(?<=loss/train/)total)" + SAID_OF_IT
)
GRAD_NORM: Final = re.compile(r"(?i)\b(?:grad(?:ient)?[_ ]norm|gnorm)" + SAID_OF_IT)
LOSSES: Final = Trainer(
    "a trainer that prints losses",
    "{'loss': 2.1, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}",
    (Number("loss", LOSS), TRAINERS[-1].numbers[-1]),
)

# What a line says that happened at its time: a word that it has to have, in small letters, and its form.
EVENTS: Final = (
    (
        "checkpoint",
        ("sav",),
        re.compile(
            r"sav(?:ing|ed)\b.{0,40}\bcheckpoint|checkpoint\b.{0,40}\bsaved|saving (?:the )?model"
            r"|saving .{0,60} state to",
            re.IGNORECASE,
        ),
    ),
    (
        "evaluation",
        ("val", "test", "inference"),
        re.compile(
            r"(?:running|begin(?:ning)?|start(?:ing)?) (?:eval|valid|inference on)|Epoch\(val\)|^Test: *\["
            r"|\bval loss\b|\bevaluating\b|validation loss at iteration",
            re.IGNORECASE,
        ),
    ),
)
NO_STEP: Final = re.compile(
    r"(?:^|[\s:])(?:Test|Val|Valid|Validation|Eval|Evaluation): *\[|Epoch\(val\)|train_runtime"
    r"|\b(?:split|mode|phase|stage|subset|set)['\"]?\s*[:=]\s*['\"]?(?:val|valid|validation|eval|evaluation|test)\b"
)  # of training
TELLS_NO_TIME: Final = re.compile(r"^\{'(?:loss|eval_loss|train_runtime)': ")  # Hugging Face's Trainer
