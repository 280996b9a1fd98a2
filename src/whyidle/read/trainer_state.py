"""The state of Hugging Face's Trainer (trainer_state.json), which every checkpoint holds: losses by step, and no times.

Its losses are means over `logging_steps`. Ones that are no number are left out by the Trainer itself
(`logging_nan_inf_filter`), so that none of them is counted here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.loss_csv import add_losses
from whyidle.read.samples import Samples, text_of

STATE: Final = re.compile(rb'\s*\{(?=.*"global_step"\s*:).*"log_history"\s*:\s*\[', re.DOTALL)


class TrainerState(Reader):
    """A state of Hugging Face's Trainer."""

    kind = "trainer state (JSON)"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return STATE.match(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader."""
        samples = Samples(clock="assumed")
        try:
            state = json.loads(text_of(path, samples.warnings, progress))
        except (ValueError, RecursionError):
            raise UnreadableError(path, "a state of Hugging Face's Trainer, cut short.", damaged=True) from None
        history = state.get("log_history") if isinstance(state, dict) else None
        count = 0
        for row in history if isinstance(history, list) else ():
            if isinstance(row, dict):
                told = (_number(row, name) for name in ("loss", "step", "grad_norm"))
                count += add_losses(samples, count, *told)
        if not count:
            raise UnreadableError(path, "a state of Hugging Face's Trainer without losses.")
        return samples.curve(path, self.kind, step_log=True)


def _number(row: Mapping[str, object], name: str) -> float | None:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
