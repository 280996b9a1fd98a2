"""`whyidle watch --report`: what is kept of a whole watch, and the page of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.render.html.verb_page_text import read
from tests.watch.conftest import FakeSource, Watching, reading
from whyidle.cli import main
from whyidle.render.base import Look
from whyidle.render.watched_gpus import history_html, history_json
from whyidle.watch import shape
from whyidle.watch.course import PARTS, Course
from whyidle.watch.history import MOST_EVENTS, Events
from whyidle.watch.reading import Reading


@pytest.fixture(autouse=True)
def no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are judged in a thread, and come when they come."""
    monkeypatch.setattr(shape, "judged", lambda curve: {})


def play(second: float) -> list[Reading | None]:
    """Return a GPU that works, one that rests, and one that does not answer for a while."""
    return [reading(95.0, 17), reading(0.0, 18), None if 200 < second <= 300 else reading(50.0, gib=0.2)]


def test_the_page(watching: Watching, snapshot: SnapshotAssertion) -> None:
    watch, _, _ = watching(FakeSource(play, 3), 1000, alarm=True, window_s=300.0, grace_s=60.0, price=3.6, keep=True)
    watch.run()
    assert read(history_html(watch.history(), Look())) == snapshot
    assert history_html(watch.history(), Look(unicode=False)).isascii()


def test_no_driver(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda second: "the NVIDIA driver is not loaded", 1), 100)
    watch.run()
    assert "Nothing is known of the GPUs: the NVIDIA driver is not loaded." in read(
        history_html(watch.history(), Look())
    )


def test_it_ends_at_once(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(play, 3), 0)
    watch.run()
    assert "Nothing is known of the GPUs: there is one sample of them." in read(history_html(watch.history(), Look()))


def test_names_are_text(watching: Watching) -> None:
    source = FakeSource(play, 3)
    hostile = "</script><img src=x onerror=alert(1)>\u202e"
    source.gpus = tuple(type(gpu)(gpu.index, gpu.uuid, hostile, gpu.memory_bytes) for gpu in source.gpus)
    watch, _, _ = watching(source, 100)
    watch.run()
    assert "</script><img src=x onerror=alert(1)>" in read(history_html(watch.history(), Look()))


def test_for_programs(watching: Watching) -> None:
    watch, told, _ = watching(FakeSource(play, 3), 1000, alarm=True, window_s=300.0, grace_s=60.0, keep=True)
    watch.run()
    report = json.loads(history_json(watch.history(), Look()))
    assert (report["host"], len(report["gpus"])) == ("node7", 3)
    assert [event["text"] for event in report["events"]] == [event["text"] for event in told] != []
    assert report["watched_s"] == pytest.approx(1000, abs=2)


def test_alarms_are_kept_only_for_a_report(watching: Watching) -> None:
    watch, told, _ = watching(FakeSource(play, 3), 1000, alarm=True, window_s=300.0, grace_s=60.0)
    watch.run()
    assert told
    assert watch.history().events == ()


def test_old_alarms_are_forgotten() -> None:
    events = Events()
    for number in range(MOST_EVENTS + 7):
        events.add(number, 0, {"event": "alarm", "text": str(number)})
    assert (len(events.events), events.forgotten) == (MOST_EVENTS, 7)
    assert events.events[0].text == "7"


@given(
    st.lists(st.tuples(st.floats(0.1, 50.0), st.one_of(st.none(), st.floats(0.0, 1.0))), min_size=1, max_size=300),
    st.sampled_from([0.1, 1.0, 60.0]),
)
def test_time_that_is_known_stays_known(samples: list[tuple[float, float | None]], part_s: float) -> None:
    """However often parts are joined: their mean is that of all samples, within their least and their largest."""
    course, now = Course(0.0, part_s), 0.0
    for passed, share in samples:
        now += passed
        course.add(now, passed, share)
    seen = course.utilization()
    assert len(seen.mean) <= PARTS
    assert seen.part_s * len(seen.mean) >= now * 0.999999 - seen.part_s
    known = [share for _, share in samples if share is not None]
    there = np.isfinite(seen.mean)
    assert there.any() == bool(known)
    if known:
        assert np.nanmin(seen.low) == min(known)
        assert np.nanmax(seen.high) == max(known)
        assert (seen.mean[there] >= seen.low[there] - 1e-9).all()
        assert (seen.mean[there] <= seen.high[there] + 1e-9).all()


def test_a_day_has_no_more_parts_than_a_minute_needs() -> None:
    course = Course(0.0, 1.0)
    for second in range(0, 86_400, 7):
        course.add(float(second), 7.0, 0.25)
    seen = course.utilization()
    assert PARTS / 2 <= len(seen.mean) <= PARTS
    assert np.allclose(seen.mean, 0.25)


def test_a_job_is_no_watch_of_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--pid", "1", "--report", "x.html"]) == 2
    assert "--report is of a watch of GPUs" in capsys.readouterr().err
