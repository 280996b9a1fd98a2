"""The watch as a whole, on made-up GPUs by a made-up clock: what is shown, told and counted."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tests.collect.conftest import Tree
from tests.watch.conftest import FakeClock, FakeSource, Watching, reading
from whyidle.watch import shape
from whyidle.watch.clock import after
from whyidle.watch.reading import Reading, Sample


def test_a_single_look(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(95.0, 17), reading(0.0, 18)], 2)
    watch, _, shown = watching(source, 100, once=True, look_s=5.0)
    assert watch.run() == 1
    text = shown.getvalue()
    assert "busy 95%" in text
    assert "held by PID 18" in text
    assert "watched for 5 s" in text


def test_the_file_that_says_the_price_is_named(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(0.0, 18)], 1)
    watch, _, shown = watching(source, 100, once=True, price=3.6, price_file="pyproject.toml")
    watch.run()
    assert "(price: pyproject.toml)" in " ".join(shown.getvalue().split())


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        ([reading(95.0, 17)], 0),
        ([reading(50.0, 17)], 0),
        ([reading(95.0, 17), reading(0.0)], 1),
        ([reading(95.0, 17), None], 2),
        ([reading(0.0, 17), None], 1),
    ],
)
def test_exit_code_of_a_single_look(readings: list[Reading | None], code: int, watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: readings, len(readings)), 100, once=True)
    assert watch.run() == code


def test_a_single_look_as_json(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(50.0, 17), None], 2)
    watch, _, shown = watching(source, 100, once=True, format="json", price=3.6)
    watch.run()
    told = json.loads(shown.getvalue())
    assert (told["host"], told["source"], told["state"]) == ("node7", "NVML", "ok")
    first, second = told["gpus"]
    assert (first["verdict"], first["busy_share"], first["jobs"][0]["name"]) == ("waits", 0.5, "train.py")
    assert first["idle_usd"] == pytest.approx(3.6 / 3600 * 2.5)
    assert told["idle_usd_per_hour"] == pytest.approx(1.8)
    assert (second["verdict"], second["busy_share"], second["utilization_percent"]) == ("unknown", None, None)
    assert (second["known_s"], second["unknown_s"]) == (0.0, 5.0)


def test_the_page_names_every_field_of_the_json(watching: Watching) -> None:
    page = (Path(__file__).parents[2] / "docs" / "watch.md").read_text("utf-8")
    section = page.partition("## As JSON")[2].partition("\n## ")[0]
    watch, _, shown = watching(FakeSource(lambda s: [reading(50.0, 17)]), 100, once=True, format="json")
    watch.run()
    told = json.loads(shown.getvalue())
    (gpu,) = told["gpus"]
    fields = {*told, *gpu, *gpu["jobs"][0]}
    first = "".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    assert fields - {"pids", "user", "label"} == set(re.findall(r"`(\w+)`", first))


def test_lines_where_nobody_looks(watching: Watching) -> None:
    watch, _, shown = watching(FakeSource(lambda s: [reading(95.0, 17)]), 180)
    assert watch.run() == 0
    lines = shown.getvalue().splitlines()
    assert len(lines) == 4  # at 0, 60, 120 and 180 s
    assert all("GPU 0   95%" in line and "busy 95%" in line for line in lines)


def test_json_lines(watching: Watching) -> None:
    watch, _, shown = watching(FakeSource(lambda s: [reading(95.0, 17)]), 3, format="json", every_s=1.0)
    watch.run()
    assert [json.loads(line)["gpus"][0]["verdict"] for line in shown.getvalue().splitlines()] == ["busy"] * 4


def test_an_alarm_has_its_cause_and_evidence(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(95.0 if s < 60 or s > 1500 else 2.0, 17)])
    watch, told, shown = watching(source, 3000, alarm=True)
    watch.run()
    alarm, resolved = told
    assert (alarm["event"], alarm["cause"], resolved["event"]) == ("alarm", "held_by_process", "resolved")
    gpu, evidence = alarm["gpu"], alarm["evidence"]
    assert gpu["jobs"][0]["pids"] == [17]  # type: ignore[index]
    assert evidence["floor"] == 0.15  # type: ignore[index]
    assert evidence["samples"] == 900  # type: ignore[index]
    assert evidence["busy_share"] == pytest.approx((59 * 0.95 + 841 * 0.02) / 900)  # type: ignore[index]
    assert "below 15%" in str(alarm["text"])
    assert "train.py" in str(alarm["text"])
    assert sum("ALARM" in line for line in shown.getvalue().splitlines()) == 1


def test_an_alarm_can_end_the_watch(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(95.0 if s == 0 else 0.0, 17)])
    watch, told, _ = watching(source, 3000, exit_on_alarm=True, window_s=100.0)
    assert watch.run() == 1
    assert len(told) == 1
    assert watch._clock.now_s() == 1100.0


def test_who_is_exempt_does_not_alarm(watching: Watching) -> None:
    source = FakeSource(lambda s: [reading(0.0, 17), reading(0.0, 18)], 2)
    watch, told, _ = watching(source, 3000, alarm=True, exempt=("serve*",))
    watch.run()
    assert [event["gpu"]["gpu"] for event in told] == [0]  # type: ignore[index]


def test_a_driver_that_goes_and_comes_back_is_unknown_and_not_idle(watching: Watching) -> None:
    def play(second: float) -> list[Reading | None] | str:
        return "the NVIDIA driver is not loaded" if 100 <= second < 3000 else [reading(95.0, 17)]

    watch, told, shown = watching(FakeSource(play), 4000, alarm=True, price=1.0)
    watch.run()
    assert told == []
    assert any("unknown since" in line and "not loaded" in line for line in shown.getvalue().splitlines())
    spent = watch.board.status()[0].spent
    assert (round(spent.unknown_s), round(spent.known_s)) == (2900, 1100)
    assert spent.idle_usd == pytest.approx(1100 * 0.05 / 3600)


def test_an_episode_survives_another_number(watching: Watching) -> None:
    """The driver was loaded again without GPU 0: the second is the first now, and still idles."""

    class Renumbered(FakeSource):
        def sample(self, now_s: float) -> Sample:
            if now_s < 1000 + 1500:
                return super().sample(now_s)
            gpu = replace(both[1], index=0)
            return Sample("ok", (both[0], gpu), {gpu.key: reading(0.0, 18)})

    source = Renumbered(lambda s: [reading(95.0, 17), reading(float(s == 0) * 95, 18)], 2)
    both = source.gpus
    watch, told, _ = watching(source, 4000, alarm=True)
    watch.run()
    assert [(event["event"], event["gpu"]["uuid"]) for event in told] == [("alarm", "GPU-1")]  # type: ignore[index]
    lost, idle = watch.board.status()
    assert (lost.gpu.uuid, lost.verdict.kind, lost.alarm) == ("GPU-0", "unknown", False)
    assert (idle.gpu.uuid, idle.gpu.index, idle.verdict.kind, idle.alarm) == ("GPU-1", 0, "idle", True)


def test_time_that_nobody_watched_is_unknown() -> None:
    """The machine slept."""
    assert after(10.0, 1.0, 10.4) == 11.0
    assert after(10.0, 1.0, 11.0) == 12.0
    assert after(10.0, 1.0, 500.2) == 501.0


def test_a_driver_that_is_slow_is_still_watched(watching: Watching) -> None:
    """It takes 2.5 s to answer: a sample every 3 s, each of which stands for these."""

    class Slow(FakeSource):
        def sample(self, now_s: float) -> Sample:
            clock.now += 2.5
            return super().sample(now_s)

    watch, told, _ = watching(Slow(lambda s: [reading(0.0, 17)]), 2000, alarm=True, price=1.0)
    clock = watch._clock
    assert isinstance(clock, FakeClock)
    watch.run()
    assert [event["event"] for event in told] == ["alarm"]
    assert told[0]["evidence"]["samples"] == 300  # type: ignore[index]
    spent = watch.board.status()[0].spent
    assert (spent.unknown_s, spent.idle_s) == (0.0, spent.known_s)
    assert spent.known_s == pytest.approx(2000, abs=5)


def test_sleep_costs_nothing(watching: Watching) -> None:
    watch, _, _ = watching(FakeSource(lambda s: [reading(0.0, 17)]), 1, price=1.0)
    clock = watch._clock
    assert isinstance(clock, FakeClock)
    watch._tick(clock.now)
    clock.now += 3600
    watch._tick(clock.now)
    spent = watch.board.status()[0].spent
    assert (spent.idle_s, spent.unknown_s) == (0.0, 3600.0)


def test_names_of_processes_cannot_speak_to_the_terminal(watching: Watching, tree: Tree) -> None:
    watch, _, shown = watching(FakeSource(lambda s: [reading(0.0, 17)]), 1)
    tree({"proc/17/cmdline": b"\x1b[31mevil\x07\0"})
    watch.run()
    assert "evil" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert "\x07" not in shown.getvalue()


def test_a_day_does_not_grow(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 h of 8 GPUs, a sample every 2 minutes; after 2 h no more is ever kept (at 1 Hz: bench/watch.py)."""
    monkeypatch.setattr(shape, "EVERY_S", 1800.0)
    monkeypatch.setattr(shape, "judged", lambda curve: {})

    def play(second: float) -> list[Reading | None] | str:
        if 40_000 < second < 41_000:
            return "the NVIDIA driver is not loaded"
        busy = 0.0 if second % 20_000 > 12_000 else 90.0
        return [reading(busy + gpu % 3, 17, 18) for gpu in range(7)] + [None]

    watch, told, shown = watching(
        FakeSource(play, 8), 7200, alarm=True, interval_s=120.0, last_s=3600.0, window_s=3600.0, every_s=1800.0
    )
    monkeypatch.setattr(shown, "write", len)
    clock = watch._clock
    assert isinstance(clock, FakeClock)
    watch._tick(clock.now)
    tracemalloc.start()
    try:
        watch.run()
        early = held()
        clock.end_s = 1000.0 + 86_400
        watch.run()
        assert {event["event"] for event in told} == {"alarm", "resolved"}
        told.clear()
        kept = held()
    finally:
        tracemalloc.stop()
    assert kept - early < 100_000  # bytes


def held() -> int:
    """Return the bytes that lines of ours hold; Python's own tables of words grow by leaps."""
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/whyidle/*")])
    return sum(one.size for one in ours.statistics("filename"))
