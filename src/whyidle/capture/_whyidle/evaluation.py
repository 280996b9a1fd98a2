"""Which names say that code evaluates a model: of a function, or in the line that makes a loader."""

from __future__ import annotations

import re

EVALUATION = re.compile(
    r"(?:^|[\W_])(?:val|valid|validation|validate|eval|evaluation|evaluate|test|dev|predict|infer|inference)(?=[\W_]|$)"
)
TRAINING = re.compile(r"(?:^|[\W_])(?:train|fit(?=[\W_]|$))")


def is_named_in(words: str) -> bool:
    """Return whether words speak of evaluation, and not of training as well: train_and_evaluate() trains."""
    return EVALUATION.search(words) is not None and TRAINING.search(words) is None
