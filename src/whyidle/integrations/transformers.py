"""A Hugging Face callback that watches `Trainer.train`.

from whyidle.integrations.transformers import WatchTraining

Trainer(..., callbacks=[WatchTraining()]).train()
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyidle.errors import WhyIdleError
from whyidle.launch.inside import Watching, start_watching

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise WhyIdleError("transformers is not installed", "pip install transformers") from error


class WatchTraining(TrainerCallback):  # type: ignore[misc]
    """Records `Trainer.train` and says at its end why the GPU idles.

    Args:
        output: folder for the evidence; None makes one in `whyidle-runs`.
        trace: record a few steps with torch.profiler.
        verdict: say it at the end.
    """

    def __init__(self, output: str | Path | None = None, *, trace: bool = True, verdict: bool = True) -> None:
        self._output, self._trace, self._verdict = output, trace, verdict
        self._watching: Watching | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        if self._watching is None:
            self._watching = start_watching(self._output, trace=self._trace)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.end(verdict=self._verdict)
