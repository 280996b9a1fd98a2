"""A Lightning callback that watches `Trainer.fit`.

from whyidle.integrations.lightning import WatchTraining

trainer = Trainer(callbacks=[WatchTraining()])
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyidle.errors import WhyIdleError
from whyidle.launch.inside import Watching, start_watching

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise WhyIdleError("neither lightning nor pytorch_lightning is installed", "pip install lightning") from error


class WatchTraining(Callback):  # type: ignore[misc]
    """Records `Trainer.fit` and says at its end why the GPU idles.

    Args:
        output: folder for the evidence; None makes one in `whyidle-runs`.
        trace: record a few steps with torch.profiler.
        verdict: say it at the end.
    """

    def __init__(self, output: str | Path | None = None, *, trace: bool = True, verdict: bool = True) -> None:
        self._output, self._trace, self._verdict = output, trace, verdict
        self._watching: Watching | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        if stage == "fit" and self._watching is None:
            self._watching = start_watching(self._output, trace=self._trace)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        self._end()

    def _end(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.end(verdict=self._verdict)
