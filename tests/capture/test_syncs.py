"""The window in which synchronisations are looked for, on a stand-in for torch.cuda that warns as torch does.

CPU builds of torch have no such mode. bench/gpu tries it on a GPU.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "whyidle" / "capture"))

from _whyidle import facts, place, record, syncs

MESSAGE = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.h:108.)"


# What warns is no code of the user's.
LIBRARY: dict[str, Any] = {"warn": warnings.warn, "MESSAGE": MESSAGE}
SOURCE = """
def item(mode):
    if mode == 1:
        warn(MESSAGE, UserWarning, stacklevel=1)
"""
exec(compile(SOURCE, str(Path(os.sep, "lib", "site-packages", "torch", "cuda.py")), "exec"), LIBRARY)


class Cuda:
    """torch.cuda, as far as the window uses it."""

    def __init__(self, initialized: bool = True, mode: int = 0) -> None:
        self.mode = mode
        self.initialized = initialized

    def is_initialized(self) -> bool:
        return self.initialized

    def get_sync_debug_mode(self) -> int:
        return self.mode

    def set_sync_debug_mode(self, mode: int) -> None:
        warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all", stacklevel=2)
        self.mode = mode

    def item(self) -> None:
        LIBRARY["item"](self.mode)


class Optimizer:
    pass


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Collect records instead of writing them, and sections of facts."""
    kept: list[tuple[int, ...]] = []

    def put(*arguments: int) -> int:
        kept.append(arguments)
        return len(kept) - 1

    monkeypatch.setattr(record, "put", put)
    yield kept
    facts._forget()


@pytest.fixture
def shown() -> list[str]:
    """Collect the warnings that a person would see."""
    return []


@pytest.fixture(autouse=True)
def as_in_a_job(shown: list[str]) -> Iterator[list[Any]]:
    """Python's own filters, not pytest's, which make every warning an error; nothing may be left of the window."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        shown.append(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        warnings.resetwarnings()
        warnings.simplefilter("default")
        before = list(warnings.filters)
        functions = (warnings.showwarning, warnings._showwarnmsg, warnings._add_filter)  # type: ignore[attr-defined]
        yield before
        assert list(warnings.filters) == before
        assert (warnings.showwarning, warnings._showwarnmsg, warnings._add_filter) == functions  # type: ignore[attr-defined]
        assert not record.looking()


def train(cuda: Cuda, watch: syncs.Watch, steps: int, body: Callable[[], object]) -> None:
    optimizer = Optimizer()
    for count in range(steps):
        body()
        watch.step(count, optimizer)


def test_each_synchronisation_is_counted_by_its_line(records: list[tuple[int, ...]], shown: list[str]) -> None:
    cuda = Cuda()
    item = LIBRARY["item"]
    line = sys._getframe().f_lineno + 3

    def body() -> None:
        item(cuda.mode)
        item(cuda.mode)

    train(cuda, syncs.Watch(cuda, 3, 2), 10, body)
    found = facts.document()["syncs"]
    assert found["steps"] == 3
    assert [(site["line"], site["function"], site["count"]) for site in found["sites"]] == [
        (line, "body", 3),
        (line + 1, "body", 3),
    ]
    assert all(place.shown(__file__) == site["file"] for site in found["sites"])
    assert {site["operation"] for site in found["sites"]} == {"item"}
    watched = [put for put in records if put[0] == syncs.WATCH]
    assert [put[3] for put in watched] == [2, 2, 2]
    assert all(before[1] + before[2] == after[1] for before, after in pairwise(watched))
    assert cuda.mode == 0
    assert shown == []


def test_warnings_of_the_job_are_shown_as_before(records: list[tuple[int, ...]], shown: list[str]) -> None:
    """One that was shown before the window is not shown again, and a new one is."""
    cuda = Cuda()
    count = [0]

    def body() -> None:
        count[0] += 1
        warnings.warn("from the start", UserWarning, stacklevel=1)
        if count[0] >= 4:
            warnings.warn("late", UserWarning, stacklevel=1)

    train(cuda, syncs.Watch(cuda, 3, 2), 10, body)
    assert shown == ["from the start", "late"]


def test_job_that_records_its_own_warnings_gets_them(records: list[tuple[int, ...]]) -> None:
    cuda = Cuda()
    caught: list[str] = []

    def body() -> None:
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            warnings.warn("own", UserWarning, stacklevel=1)
            cuda.item()
        caught.extend(str(warning.message) for warning in own)

    train(cuda, syncs.Watch(cuda, 3, 2), 8, body)
    assert caught == ["own"] * 8
    assert facts.document()["syncs"]["sites"][0]["count"] == 3


def test_filter_that_makes_errors_inside_the_window_does_not_reach_the_job(records: list[tuple[int, ...]]) -> None:
    cuda = Cuda()

    def body() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cuda.item()

    train(cuda, syncs.Watch(cuda, 3, 2), 8, body)
    assert facts.document()["syncs"]["sites"][0]["count"] == 3


def test_filters_that_are_left_after_the_window_are_the_jobs_own(records: list[tuple[int, ...]]) -> None:
    """The window closes while the job is inside of `catch_warnings`, which comes back to an older list later."""
    cuda = Cuda()
    watch = syncs.Watch(cuda, 2, 1)
    optimizer = Optimizer()
    watch.step(0, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in range(4):
            watch.step(count, optimizer)
        assert warnings.filters[0][0] == "ignore"


@pytest.mark.parametrize(
    ("initialized", "mode", "error"), [(False, 0, False), (True, 1, False), (True, 2, False), (True, 0, True)]
)
def test_no_window(
    initialized: bool, mode: int, error: bool, records: list[tuple[int, ...]], as_in_a_job: list[Any]
) -> None:
    """Without a device, where the job uses the mode itself, and where warnings are errors."""
    if error:
        warnings.simplefilter("error")
        as_in_a_job[:] = list(warnings.filters)
    cuda = Cuda(initialized, mode)
    train(cuda, syncs.Watch(cuda, 3, 2), 8, lambda: None)
    assert records == []
    assert facts.document()["syncs"] is None
    assert cuda.mode == mode


def test_job_that_ends_inside_the_window_leaves_nothing(records: list[tuple[int, ...]]) -> None:
    cuda = Cuda()
    watch = syncs.Watch(cuda, 3, 1)
    train(cuda, watch, 2, lambda: None)
    assert watch.open
    watch.close()
    assert cuda.mode == 0


def test_mode_that_the_job_sets_inside_the_window_stays(records: list[tuple[int, ...]]) -> None:
    cuda = Cuda()
    watch = syncs.Watch(cuda, 2, 1)
    optimizer = Optimizer()
    watch.step(0, optimizer)
    cuda.mode = 2
    for count in range(3):
        watch.step(count, optimizer)
    assert cuda.mode == 2


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("loss.item()", "item"),
        ("float(loss)", "float"),
        ("x[mask]", "index"),
        ("loss > 3", "bool"),
        ("not done", "bool"),
        ("a + b", ""),
        ("broken(", ""),
    ],
)
def test_what_an_expression_does(source: str, name: str) -> None:
    assert place.spelled(source) == name


def test_user_code_is_what_no_library_is() -> None:
    assert not place.is_library(__file__)
    assert place.is_library(os.__file__)
    assert place.is_library(pytest.__file__)
    assert place.is_library(facts.__file__)
