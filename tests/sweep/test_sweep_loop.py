"""A sweep on a stage: which cells are begun, when they end, what an end of the budget and an interruption leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sweep.runs import Acts, sweeping
from whyidle.errors import WhyIdleError
from whyidle.launch.process import Ended
from whyidle.model.trial import Sweep
from whyidle.sweep.budget import Budget
from whyidle.sweep.folder import SweepFolder
from whyidle.sweep.plan import Limits

QUICK = Acts(step_ms=50, lasts_s=1e6)
SLOW = Acts(step_ms=100, lasts_s=1e6)


def statuses(found: Sweep) -> dict[str, str]:
    return {cell.params["x"]: cell.status for cell in found.cells}


def test_the_table_and_the_choice(tmp_path: Path) -> None:
    sweep, stage = sweeping(tmp_path / "s", {"0": SLOW, "4": QUICK}, limits=Limits(cell_time_s=10))
    found = sweep.run()
    for one in found.cells:
        assert (one.status, one.why, one.settled) == ("ok", "--cell-time 10 s", False)
    assert stage.started == ["0", "4"]
    assert found.recommended == {"x": "4"}
    assert found.cells[1].speedup is not None
    assert found.cells[1].speedup.likely == pytest.approx(2.0)
    assert found.cells[0].throughput_unit == "samples"
    assert found.cells[0].throughput is not None
    assert found.cells[0].throughput.likely == pytest.approx(320, rel=1e-3)
    assert found.cells[0].data_wait_share == pytest.approx(0.4, abs=0.01)
    assert found.cells[0].seconds == pytest.approx(10, abs=1)


def test_a_failing_cell_is_a_result(tmp_path: Path) -> None:
    plays = {
        "0": Acts(lasts_s=5),
        "1": Acts(steps=0, ended=Ended(exit_code=1), prints="Traceback\nValueError: no such size\n", lasts_s=1),
        "2": Acts(ended=Ended(exit_code=1), prints="torch.OutOfMemoryError: CUDA out of memory. Tried", lasts_s=1),
        "3": Acts(ended=Ended(signal=9), lasts_s=1),
        "4": Acts(steps=0, lasts_s=1),
        "5": Acts(steps=0, lasts_s=1e6),
    }
    sweep, _ = sweeping(tmp_path / "s", plays, limits=Limits(cell_time_s=30))
    found = sweep.run()
    assert statuses(found) == {
        "0": "ok", "1": "failed", "2": "out of memory", "3": "out of memory", "4": "no steps", "5": "timed out"
    }  # fmt: skip
    why = {cell.params["x"]: cell.why for cell in found.cells}
    assert why["1"] == "exit code 1: ValueError: no such size"
    assert why["5"] == "no step in --cell-time 30 s"
    assert found.recommended == {"x": "0"}
    assert found.exit_code == 0


def test_nothing_measured_is_exit_code_2(tmp_path: Path) -> None:
    sweep, _ = sweeping(tmp_path / "s", {"0": Acts(steps=0, lasts_s=1)})
    found = sweep.run()
    assert (found.recommended, found.exit_code) == (None, 2)


def test_a_timeout_ends_it_and_what_was_measured_counts(tmp_path: Path) -> None:
    plays = {"0": SLOW, "1": QUICK, "2": QUICK}
    sweep, stage = sweeping(tmp_path / "s", plays, limits=Limits(cell_time_s=6), budget=Budget(timeout_s=10))
    found = sweep.run()
    assert stage.started == ["0"]  # a second one as long as the first does not fit
    assert statuses(found) == {"0": "ok", "1": "not run", "2": "not run"}
    assert found.stopped == "--timeout 10 s: another cell does not fit in the 4 s left"
    assert found.cells[1].why == found.stopped


def test_money_is_never_overspent(tmp_path: Path) -> None:
    """$36 per hour is 1 cent per second: a budget of 20 cents is 20 s, whatever --cell-time says."""
    sweep, stage = sweeping(tmp_path / "s", {"0": SLOW, "1": QUICK}, budget=Budget(max_usd=0.20), price=36.0)
    found = sweep.run()
    assert stage.started == ["0"]
    assert found.usd is not None
    assert 0.15 < found.usd <= 0.20
    assert found.cells[0].status == "ok"
    assert "budget" not in found.stopped
    assert found.stopped.startswith("--max-cost $0.20")
    assert found.cells[0].usd_per_million == pytest.approx(1e6 * 0.01 / 320, rel=1e-3)


def test_a_budget_ends_all_that_run_at_once(tmp_path: Path) -> None:
    """One that is asked to end with another, and has, is no failure."""
    budget = Budget(max_usd=0.40)
    sweep, stage = sweeping(tmp_path / "s", {"0": SLOW, "1": QUICK}, slots=2, budget=budget, price=36.0)
    found = sweep.run()
    assert statuses(found) == {"0": "ok", "1": "ok"}
    assert all(one.was_asked for one in stage.on_stage)
    assert all("used up" in cell.why for cell in found.cells)
    assert found.usd is not None
    assert found.usd <= 0.40


def test_what_a_killed_sweep_has_cost_is_known(tmp_path: Path) -> None:
    sweep, stage = sweeping(tmp_path / "s", {"0": QUICK}, price=36.0)
    written = []

    def rest(seconds: float) -> None:
        stage.clock.rest(seconds)
        if stage.clock.now > 1010:
            written.append(json.loads((tmp_path / "s" / "cell-01-x=0" / "cell.json").read_text("utf-8")))
            raise Pressed

    sweep.rest = rest
    with pytest.raises(Pressed):
        sweep.run()
    assert written[0]["status"] == "interrupted"
    assert written[0]["seconds"] == pytest.approx(10, abs=2.5)


def test_a_number_of_cells(tmp_path: Path) -> None:
    plays = {str(x): Acts(lasts_s=1) for x in range(4)}
    sweep, stage = sweeping(tmp_path / "s", plays, budget=Budget(max_cells=2))
    found = sweep.run()
    assert stage.started == ["0", "1"]
    assert found.stopped == "--max-cells 2 is reached"


def test_several_at_a_time(tmp_path: Path) -> None:
    plays = {str(x): Acts(lasts_s=10) for x in range(4)}
    sweep, stage = sweeping(tmp_path / "s", plays, slots=2)
    before = stage.clock.now
    sweep.run()
    assert stage.started == ["0", "1", "2", "3"]
    assert stage.clock.now - before == pytest.approx(20, abs=2)


def test_repeats_go_there_and_back(tmp_path: Path) -> None:
    plays = {"a": Acts(lasts_s=1), "b": Acts(steps=0, lasts_s=1), "c": Acts(step_ms=50, lasts_s=1)}
    sweep, stage = sweeping(tmp_path / "s", plays, repeats=3)
    found = sweep.run()
    assert stage.started == ["a", "b", "c", "c", "a", "a", "c"]  # what gave nothing is not repeated
    assert [cell.steps for cell in found.cells] == [3 * 189, 0, 3 * 189]
    names = sorted(path.name for path in (tmp_path / "s").glob("cell-*"))
    assert names == ["cell-01-x=a", "cell-01-x=a-r2", "cell-01-x=a-r3", "cell-02-x=b",
                     "cell-03-x=c", "cell-03-x=c-r2", "cell-03-x=c-r3"]  # fmt: skip


class Pressed(KeyboardInterrupt):
    pass


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    plays = {str(x): Acts(lasts_s=10) for x in range(3)}
    sweep, stage = sweeping(tmp_path / "s", plays)

    def rest(seconds: float) -> None:
        stage.clock.rest(seconds)
        if stage.clock.now > 1015:
            raise Pressed

    sweep.rest = rest
    with pytest.raises(Pressed):
        sweep.run()
    assert all(one.was_ended or stage.clock.now >= one.until for one in stage.on_stage)
    told = json.loads((tmp_path / "s" / "cell-02-x=1" / "cell.json").read_text("utf-8"))
    assert told["status"] == "interrupted"
    assert 4 < told["seconds"] < 6
    sweep.folder.close()

    again, stage = sweeping(tmp_path / "s", plays)
    found = again.run()
    assert stage.started == ["1", "2"]
    assert statuses(found) == dict.fromkeys("012", "ok")
    assert (tmp_path / "s" / "cell-02-x=1.partial-1" / "cell.json").exists()
    again.folder.close()

    third, stage = sweeping(tmp_path / "s", plays)
    assert statuses(third.run()) == dict.fromkeys("012", "ok")
    assert stage.started == []


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that cannot be recorded would run to its limit for nothing."""
    sweep, stage = sweeping(tmp_path / "s", {"0": QUICK})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=200_000))
    with pytest.raises(WhyIdleError, match=r"195 KiB are free at .*: too little to record a job"):
        sweep.run()
    assert not stage.started


def test_a_folder_that_somebody_removes(tmp_path: Path) -> None:
    sweep, _ = sweeping(tmp_path / "s", {"0": QUICK})
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(WhyIdleError, match="cannot write to"):
        sweep.run()
    sweep.folder.close()


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path) -> None:
    first = SweepFolder(tmp_path / "s")
    with pytest.raises(WhyIdleError, match="another sweep is at work there"):
        SweepFolder(tmp_path / "s")
    first.close()
    assert not (tmp_path / "s").exists()  # nothing was begun
    SweepFolder(tmp_path / "s").close()
