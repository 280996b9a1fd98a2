"""The last minutes of a GPU in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.conftest import BEGAN_NS, GIB, H100, reading
from whyidle.watch.jobs import Job
from whyidle.watch.reading import Gpu, Reading
from whyidle.watch.verdict import Verdict, verdict
from whyidle.watch.window import Seen, Window

GPU = Gpu(0, "GPU-0", H100, 80 * GIB, 1980.0, 700.0)
TRAIN = Job("session 7", (17, 18), "train.py", "alice", "slurm 4711")


def window(*readings: Reading | None, capacity: int = 300) -> Window:
    made = Window(capacity)
    for second, one in enumerate(readings):
        made.add(BEGAN_NS + second * 1_000_000_000, one)
    return made


def test_a_window_reaches_no_further_than_was_asked() -> None:
    """Samples that came late, or after the machine slept, leave those of long ago out."""
    made = Window(11, last_s=10.0)
    seconds = [*range(8), 5000, 5001]
    for second in seconds:
        made.add(BEGAN_NS + second * 1_000_000_000, reading(0.0 if second < 5000 else 90.0))
    assert (made.seen().samples, made.seen().busy_share) == (2, pytest.approx(0.9))
    made.add(BEGAN_NS - 3600 * 1_000_000_000, reading(60.0))  # the wall clock was set back
    assert made.seen().samples == 11


def said(*readings: Reading | None, gpu: Gpu = GPU, jobs: tuple[Job, ...] | None = (TRAIN,), **told: object) -> Verdict:
    made = window(*readings)
    return verdict(gpu, made.seen(), made.last, jobs, floor=0.15, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "jobs", "kind", "text"),
    [
        (reading(95.0, 17), (TRAIN,), "busy", "busy 95%"),
        (reading(55.0, 17), (TRAIN,), "waits", "waits 45% of the time"),
        (reading(0.0, 17), (TRAIN,), "idle", "idle 100%, held by PID 17 and 1 more, train.py, alice, slurm 4711"),
        (reading(0.0), (), "held", "idle 100%, 40 GiB of memory held and no process"),
        (reading(0.0, gib=0.5), (), "free", "idle 100%, no process"),
        (reading(95.0, 17, mhz=900.0, reasons=0x40), (TRAIN,), "throttled", None),
        (reading(95.0, 17, mhz=900.0, reasons=0x4), (TRAIN,), "throttled", None),
        (reading(95.0, 17, mhz=1755.0, reasons=0x4), (TRAIN,), "busy", "busy 95%"),
        (reading(None, 17), (TRAIN,), "unknown", "unknown: the driver does not say how busy it is"),
    ],
)
def test_verdicts(one: Reading, jobs: tuple[Job, ...], kind: str, text: str | None) -> None:
    told = said(*[one] * 10, jobs=jobs)
    assert told.kind == kind
    assert text is None or told.text == text


def test_heat_says_where_the_clock_is() -> None:
    told = said(*[reading(95.0, 17, mhz=990.0, reasons=0x20)] * 10)
    assert told.text == "throttled by heat or hardware in 100% of the busy samples, its clock at 50% of its maximum"


def test_processes_that_cannot_be_seen_are_not_nobody() -> None:
    hidden = replace(reading(0.0), occupants=None)
    told = said(*[hidden] * 10, jobs=None)
    assert (told.kind, told.cause) == ("idle", "held_unseen")
    assert told.text == "idle 100%, held by processes that cannot be seen from here: 40 GiB of memory"
    nothing = said(*[replace(hidden, memory_used_bytes=None)] * 10, jobs=None)
    assert nothing.text == "idle 100%; who holds it cannot be seen from here"


def test_a_desktop_holds_memory_without_computing() -> None:
    told = said(*[replace(reading(0.0), drawing=True)] * 10, jobs=())
    assert told.text == "idle 100%, held by a desktop: 40 GiB of memory"


def test_a_gpu_that_does_not_answer_is_unknown_whatever_it_was() -> None:
    told = said(*[reading(99.0, 17)] * 200, None, since="12:03:11")
    assert (told.kind, told.text) == ("unknown", "unknown since 12:03:11: the GPU does not answer")
    told = said(*[reading(0.0, 17)] * 200, None, since="12:03:11", state="the NVIDIA driver is not loaded")
    assert told.text == "unknown since 12:03:11: the NVIDIA driver is not loaded"


def test_half_of_the_samples_have_to_be_there() -> None:
    told = said(*[None] * 11, *[reading(0.0, 17)] * 10)
    assert (told.kind, told.text) == ("unknown", "unknown: it answered in 10 of 21 samples")


def test_a_gpu_that_is_split_is_unknown() -> None:
    told = said(*[reading(0.0)] * 10, gpu=replace(GPU, mig=True), jobs=None)
    assert told.kind == "unknown"
    assert "MIG" in told.text


def peers(*shares: float) -> list[Seen]:
    return [window(*[reading(share * 100, 17)] * 20).seen() for share in shares]


def test_one_that_lags_its_peers() -> None:
    lagging = said(*[reading(60.0, 17)] * 20, peers=peers(0.6, 0.95, 0.95, 0.94))
    assert (lagging.kind, lagging.text) == ("lagging", "busy 60%, its peers 94%")
    assert said(*[reading(95.0, 17)] * 20, peers=peers(0.6, 0.95, 0.95, 0.94)).kind == "busy"


def test_a_hiccup_is_no_lag() -> None:
    """It was behind in one half of the time only."""
    once = [reading(20.0, 17)] * 10 + [reading(95.0, 17)] * 10
    assert said(*once, peers=[*peers(0.95, 0.95, 0.94), window(*once).seen()]).kind == "waits"


def test_gpus_that_differ_anyway_do_not_lag() -> None:
    assert said(*[reading(60.0, 17)] * 20, peers=peers(0.6, 0.7, 0.8, 0.9)).kind == "waits"


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=40))
def test_what_is_not_known_is_never_called_idle_or_busy(shares: list[float | None]) -> None:
    told = said(*[None if share is None else reading(share, 17) for share in shares])
    known = [share for share in shares if share is not None]
    assert (told.kind == "unknown") == (shares[-1] is None or len(known) * 2 < len(shares))
    if told.kind == "idle":
        assert sum(known) / len(known) < 15
    if told.kind == "busy":
        assert sum(known) / len(known) >= 89.999


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.integers(1, 20))
def test_a_ring_says_what_its_last_samples_say(shares: list[float], capacity: int) -> None:
    made = window(*[reading(share) for share in shares], capacity=capacity)
    last = shares[-capacity:]
    seen = made.seen()
    assert seen.samples == seen.known == len(last)
    assert seen.busy_share == pytest.approx(sum(last) / len(last) / 100)
    utilization = next(one for one in made.series("node7", 3) if one.name == "utilization_percent")
    assert utilization.value.tolist() == pytest.approx(last)
    assert (utilization.time[1:] > utilization.time[:-1]).all()
    if len(last) > 1:
        assert seen.halves is not None
        middle = len(last) // 2
        assert seen.halves[0] == pytest.approx(sum(last[:middle]) / middle / 100)
