"""When an alarm goes off: to the second, by a clock that the test holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from whyidle.watch.alarm import ENOUGH, Alarm, Event, Limits, Observed

LIMITS = Limits(floor=0.15, window_s=900, grace_s=600, interval_s=1)
JOB = ("slurm 1",)


def played(
    busy: Callable[[int], float | None],
    seconds: int,
    limits: Limits = LIMITS,
    observed: Callable[[int, float | None], Observed] = lambda second, busy: Observed(busy, True, JOB),
) -> list[tuple[int, str]]:
    """Return the seconds at which something happens."""
    alarm = Alarm(limits, 0.0)
    events: Iterable[Event | None] = [alarm.see(float(s), observed(s, busy(s))) for s in range(seconds)]
    return [(round(event.at_s), event.kind) for event in events if event is not None]


def test_a_job_that_stops_after_an_hour() -> None:
    """900 samples hold a mean below 15% when fewer than 135 of them are busy ones."""
    events = played(lambda s: 1.0 if s <= 3600 else 0.0, 8000)
    assert events == [(3600 + 900 - 134, "alarm")]


def test_a_job_that_was_busy_once() -> None:
    """The first activity arms it, and the trailing window forgets it."""
    assert played(lambda s: 1.0 if s == 100 else 0.0, 2000) == [(1000, "alarm")]


def test_a_job_that_never_was() -> None:
    assert played(lambda s: 0.0, 2000) == [(600 + 900, "alarm")]


def test_starting_up_is_no_idling() -> None:
    assert played(lambda s: 0.0 if s < 599 else 0.9, 4000) == []


def test_a_low_mean_with_peaks_is_idle_and_a_busy_half_is_not() -> None:
    assert played(lambda s: 1.0 if s % 10 == 0 else 0.0, 1000) == [(900, "alarm")]
    assert played(lambda s: 1.0 if s % 2 else 0.0, 5000) == []


def test_it_resolves_once_the_last_minute_is_clearly_busy() -> None:
    """20% of a minute is 12 of 60 samples."""
    events = played(lambda s: 1.0 if s == 0 or s > 1200 else 0.0, 2000)
    assert events == [(900, "alarm"), (1212, "resolved")]


def test_it_does_not_flap_at_the_floor() -> None:
    """17% is above the floor of 15%, and not clearly."""
    assert played(lambda s: 1.0 if s == 0 else 0.0 if s < 1000 else 0.17, 5000) == [(900, "alarm")]


def test_one_alarm_per_episode_and_a_new_one_for_the_next() -> None:
    def busy(second: int) -> float:
        return 1.0 if second == 0 or 2000 <= second < 2060 else 0.0

    events = played(busy, 6000)
    assert events == [(900, "alarm"), (2011, "resolved"), (2011 + 900, "alarm")]


def test_what_is_missing_is_not_idle() -> None:
    assert played(lambda s: 1.0 if s == 0 else None, 5000) == []


def test_a_gap_delays_the_alarm_until_enough_is_known() -> None:
    """Of 900 samples 720 have to be there: the last of 180 that are missing is the one of 120."""
    assert played(lambda s: None if 100 <= s < 280 else float(s == 0), 3000) == [(900, "alarm")]
    assert played(lambda s: None if 100 <= s < 300 else float(s == 0), 3000) == [(1019, "alarm")]


def test_a_gap_does_not_end_an_episode() -> None:
    assert played(lambda s: 1.0 if s == 0 else None if s > 950 else 0.0, 3000) == [(900, "alarm")]


def test_a_new_job_has_its_own_start_up() -> None:
    """The first was busy until 1000, the second begins then and works from 1599 on."""

    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True, ("a",) if second < 1000 else ("b",))

    assert played(lambda s: 0.0 if 1000 <= s < 1599 else 1.0, 4000, observed=observed) == []


def test_a_job_that_starts_again_and_again_has_one_start_up() -> None:
    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True, (f"job {second // 300}",))

    assert played(lambda s: 1.0 if s < 300 else 0.0, 4000, observed=observed) == [(300 + 600 + 900, "alarm")]


def test_who_looks_in_gives_no_new_start_up() -> None:
    """A health check works for 2 s every 5 minutes beside a job that has ended to work."""

    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True, ("a", f"check {second // 300}") if second % 300 < 2 else ("a",))

    assert played(lambda s: float(s == 0 or s % 300 < 2), 4000, observed=observed) == [(900, "alarm")]


def test_the_next_job_has_an_alarm_of_its_own() -> None:
    """The first is ended for its alarm; the second never works, and has its start-up and its window first."""

    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True, ("a",) if second < 1000 else ("b",))

    events = played(lambda s: float(s == 0), 4000, observed=observed)
    assert events == [(900, "alarm"), (1600, "resolved"), (2500, "alarm")]


def test_a_job_on_a_gpu_that_was_free_has_an_alarm_of_its_own() -> None:
    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, second >= 3000, JOB if second >= 3000 else ())

    events = played(lambda s: 0.0, 6000, observed=observed)
    assert events == [(1500, "alarm"), (3600, "resolved"), (4500, "alarm")]


def test_a_slow_driver_delays_nothing() -> None:
    """A sample every 4 s, where one a second was asked for: each stands for 4 s."""
    alarm = Alarm(LIMITS, 0.0)
    events = [alarm.see(float(s), Observed(float(s == 0), True, JOB)) for s in range(0, 2000, 4)]
    assert [(event.at_s, event.samples) for event in events if event] == [(900, 225)]


def test_a_pause_is_not_taken_for_idle() -> None:
    """Nobody looked for 30 s of every 40: 11 s of 40 are known, too few to say anything."""
    alarm = Alarm(LIMITS, 0.0)
    events = [alarm.see(float(s), Observed(float(s == 0), True, JOB)) for s in range(5000) if s % 40 < 10]
    assert not any(events)


def test_pauses_of_30_s_now_and_then_delay_nothing() -> None:
    alarm = Alarm(LIMITS, 0.0)
    events = [alarm.see(float(s), Observed(float(s == 30), True, JOB)) for s in range(2000) if s % 300 >= 30]
    assert [event.at_s for event in events if event] == [930], "900 + 30: the first second that was looked at"


def test_a_machine_that_slept_has_not_idled() -> None:
    alarm = Alarm(LIMITS, 0.0)
    seconds = [*range(500), *range(9000, 11000)]
    events = [alarm.see(float(s), Observed(float(s == 0), True, JOB)) for s in seconds]
    assert [event.at_s for event in events if event] == [9000 + 719], "720 samples after it, of which one covers 1 s"


def test_a_gpu_without_a_process_that_holds_memory() -> None:
    events = played(lambda s: float(s == 0), 2000, observed=lambda s, busy: Observed(busy, True, ()))
    assert events == [(900, "alarm")]


def test_nobody_is_to_blame_for_a_free_gpu_if_so_asked() -> None:
    free = Limits(held_only=True)
    held = Limits(held_only=False)

    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, False, ())

    assert played(lambda s: 0.0, 3000, free, observed) == []
    assert played(lambda s: 0.0, 3000, held, observed) == [(1500, "alarm")]


def test_it_is_over_when_the_gpu_is_released() -> None:
    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, second < 1000, JOB if second < 1000 else ())

    events = played(lambda s: float(s == 0), 3000, Limits(held_only=True), observed)
    assert events == [(900, "alarm"), (1000, "resolved")]


def test_not_knowing_whether_it_is_held_releases_nobody() -> None:
    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True if second < 1000 else None, None)

    assert played(lambda s: float(s == 0), 3000, Limits(held_only=True), observed) == [(900, "alarm")]


def test_an_exempt_job_may_idle() -> None:
    assert played(lambda s: 0.0, 5000, observed=lambda s, busy: Observed(busy, True, JOB, exempt=True)) == []


def test_the_start_up_begins_when_an_exempt_job_has_gone() -> None:
    def observed(second: int, busy: float | None) -> Observed:
        return Observed(busy, True, JOB, exempt=second < 1000)

    assert played(lambda s: 0.0, 5000, observed=observed) == [(999 + 600 + 900, "alarm")]


SHORT = Limits(floor=0.3, window_s=10, grace_s=5, interval_s=1)


@given(st.lists(st.sampled_from([None, 0.0, 0.1, 0.3, 1.0]), max_size=80))
def test_every_alarm_can_be_counted_again(busy: list[float | None]) -> None:
    """An alarm speaks of a window that was measured, was below the floor, and comes but once before it is resolved."""
    alarm = Alarm(SHORT, 0.0)
    kinds = []
    for second, share in enumerate(busy):
        event = alarm.see(float(second), Observed(share, True, JOB))
        if event is None:
            continue
        kinds.append(event.kind)
        assert share is not None
        if event.kind == "alarm":
            window = [one for one in busy[max(second - 9, 0) : second + 1] if one is not None]
            assert len(window) >= ENOUGH * 10
            assert event.samples == len(window)
            assert sum(window) / len(window) < SHORT.floor + 1e-9  # which a sum in another order may miss
            assert second >= 10
    assert kinds == ["alarm", "resolved"] * (len(kinds) // 2) + ["alarm"] * (len(kinds) % 2)


@given(st.lists(st.floats(0.0, 1.0), max_size=80), st.integers(0, 80))
def test_forgetting_a_sample_never_brings_an_alarm_earlier(busy: list[float], gone: int) -> None:
    """All below the floor: the fewer are known, the later."""
    idle = [share * 0.29 for share in busy]
    told = [None if second == gone else share for second, share in enumerate(idle)]

    def first(shares: list[float | None]) -> float:
        alarm = Alarm(SHORT, 0.0)
        for second, share in enumerate(shares):
            if alarm.see(float(second), Observed(share, True, JOB)):
                return float(second)
        return float("inf")

    assert first(told) >= first(list(idle))
