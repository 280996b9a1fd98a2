"""What the curves of GPUs that wait look like, and whose they are."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from tests.watch.conftest import GIB, FakeClock, FakeSource, Watching, reading
from whyidle import judge
from whyidle.model.evidence import Curve, Run
from whyidle.model.finding import Finding, Location, Report, RunInfo, Summary
from whyidle.render.base import Look
from whyidle.watch import shape
from whyidle.watch.asked import Asked
from whyidle.watch.loop import Watch
from whyidle.watch.screen import Screen, table

SAWTOOTH = Finding(
    "curve.sawtooth", "high", 0.5, "It falls to zero.", 0.4, candidates=("input.a", "input.b", "input.c", "input.d")
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Curve]:
    """Return the curves that were judged; the judge finds a sawtooth in each."""
    curves: list[Curve] = []

    def say(run: Run, *, predict: bool) -> Report:
        curves.extend(run.curves)
        return Report(RunInfo(()), Summary(""), (SAWTOOTH,))

    monkeypatch.setattr(judge, "judge", say)
    return curves


def settled(watch: Watch) -> None:
    watch.run()
    if watch._shapes._thread is not None:
        watch._shapes._thread.join(60)


def test_a_gpu_that_waits_is_judged_by_its_curve(watching: Watching, asked: list[Curve]) -> None:
    source = FakeSource(lambda s: [reading(95.0 if s % 20 < 12 else 0.0, 17), reading(95.0, 18)], 2)
    watch, _, _ = watching(source, 185)
    watch.board.jobs._root.joinpath("proc/18/environ").write_text("SLURM_JOB_ID=4\0")
    settled(watch)
    first, second = watch.board.status()
    assert first.hint == "It falls to zero. Candidates: input.a, input.b, input.c."
    assert second.hint == ""
    assert {one.device for one in asked[0].series} == {0}  # the other job's GPU is no evidence of it
    assert {fact.subject for fact in asked[0].facts} == {"node7 gpu 0"}
    names = {one.name: one for one in asked[0].series}
    assert set(names) >= {"utilization_percent", "memory_used_bytes", "sm_clock_mhz", "processes"}
    assert names["memory_used_bytes"].value[0] == 40 * GIB


def test_gpus_of_one_job_are_judged_together(watching: Watching, asked: list[Curve]) -> None:
    source = FakeSource(lambda s: [reading(60.0, 17), reading(95.0, 17)], 2)
    watch, _, _ = watching(source, 185)
    settled(watch)
    assert {one.device for one in asked[0].series} == {0, 1}
    assert [bool(one.hint) for one in watch.board.status()] == [True, False]


def test_nothing_is_judged_where_there_is_nothing_to_explain(watching: Watching, asked: list[Curve]) -> None:
    for busy, seconds in ((95.0, 400), (0.0, 400), (60.0, 100)):
        watch, _, _ = watching(FakeSource(lambda s, busy=busy: [reading(busy, 17)]), seconds)  # type: ignore[misc]
        settled(watch)
        assert asked == []


def test_one_that_lags_is_told_of_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lags = replace(SAWTOOTH, rule="curve.lagging_gpu", candidates=(), locations=(Location("", device=1),))
    monkeypatch.setattr(judge, "judge", lambda run, predict: Report(RunInfo(()), Summary(""), (lags,)))
    assert shape.judged(Curve("", "nvml", ())) == {1: "It falls to zero."}


def test_a_hint_stands_once_below_the_table(watching: Watching, asked: list[Curve]) -> None:
    watch, _, _ = watching(FakeSource(lambda s: [reading(60.0, 17)] * 3, 3), 185)
    settled(watch)
    drawn = table(watch.board.status(), "ok", "watched", 80).plain
    assert drawn.count("It falls to zero.") == 1
    assert "GPU 0, 1, 2: It falls to zero." in drawn
    assert max(map(len, drawn.splitlines())) <= 80


def test_a_terminal_has_a_table_that_fits(watching: Watching) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    options = Asked(every_s=1.0)
    screen = Screen(shown, options, Look(width=60, color=True))
    source = FakeSource(lambda s: [reading(0.0, 17), None], 2)
    watch, _, _ = watching(source, 3)
    live = Watch(options, source, FakeClock(3), screen, lambda _: None, watch.board.jobs, "node7")
    assert live.run() == 0
    assert "\x1b[31m" in shown.getvalue()  # idle is red
    assert "unknown since" in shown.getvalue()
    assert "the GPU does not answer" in shown.getvalue()
