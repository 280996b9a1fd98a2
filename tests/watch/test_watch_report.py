"""`whyidle watch --report`: what is kept of a whole watch, and the page of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.render.html.verb_page_text import read
from tests.watch.conftest import BEGAN_NS, FakeSource, Watching, reading
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


def test_nothing_known_is_not_nothing_lost(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda second: [reading(None)], 1), 100, price=3.6)
    watch.run()
    page = read(history_html(watch.history(), Look()))
    assert page.startswith("# Nothing is known of the GPUs: no sample says how busy they are.")
    assert "$0.00" not in page
    assert "idle GPU time" not in page
    assert "unknown GPU time\n100 s" in page


def test_alarms_of_several_days_have_a_date(watching: Watching) -> None:
    def nights(second: float) -> list[Reading | None]:
        return [reading(0.0 if second % 86_400 > 43_200 else 95.0, 17)]

    watch, _, _ = watching(FakeSource(nights, 1), 200_000, interval_s=60.0, alarm=True, keep=True)
    watch.run()
    page = read(history_html(watch.history(), Look()))
    assert "2023-11-15 10:26:20 UTC | alarm |" in page
    assert "2023-11-16 10:26:20 UTC | alarm |" in page


def test_samples_that_come_late_leave_no_holes() -> None:
    """nvidia-smi takes more than a second where it has to wake the driver."""
    course = Course(0.0, 1.0)
    course.add(0.0, 0.0, 0.5)
    for second in range(2, 101, 2):
        course.add(second, 2.0, 0.5 if second <= 50 else 1.0)
    seen = course.utilization()
    assert np.isfinite(seen.mean).all()
    assert seen.mean[:50].tolist() == [0.5] * 50
    assert seen.mean[52:].tolist() == [1.0] * 49


def test_a_day_of_samples_stays_a_page(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(play, 3), 100)
    watch.run()
    history = watch.history()
    time = BEGAN_NS + np.arange(86_400, dtype=np.int64) * 1_000_000_000
    days = tuple(
        replace(gpu, series=tuple(replace(one, time=time, value=np.arange(86_400) % 101.0) for one in gpu.series))
        for gpu in history.gpus
    )
    assert len(history_html(replace(history, gpus=days), Look())) < 400_000
