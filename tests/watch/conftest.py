"""What the tests of the watch share: GPUs and a clock that do as they are told."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from tests.collect.conftest import nvml_library, nvml_stub, play, process, tree
from whyidle.collect.nvml import Occupant
from whyidle.render.base import Look
from whyidle.watch.asked import Asked
from whyidle.watch.jobs import Jobs
from whyidle.watch.loop import Watch
from whyidle.watch.reading import Gpu, Reading, Sample
from whyidle.watch.screen import Screen

__all__ = ("nvml_library", "nvml_stub", "play", "process", "tree")

GIB = 1 << 30
BEGAN_NS = 1_700_000_000_000_000_000
H100 = "NVIDIA H100 80GB HBM3"


class FakeClock:
    """Time passes only while somebody waits."""

    def __init__(self, end_s: float = float("inf")) -> None:
        self.now = 1000.0
        self.end_s = 1000.0 + end_s

    def now_s(self) -> float:
        return self.now

    def wall_ns(self) -> int:
        return BEGAN_NS + round((self.now - 1000.0) * 1e9)

    def wait_until(self, due_s: float) -> bool:
        self.now = max(self.now, due_s)
        return self.now > self.end_s


class FakeSource:
    """GPUs that are what a function of seconds since the start says; None where one does not answer."""

    name = "NVML"

    def __init__(self, play: Callable[[float], list[Reading | None] | str], gpus: int = 1) -> None:
        self._play = play
        self.gpus = tuple(Gpu(index, f"GPU-{index}", H100, 80 * GIB, 1980.0, 700.0) for index in range(gpus))

    def sample(self, now_s: float) -> Sample:
        told = self._play(now_s - 1000.0)
        if isinstance(told, str):
            return Sample(told, self.gpus)
        return Sample(
            "ok", self.gpus, {gpu.key: one for gpu, one in zip(self.gpus, told, strict=True) if one is not None}
        )

    def close(self) -> None:
        return


def reading(busy: float | None = 0.0, *pids: int, gib: float = 40.0, mhz: float = 1755.0, reasons: int = 0) -> Reading:
    """Return a GPU that is so busy, in percent, with processes on it."""
    return Reading(busy, 10.0, gib * GIB, 300.0, mhz, 50.0, reasons, tuple(Occupant(pid, GIB) for pid in pids))


Watching = Callable[..., tuple[Watch, list[dict[str, object]], io.StringIO]]


@pytest.fixture
def watching(tree: Callable[[dict[str, str | bytes]], object]) -> Watching:
    """Return a function that makes a watch of made-up GPUs, with what it tells and shows."""

    def make(source: FakeSource, seconds: float, **asked: object) -> tuple[Watch, list[dict[str, object]], io.StringIO]:
        root = tree(process(17, command="python train.py") | process(18, command="python serve.py", started=9))
        told: list[dict[str, object]] = []
        shown = io.StringIO()
        options = Asked(**asked)  # type: ignore[arg-type]
        screen = Screen(shown, options, Look())
        watch = Watch(options, source, FakeClock(seconds), screen, told.append, Jobs(root), "node7")  # type: ignore[arg-type]
        return watch, told, shown

    return make
