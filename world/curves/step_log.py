"""What a trainer prints while it trains: in the manner of the ImageNet example, detectron2 and nanoGPT."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from world.curves.signal import Floats
from world.curves.tables import at
from world.curves.training import Training

Line = Callable[[int, float, float, float, float], str]


def imagenet(step: int, time_s: float, mean_s: float, data_s: float, data_mean_s: float) -> str:
    return (
        f"Epoch: [{step // 5000}][{step % 5000:4d}/5000]\tTime {time_s:6.3f} ({mean_s:6.3f})\t"
        f"Data {data_s:6.3f} ({data_mean_s:6.3f})\tLoss {7 * 0.9998**step:.4e} ({7 * 0.9999**step:.4e})"
    )


def detectron(step: int, time_s: float, mean_s: float, data_s: float, data_mean_s: float) -> str:
    return (
        f"eta: 1:02:03  iter: {step}  total_loss: {3 * 0.9998**step:.3f}  time: {mean_s:.4f}  last_time: {time_s:.4f}"
        f"  data_time: {data_mean_s:.4f}  last_data_time: {data_s:.4f}  lr: 0.0001  max_mem: 15012M"
    )


def nanogpt(step: int, time_s: float, mean_s: float, data_s: float, data_mean_s: float) -> str:
    del mean_s, data_s, data_mean_s  # which it does not print
    return f"iter {step}: loss {11 * 0.9998**step:.4f}, time {1000 * time_s:.2f}ms, mfu 33.21%"


STYLES: Mapping[str, Line] = {"imagenet": imagenet, "detectron": detectron, "nanogpt": nanogpt}
TELL_WAITS = {"imagenet", "detectron"}  # how long a step waited for its batch
SAID = {"checkpoint": "Saving model checkpoint to out/step_{}", "evaluation": "***** Running Evaluation *****"}


def _mean(values: Floats, style: str) -> Floats:
    """Return what a trainer prints beside the last value: the mean so far, or of the last 20 (detectron2)."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    first = np.maximum(np.arange(1, len(values) + 1) - 20, 0) if style == "detectron" else np.zeros(len(values), int)
    return np.asarray((total[1:] - total[first]) / (np.arange(1, len(values) + 1) - first))


def write(training: Training, style: str, *, every: int = 10, stamped: bool = True) -> str:
    """Return the log of rank 0: a line every so many steps, and one for each checkpoint and evaluation."""
    line, steps = STYLES[style], training.steps
    took, data = training.step_s[:steps], training.data[:steps, 0]
    mean, data_mean = _mean(took, style), _mean(data, style)
    ends = training.starts_s[:steps] + took
    out = []
    for i in sorted(set(range(0, steps, every)) | {i for i in training.paused_by if i < steps}):
        stamp = f"[{at(ends[i]):%Y-%m-%d %H:%M:%S},{at(ends[i]).microsecond // 1000:03d}][INFO] " if stamped else ""
        if i % every == 0:
            out.append(stamp + line(i, took[i], mean[i], data[i], data_mean[i]) + "\n")
        if said := SAID.get(training.paused_by.get(i, "")):
            out.append(stamp + said.format(i) + "\n")
    return "".join(out)
