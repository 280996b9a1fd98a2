"""What is replayed, and when nothing is predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.laws.programmes import Programme
from tests.traces import Recording
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.replay import choose, gates


def replayed(recording: Recording) -> replay.Replay:
    return replay.replay_of(measure(Run((recording.trace(),))))


def steps(numbers: list[int], took: int = 1000) -> Recording:
    r = Recording()
    for place, number in enumerate(numbers):
        t = place * took
        r.step(number, t, t + took)
        r.kernel(t + 10, t + took - 20, t + 5).kernel(t + took - 10, t + took - 5, t + 50)
    return r


def test_steps_that_follow_each_other_are_replayed() -> None:
    job = replayed(steps([3, 4, 9, 10, 11, 12]))
    assert not job.refused
    assert job.graphs[0].numbers == (9, 10, 11, 12)
    assert "steps 9-12" in job.source


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (steps([1, 2]), "2 steps follow each other"),
        (steps([1, 3, 5, 7]), "1 step was recorded"),
        (Recording().kernel(10, 500, 5).kernel(510, 900, 20), "no marks of steps"),
    ],
)
def test_too_little_was_recorded(recording: Recording, said: str) -> None:
    assert said in replayed(recording).refused


def test_a_wait_that_was_not_recorded() -> None:
    """The GPU has its next kernel and does not start it, nobody knows why: no change would show."""
    r = Recording()
    for step in range(6):
        t = step * 10_000
        r.step(step, t, t + 10_000)
        r.kernel(t + 10, t + 100, t + 2).kernel(t + 9_000, t + 9_100, t + 8)
    assert "not recorded" in replayed(r).refused


def test_a_replay_that_misses_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    job = replayed(Programme().recording())
    monkeypatch.setattr(gates, "IDENTITY", -1.0)
    assert "as they are" in gates.refusal(job)


def test_a_long_recording_is_replayed_where_it_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MOST", 10)
    r, t = Recording(), 0
    for number in range(12):
        took = 5_000 if number in {0, 1, 4} else 1_000
        r.step(number, t, t + took)
        r.kernel(t + 10, t + 900, t + 5)
        t += took
    job = replayed(r)
    assert job.graphs[0].numbers == (5, 6, 7, 8, 9)


def test_recordings_whose_steps_are_not_one_jobs() -> None:
    traces = [steps([1, 2, 3], took).trace(path=f"{rank}.json", rank=rank) for rank, took in enumerate((1_000, 8_000))]
    refused = replay.replay_of(measure(Run(tuple(traces)))).refused
    assert "do not step together" in refused
    assert "takes 8 ms, that of another 1 ms" in refused


def test_of_too_many_ranks_one_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MOST", 1)
    monkeypatch.setattr(choose, "MOST_OF_RANKS", 12)
    ranks = [replace(steps([1, 2, 3, 4]).trace(path=f"{n}.json", rank=n), world_size=4) for n in range(4)]
    job = replay.replay_of(measure(Run(tuple(ranks))))
    assert len(job.graphs) == 1
    assert job.local
