"""The critical path: what the step waited for, from its end back."""

from __future__ import annotations

import pytest

from tests.laws.programmes import Programme
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.replay.critical import critical_path


def path(programme: Programme) -> dict[str, float]:
    return dict(critical_path(replay.replay_of(measure(Run((programme.recording().trace(),))))))


@pytest.mark.parametrize(
    ("programme", "what", "least"),
    [
        (Programme(steps=8, kernel_us=60, host_us=5), ("kernel",), 0.9),
        (Programme(steps=8, kernel_us=60, host_us=5, queue=64), ("kernel",), 0.9),
        (Programme(steps=8, kernel_us=3, host_us=40), ("dispatch", "python", "unknown"), 0.9),
        (Programme(steps=8, data_us=9000, kernel_us=3), ("data_wait",), 0.8),
    ],
    ids=["the GPU", "the GPU, behind a full queue", "the host", "data"],
)
def test_what_limits_lies_on_it(programme: Programme, what: tuple[str, ...], least: float) -> None:
    shares = path(programme)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert sum(shares.get(one, 0.0) for one in what) >= least
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_read_lets_kernels_and_host_take_turns() -> None:
    shares = path(Programme(steps=8, read_every=1, kernel_us=30, host_us=30))
    assert shares["kernel"] == pytest.approx(0.4, abs=0.1)
    assert shares["sync_return"] > 0.05
