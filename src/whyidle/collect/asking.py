"""Work that may hang, done beside: the driver of a GPU that fell off its bus does not answer any more."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Asking(threading.Thread):
    """Work that may hang: whoever waits for it need not wait for ever."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="whyidle GPUs", daemon=True)
        self._work = work
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  raised again where it is waited for
            self._error = error

    def wait(self, patience_s: float) -> None:
        """Wait for the work, at most so long; raise what it raised."""
        self.join(patience_s)
        if not self.is_alive() and self._error is not None:
            raise self._error
