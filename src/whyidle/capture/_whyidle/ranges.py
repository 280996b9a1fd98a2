"""What frameworks do besides training: RANGE for evaluations and checkpoints of Hugging Face and Lightning."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import RANGE

EVALUATION, CHECKPOINT = 1, 2  # flags

# Class and method by module, and what the method does.
METHODS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "transformers.trainer": (
        ("Trainer", "evaluate", EVALUATION),
        ("Trainer", "_save_checkpoint", CHECKPOINT),
    ),
    "lightning.pytorch.loops.evaluation_loop": (("_EvaluationLoop", "run", EVALUATION),),
    "pytorch_lightning.loops.evaluation_loop": (("_EvaluationLoop", "run", EVALUATION),),
}


def install(module: Any) -> None:
    """Wrap the methods of a framework that are there."""
    for kind, name, flag in METHODS[module.__name__]:
        owner = getattr(module, kind, None)
        if owner is not None and callable(vars(owner).get(name)):
            _wrap(owner, name, flag)


def _wrap(owner: Any, name: str, flag: int) -> None:
    original = vars(owner)[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = perf_counter_ns()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            record.put(RANGE, start, perf_counter_ns() - start, 0, flag)

    hooks.replace(owner, name, method)
