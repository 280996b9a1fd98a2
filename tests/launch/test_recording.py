"""A collector that fails or hangs holds up nothing."""

from __future__ import annotations

import threading

import pytest

from whyidle.launch import recording
from whyidle.launch.process import Ended
from whyidle.launch.recording import Recording


class StandIn:
    """A collector that notes what it was asked for, and can fail at it."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.calls: list[object] = []

    def _did(self, what: str, *more: object) -> None:
        self.calls.append((what, *more))
        if self.fails == what:
            raise OSError(28, f"in {what}")

    def start(self) -> None:
        self._did("start")

    def remaining_s(self) -> float:
        return 0.0

    def tick(self) -> None:
        self._did("tick")
        if self.fails == "thread":
            thread = threading.Thread(target=lambda: self._did("thread"))
            thread.start()
            thread.join()

    def close(self, exit_code: int | None, signal: int | None) -> None:
        self._did("close", exit_code, signal)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "REST_S", 0.01)
    monkeypatch.setattr(recording, "PATIENCE_S", 5.0)


def recorded(collector: StandIn, each: object = None) -> Recording:
    made = Recording(lambda: collector, each or (lambda: None))  # type: ignore[arg-type]
    made.start()
    assert made.end(Ended(exit_code=3))
    return made


def test_it_starts_and_closes_a_collector() -> None:
    collector = StandIn()
    assert recorded(collector).failures == 0
    assert collector.calls[:2] == [("start",), ("tick",)]
    assert set(collector.calls[2:-1]) <= {("tick",)}
    assert collector.calls[-1] == ("close", 3, None)


def test_follows_to_the_end() -> None:
    collector = StandIn()
    seen: list[object] = []
    recorded(collector, lambda: seen.append(collector.calls[-1]))
    assert seen[-1] == ("close", 3, None)  # when everything is drained


@pytest.mark.parametrize("fails", ["start", "tick", "close", "thread"])
def test_failures_are_kept_and_the_rest_goes_on(fails: str, capfd: pytest.CaptureFixture[str]) -> None:
    hook = threading.excepthook
    collector = StandIn(fails)
    made = recorded(collector)
    assert made.failures >= 1
    assert made.errors[0].endswith(f"OSError: [Errno 28] in {fails}\n")
    assert collector.calls[-1] == ("close", 3, None)
    assert capfd.readouterr() == ("", "")
    assert threading.excepthook is hook


def test_a_collector_that_cannot_be_made() -> None:
    def fail() -> StandIn:
        raise ImportError("no driver")

    made = Recording(fail, lambda: None)
    made.start()
    assert made.end(Ended(signal=9))
    assert "no driver" in made.errors[0]


def test_many_failures_are_counted_and_few_kept() -> None:
    seen = threading.Event()
    count = iter(range(10))

    def fail() -> None:
        if next(count, None) is None:
            seen.set()
            return
        raise ValueError("again")

    made = Recording(StandIn, fail)
    made.start()
    assert seen.wait(60)
    made.end(Ended(exit_code=0))
    assert made.failures == 10
    assert len(made.errors) == recording.ERRORS_KEPT


def test_a_collector_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PATIENCE_S", 0.05)
    answer = threading.Event()
    made = Recording(StandIn, lambda: None)
    monkeypatch.setattr(made, "_close", answer.wait)
    made.start()
    assert not made.end(Ended(exit_code=0))
    answer.set()
    made.join(60)
