"""What the callbacks of all frameworks do: begin to record once, and end with the verdict."""

from __future__ import annotations

from pathlib import Path

from whyidle.launch.inside import Watching, start_watching


class Callback:
    """A recording that a framework begins and ends; a framework's own callback names its moments.

    Args:
        output: folder for the evidence; None makes one in `whyidle-runs`.
        trace: record a few steps with torch.profiler.
        verdict: say at the end why the GPU idles.
    """

    def __init__(self, output: str | Path | None = None, *, trace: bool = True, verdict: bool = True) -> None:
        self._output, self._trace, self._verdict = output, trace, verdict
        self._watching: Watching | None = None

    def _begin(self) -> None:
        if self._watching is None:
            self._watching = start_watching(self._output, trace=self._trace)

    def _end(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.end(verdict=self._verdict)
