"""What a run says of a line that can stall: confirmed with its cost, cleared, or left open with what would show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import world
from tests.lint.suspicions import (
    BRANCH,
    COPY,
    EVAL,
    FIRST,
    IF,
    ITEM,
    ITEM_FRAME,
    LOADER,
    MASK,
    MASKED,
    READ,
    RUNS,
    UPLOAD,
    WORKERS,
    by_hand,
    commanded,
    finding,
    log,
    source,
    steps,
    told,
)
from whyidle.judge import judge, measured_of
from whyidle.model.evidence import LoaderSettings, Run, Stack, SyncSite, Worker
from whyidle.model.finding import Location
from whyidle.proof import weighed
from whyidle.proof.files import Files
from whyidle.proof.spots import Spots
from whyidle.read import load


class TestFrames:
    """Which line of a function a wait belongs to."""

    def test_the_call_names_the_line(self) -> None:
        read, branch, mask = told(by_hand(ITEM_FRAME), READ, BRANCH, MASKED)
        assert [read.evidence, branch.evidence, mask.evidence] == ["confirmed", "cleared", "cleared"]
        assert read.lost_share == pytest.approx(0.2, abs=0.03)
        assert branch.seen == "`train_one_step` runs in the recorded steps and does not wait here"

    def test_a_wait_without_a_call_is_none_of_those_that_have_a_frame(self) -> None:
        read, branch = told(by_hand(), READ, BRANCH)
        assert (read.evidence, branch.evidence) == ("source", "confirmed"), "nobody saw that the read ran"

    def test_lines_that_no_frame_tells_apart_share_the_loss(self) -> None:
        both = BRANCH, finding("sync.scalar_read", ITEM + 5)
        one, other = told(Run((steps(waits=2).trace(rank=0),)), *both)
        assert one.lost_share == other.lost_share == pytest.approx(0.1, abs=0.02)
        assert one.confidence < 0.9
        assert "2 such lines" in one.seen
        one, other = told(by_hand(), *both)
        assert (one.evidence, other.evidence) == ("source", "source"), "only one of the two waits"
        assert "some of 2 such lines" in one.seen

    def test_a_decorator_may_stand_between(self) -> None:
        frames = ("torch/utils/_contextlib.py(112): decorate_context", ITEM_FRAME)
        assert told(by_hand(*frames), READ)[0].evidence == "confirmed"

    def test_a_read_inside_of_a_library_is_not_that_of_the_line(self) -> None:
        frames = ("wandb/sdk/wandb_run.py(1701): log", ITEM_FRAME)
        (found,) = told(by_hand(*frames), READ)
        assert (found.evidence, found.severity) == ("source", "medium")

    def test_a_function_that_did_not_run_is_left_open(self) -> None:
        (found,) = told(by_hand(ITEM_FRAME), finding("sync.scalar_read", EVAL))
        assert found.evidence == "source"
        assert "`evaluate`" in found.seen

    def test_what_runs_rarely_is_not_cleared_because_it_did_not_wait(self) -> None:
        (found,) = told(by_hand(ITEM_FRAME), replace(BRANCH, severity="low"))
        assert found.evidence == "source"

    def test_another_file_of_the_same_name_is_another_file(self) -> None:
        elsewhere = source(name="lib/train.py", path="/srv/me/job/lib/train.py")
        read = replace(READ, locations=(replace(READ.locations[0], file="lib/train.py"),))
        trace = steps(frames=(ITEM_FRAME,))
        trace.host = [(*row[:3], row[3].replace("train.py(", "app/train.py("), *row[4:]) for row in trace.host]
        assert told(Run((trace.trace(),)), read, sources=(elsewhere,))[0].evidence == "source"


class TestWatchedLines:
    """What `whyidle run` writes down of lines."""

    def sites(self, *lines: int, gap: int = 200) -> Run:
        seen = tuple(SyncSite("train.py", line, "train_one_step", "item", 3) for line in lines)
        trace = steps(gap=gap)
        trace.host = [row for row in trace.host if ".py(" not in row[3]]
        return Run((trace.trace(),), logs=(log(sync_sites=seen, sync_steps=3),))

    def test_a_line_that_waits_where_such_waits_cost_is_confirmed(self) -> None:
        (found,) = told(self.sites(ITEM), READ)
        assert (found.evidence, found.severity) == ("confirmed", "high")
        assert "once per step in 3 watched steps" in found.seen

    def test_several_lines_share_what_such_waits_cost(self) -> None:
        (found,) = told(self.sites(ITEM, IF), READ)
        assert found.lost_share == pytest.approx(0.1, abs=0.02)
        assert "of which 50% are here" in found.seen

    def test_a_line_that_waits_where_no_gap_follows_is_cleared(self) -> None:
        (found,) = told(self.sites(ITEM, gap=6), READ)
        assert (found.evidence, found.severity) == ("cleared", "low")
        assert "once per step" in found.seen

    def test_a_line_at_which_nothing_waits_is_cleared(self) -> None:
        (found,) = told(self.sites(IF), READ)
        assert found.evidence == "cleared"
        assert found.seen == "in 3 watched steps the job does not wait at this line"

    def test_what_a_wait_costs_takes_a_trace(self) -> None:
        run = Run(logs=(log(sync_sites=(SyncSite("train.py", ITEM, "", "item", 6),), sync_steps=3),))
        (found,) = told(run, READ)
        assert (found.evidence, found.severity, found.lost_share) == ("source", "medium", None)
        assert "waits here 2 times per step" in found.seen

    def test_a_data_set_where_workers_are_met(self, tmp_path: Path) -> None:
        world.simulate("cnn", {"input.workers_too_few": 0.3}, steps=6, seed=1, out=tmp_path / "run")
        run = load([tmp_path / "run"])
        report = judge(run)
        rule = next(one.rule for one in report.findings if one.rule.startswith("input."))
        frames = tuple(
            Stack((("train.py", line, name),), count, "cpu")
            for line, name, count in ((36, "train_one_step", 8), (45, "evaluate", 2))
        )
        worker = Worker(0, 0, 2, 10, 1.0, 0.1, 1.0, 0.0, stacks=frames)
        run = replace(run, logs=(log(workers=(worker,)),))
        measured = measured_of(run)
        findings = (finding(rule, ITEM), finding(rule, COPY))
        met, other = weighed(findings, (source(),), run, measured, report)
        assert met.evidence == "confirmed"
        assert "80% of the samples" in met.seen
        assert other.evidence != "confirmed"


class TestRules:
    """What the run as a whole says, where nothing is known of the line."""

    def test_steps_that_lose_nothing_clear_no_line_that_did_not_run_in_them(self) -> None:
        evaluates = finding("sync.scalar_read", EVAL)
        (found,) = told(by_hand(ITEM_FRAME, gap=6), evaluates)
        assert (found.evidence, found.seen) == ("source", "`evaluate` did not run in the recorded steps")
        trace = steps(gap=6)
        trace.host = [row for row in trace.host if ".py(" not in row[3]]
        run = commanded(Run((trace.trace(),)))
        assert told(run, evaluates)[0].evidence == "cleared", "by the source it runs in each step"
        (rare,) = told(run, replace(evaluates, severity="low"))
        assert rare.evidence == "source"
        assert rare.seen.endswith("it may run elsewhere")

    def test_what_a_trace_of_some_steps_cannot_hold_is_not_cleared_by_it(self) -> None:
        (found,) = told(by_hand(), finding("input.worker_startup", LOADER))
        assert found.evidence == "source"
        assert "whyidle run" in found.seen

    def test_a_loss_that_has_many_causes_is_no_proof_of_one(self, tmp_path: Path) -> None:
        world.simulate("bert", {"host.launch_bound": 0.3}, steps=5, seed=1, stacks=False, out=tmp_path / "run")
        run = commanded(load([tmp_path / "run"]))
        (rule, lost), *_ = [(one.rule, one.lost_share) for one in judge(run).findings]
        assert rule == "host.launch_bound"
        (found,) = told(run, finding(rule, MASK))
        assert (found.evidence, found.severity, found.lost_share) == ("source", "medium", None)
        assert f"{lost:.1%} of the time" in found.seen

    def test_a_batch_that_is_not_pinned_is_a_setting_and_no_wait_of_the_line_that_builds_the_loader(self) -> None:
        """main() runs in the recorded steps and waits nowhere; that clears no loader."""
        trace = steps(frames=(ITEM_FRAME,))
        trace.python(f"train.py({LOADER - 1}): <module>", 0, 5000)
        (found,) = told(Run((trace.trace(),)), finding("transfer.pageable_h2d", LOADER))
        assert "does not wait here" not in found.seen

    def test_copies_beside_which_nothing_runs_are_tied_to_no_line(self) -> None:
        trace = steps(frames=(ITEM_FRAME,), gap=200)
        for i in range(5):
            trace.copy("Memcpy HtoD (Pinned -> Device)", i * 1000 + 850, i * 1000 + 950, launched=i * 1000 + 20)
        assert told(Run((trace.trace(),)), UPLOAD)[0].evidence == "source"
        (calm,) = told(by_hand(ITEM_FRAME), UPLOAD)
        assert calm.evidence == "source", "nobody saw that it ran"
        trace = steps(frames=(ITEM_FRAME,))
        trace.python("<built-in method to of Tensor object at 0x7f>", 20, 30)
        (calm,) = told(Run((trace.trace(),)), UPLOAD)
        assert calm.evidence == "cleared"


class TestSettings:
    """What the run was set to weighs more than a default in the source."""

    @pytest.mark.parametrize(
        ("rule", "setting", "said"),
        [
            ("input.workers_zero", {"num_workers": 8}, "num_workers=8"),
            ("transfer.pageable_h2d", {"pin_memory": True}, "pin_memory=True"),
            ("input.worker_startup", {"persistent_workers": True}, "persistent_workers=True"),
            ("input.batch_granularity", {"batch_size": 64}, "batch_size=64"),
        ],
    )
    def test_a_loader_that_is_set_otherwise_is_cleared(self, rule: str, setting: dict[str, Any], said: str) -> None:
        run = Run(logs=(log(loaders=(LoaderSettings(0, where=f"train.py:{LOADER}", **setting),)),))
        (found,) = told(run, finding(rule, LOADER))
        assert (found.evidence, found.severity, found.seen) == ("cleared", "low", f"the run has {said}")

    def test_of_another_loader_that_says_nothing(self) -> None:
        run = Run(logs=(log(loaders=(LoaderSettings(0, where="train.py:12", num_workers=8),)),))
        assert told(run, WORKERS)[0].evidence == "source"

    def test_a_job_on_the_cpu_clears_no_wait_for_the_gpu(self) -> None:
        run = load([RUNS / "watched" / "loader-workers-2"])
        read, fp32 = told(run, READ, finding("compute.fp32_no_tensorcore", ITEM))
        assert (read.evidence, fp32.evidence) == ("source", "source")
        assert read.seen == "the run that was recorded used no GPU"

    def test_a_real_job_whose_loader_has_no_workers(self) -> None:
        """The run saw the loader at line 146 of its train.py."""
        text = "\n" * 145 + "loader = DataLoader(samples, batch_size=8, num_workers=options.workers)\n"
        place = Location("bench/train.py", 146, 10, text.strip())
        suspicion = replace(WORKERS, locations=(place,))
        job = source(text, "bench/train.py", "/elsewhere/bench/train.py")
        for name, evidence in (("loader-workers-0", "confirmed"), ("loader-workers-2", "cleared")):
            (found,) = told(load([RUNS / "watched" / name]), suspicion, sources=(job,))
            assert found.evidence == evidence, name
        assert found.seen == "the run has num_workers=2"


def test_a_spot_knows_its_statement_and_its_function() -> None:
    spots = Spots([source()])
    loader = spots.of(WORKERS.locations[0])
    assert (loader.first, loader.last, loader.function) == (LOADER, LOADER + 3, "<module>")
    item = spots.of(READ.locations[0])
    assert (item.function, item.begins) == ("train_one_step", FIRST)
    assert item.names == {"update", "item"}
    branch = spots.of(BRANCH.locations[0])
    assert (branch.first, branch.last) == (IF, IF)
    unknown = spots.of(Location("gone.py", 7))
    assert (unknown.first, unknown.last) == (7, 7)


@pytest.mark.parametrize(
    ("recorded", "same"),
    [
        ("train.py", True),
        ("job/train.py", True),
        ("/workspace/job/train.py", True),
        ("/srv/me/job/train.py", True),
        ("C:\\src\\job\\train.py", True),
        ("/workspace/other/train.py", False),
        ("torch/train.py", False),
        ("trains.py", False),
    ],
)
def test_a_path_of_another_machine(recorded: str, same: bool) -> None:
    assert (Files([source()]).name_of(recorded) == "train.py") is same
