"""A Hugging Face callback that watches `Trainer.train`: `Trainer(..., callbacks=[WatchTraining()])`."""

from __future__ import annotations

from typing import Any

from whyidle.errors import WhyIdleError
from whyidle.integrations import callback

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise WhyIdleError("transformers is not installed", "pip install transformers") from error


class WatchTraining(callback.Callback, TrainerCallback):  # type: ignore[misc]
    """Records `Trainer.train` and says at its end why the GPU idles; arguments as those of `callback.Callback`."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self._begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self._end()
