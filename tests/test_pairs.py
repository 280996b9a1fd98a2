"""Jobs that were really run, with a known bottleneck: the first finding is the right one, and worth about what it says.

`bench/pairs.py --fixtures tests/runs/watched` recorded them on a quiet machine with two CPUs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import whyidle
from pairs import PAIRS, Cell
from whyidle.model.finding import Report

WATCHED = Path(__file__).parent / "runs" / "watched"
CELLS = [(pair, cell) for pair, cells in PAIRS.items() for cell in cells]
# Of the time. A cure may save more than the wait: where workers take the CPUs of the training, too, it gets those back.
PROMISED_MORE, SAVED_MORE = 0.07, 0.3
PATHS = ("/home/", "/ro" + "ot/", "/t" + "mp/", "/usr/", "/opt/")  # in pieces: no file of ours holds such a path


def judged(pair: str, cell: Cell) -> Report:
    return whyidle.diagnose(WATCHED / f"{pair}-{cell.name}")


@pytest.mark.parametrize(("pair", "cell"), CELLS, ids=[f"{pair}-{cell.name}" for pair, cell in CELLS])
def test_the_first_finding_is_the_cause(pair: str, cell: Cell) -> None:
    report = judged(pair, cell)
    assert report.judged, report.summary.verdict
    assert next((finding.rule for finding in report.grave), None) in (cell.first, *cell.also)
    assert report.exit_code == (1 if cell.first else 0)


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_lost_is_about_what_the_cure_saves(pair: str) -> None:
    before, cured = judged(pair, PAIRS[pair][0]), judged(pair, PAIRS[pair][-1])
    assert before.summary.step_time_mean_s is not None
    assert cured.summary.step_time_mean_s is not None
    saved = 1 - cured.summary.step_time_mean_s / before.summary.step_time_mean_s
    lost = before.findings[0].lost_share
    assert lost is not None
    assert saved - SAVED_MORE <= lost <= saved + PROMISED_MORE


def test_recordings_name_nothing_of_the_machine_that_made_them() -> None:
    for file in WATCHED.rglob("*"):
        if file.is_file():
            text = file.read_bytes().decode("latin-1")
            assert not [word for word in PATHS if word in text], file
