"""A Lightning callback that watches `Trainer.fit`: `Trainer(callbacks=[WatchTraining()])`."""

from __future__ import annotations

from typing import Any

from whyidle.errors import WhyIdleError
from whyidle.integrations import callback

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise WhyIdleError("neither lightning nor pytorch_lightning is installed", "pip install lightning") from error


class WatchTraining(callback.Callback, Callback):  # type: ignore[misc]
    """Records `Trainer.fit` and says at its end why the GPU idles; arguments as those of `callback.Callback`."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        if stage == "fit":
            self._begin()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        self._end()
