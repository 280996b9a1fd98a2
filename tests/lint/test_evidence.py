"""What a run says of what can stall by the source: confirmed with its cost, cleared, or left open with what would show.

The recordings are the simulator's, whose truth is known, jobs that really ran (tests/runs/watched), and some by hand.
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whyidle
import world
from tests.traces import Recording as Trace
from whyidle.judge import judge, measured_of
from whyidle.lint.source import Source
from whyidle.model.evidence import LoaderSettings, Process, Run, Stack, StepLog, SyncSite, Worker
from whyidle.model.finding import Finding, Location, Report
from whyidle.proof import against, weighed, with_source
from whyidle.proof.spots import Spots
from whyidle.read import load

RUNS = Path(__file__).parents[1] / "runs"
FIRST = 31  # the line of `def train_one_step` in the simulator's train.py
TRAIN = (
    "\n" * (FIRST - 1)
    + """\
def train_one_step(model, batch, optimizer, meter):
    images, labels = batch
    images = images.to("cuda")
    loss = criterion(model(images), labels)
    loss.backward()
    meter.update(loss.item())
    keep = images[labels > 0]
    if loss > 100:
        raise RuntimeError("diverged")
    optimizer.step()
    return keep


def evaluate(model, loader):
    return sum(model(x).mean().item() for x in loader)


loader = DataLoader(
    dataset,
    batch_size=64,
)
"""
)
ITEM, MASK, IF, COPY, EVAL, LOADER = 36, 37, 38, 33, 45, 48


def source(text: str = TRAIN, name: str = "train.py", path: str = "/home/me/job/train.py") -> Source:
    return Source(Path(path), name, text, ast.parse(text))


def finding(rule: str, line: int, severity: str = "medium", file: str = "train.py") -> Finding:
    """A finding as the lint makes it."""
    place = Location(file, line, 5, TRAIN.splitlines()[line - 1].strip())
    return Finding(rule, severity, 0.7, "It can stall.", None, locations=(place,), evidence="source")


def told(run: Run, *findings: Finding, sources: tuple[Source, ...] | None = None) -> tuple[Finding, ...]:
    """Weigh findings against a run."""
    measured = measured_of(run)
    return weighed(findings, sources or (source(),), run, measured, judge(run, measured=measured))


READ, MASKED, BRANCH = (
    finding("sync.scalar_read", ITEM),
    finding("sync.data_dependent", MASK),
    finding("sync.scalar_read", IF),
)
UPLOAD, WORKERS = finding("transfer.pageable_h2d", COPY), finding("input.workers_zero", LOADER)


def simulated(folder: Path, job: world.job.Job) -> Run:
    done = world.run(job)
    world.write(done, {}, folder)
    return load([folder])


class TestSimulatedJobs:
    """Truth is known: what a fault costs, and that a job without one loses nothing."""

    def test_a_read_with_gaps_behind_it_is_confirmed_with_what_it_costs(self) -> None:
        truth = json.loads((RUNS / "scalar_read.truth.json").read_text())
        (found,) = told(load([RUNS / "scalar_read"]), READ)
        assert (found.evidence, found.severity, found.confidence) == ("confirmed", "high", 0.9)
        assert found.lost_share == pytest.approx(truth["faults"][0]["severity"], abs=0.05)
        saved = truth["step_time_s"] - truth["faults"][0]["step_time_without_s"]
        assert found.lost_per_step_s == pytest.approx(saved, rel=0.2)
        first, *recorded = found.locations
        assert (first.file, first.line) == ("train.py", ITEM)
        assert recorded[0].rank == 0
        assert recorded[0].step is not None
        assert "`train_one_step` waits here 2 times per step" in found.seen
        assert "ms per step" in found.seen

    @pytest.mark.parametrize("family", ["gpt", "bert", "cnn"])
    def test_the_same_read_before_a_gpu_with_enough_to_do_is_cleared(self, family: str, tmp_path: Path) -> None:
        job = replace(world.healthy(family, seed=1, steps=5), metrics_every=1, deferred_reads=0, stacks=True)
        (found,) = told(simulated(tmp_path / "run", job), READ)
        assert (found.evidence, found.severity) == ("cleared", "low")
        assert found.lost_share < 0.02
        assert found.lost_per_step_s is not None
        assert "waits here once per step" in found.seen
        assert len(found.locations) == 1

    def test_without_frames_a_wait_is_at_no_line(self, tmp_path: Path) -> None:
        job = replace(world.healthy("cnn", seed=1, steps=5), stacks=False)
        run = simulated(tmp_path / "calm", job)
        assert told(run, READ)[0].evidence == "cleared", "no wait of the kind costs anything, wherever it is"
        world.simulate("cnn", {"sync.scalar_read": 0.2}, steps=5, seed=1, stacks=False, out=tmp_path / "ill")
        (found,) = told(load([tmp_path / "ill"]), READ)
        assert (found.evidence, found.severity, found.lost_share) == ("source", "medium", None)
        assert "with_stack=True" in found.seen

    def test_a_loader_without_workers(self, tmp_path: Path) -> None:
        world.simulate("cnn", {"input.workers_zero": 0.2}, steps=5, seed=1, out=tmp_path / "run")
        run = load([tmp_path / "run"])
        (found,) = told(run, WORKERS)
        assert (found.evidence, found.severity) == ("confirmed", "high")
        assert found.lost_share == pytest.approx(0.2, abs=0.08)
        both = told(run, WORKERS, replace(WORKERS, locations=(Location("other.py", 3),)))
        assert {one.evidence for one in both} == {"source"}, "which of two loaders it is nobody knows"

    def test_a_loader_that_keeps_up_is_cleared(self, tmp_path: Path) -> None:
        run = simulated(tmp_path / "run", world.healthy("bert", seed=1, steps=5))
        assert told(run, WORKERS)[0].evidence == "cleared"


# A line for each fault, as `train_one_step` would hold it, and a loader.
SUSPECTS = {
    "sync.scalar_read": "total += loss.item()",
    "sync.data_dependent": "kept = images[labels > 0]",
    "sync.grad_clip": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
    "sync.framework": "torch.cuda.synchronize()",
    "sync.logging_metrics": 'wandb.log({"loss": loss})',
    "transfer.pageable_h2d": 'images = images.to("cuda")',
    "memory.allocator_thrash": "torch.cuda.empty_cache()",
    "pause.checkpoint_sync": 'torch.save(model.state_dict(), "last.pt")',
    "input.workers_zero": "loader = DataLoader(dataset, 64)",
}


@pytest.mark.parametrize(
    "fault",
    [
        "sync.scalar_read", "sync.data_dependent", "sync.grad_clip", "sync.framework", "sync.logging_metrics",
        "pause.checkpoint_sync", "input.workers_zero", "host.launch_bound", "input.workers_too_few",
    ],
)  # fmt: skip
def test_of_all_suspects_the_one_that_costs_is_confirmed(fault: str, tmp_path: Path) -> None:
    """And none where it is something else that costs."""
    *body, loader = SUSPECTS.values()
    text = "\n" * (FIRST - 1) + "def train_one_step():\n" + "".join(f"    {line}\n" for line in body) + loader + "\n"
    findings = [
        Finding(rule, "medium", 0.7, "It can stall.", None, locations=(Location("train.py", line, 5),))
        for line, rule in enumerate(SUSPECTS, FIRST + 1)
    ]
    truth = world.simulate("cnn", {fault: 0.15}, steps=6, seed=1, stacks=True, out=tmp_path / "run")
    found = told(load([tmp_path / "run"]), *findings, sources=(source(text),))
    guilty = {one.rule: one.lost_share for one in found if one.evidence == "confirmed"}
    assert set(guilty) == {fault} & set(SUSPECTS)
    for share in guilty.values():
        assert share == pytest.approx(truth["faults"][0]["severity"], abs=0.05)


def steps(wait: int = 300, gap: int = 200, frames: tuple[str, ...] = (), count: int = 5) -> Trace:
    """Steps of 1000 us: a kernel, a read for which the host waits, then `gap` us in which the GPU has nothing to do."""
    trace = Trace()
    train = f"train.py({FIRST}): train_one_step"
    for i in range(count):
        now = i * 1000
        trace.step(i, now, now + 1000).python(train, now + 1, now + 990)
        trace.op("aten::mm", now + 1, now + 12).kernel(now + 4, now + 1000 - gap, launched=now + 2)
        end = now + 1000 - gap + 5
        for depth, frame in enumerate(frames):
            trace.python(frame, end - wait - 10 + depth, end + 10 - depth)
        trace.op("aten::item", end - wait - 2, end + 2).op("aten::_local_scalar_dense", end - wait - 1, end + 1)
        name = "Memcpy DtoH (Device -> Pageable)"
        trace.copy(name, end - 4, end - 2, launched=end - wait, took=wait, size=4, call="cudaMemcpyAsync")
    return trace


def by_hand(*frames: str, gap: int = 200) -> Run:
    return Run((steps(frames=frames, gap=gap).trace(rank=0),))


ITEM_FRAME = "<built-in method item of Tensor object at 0x7f0000000000>"


class TestFrames:
    """Which line of a function a wait belongs to."""

    def test_the_call_names_the_line(self) -> None:
        read, branch, mask = told(by_hand(ITEM_FRAME), READ, BRANCH, MASKED)
        assert [read.evidence, branch.evidence, mask.evidence] == ["confirmed", "cleared", "cleared"]
        assert read.lost_share == pytest.approx(0.2, abs=0.03)
        assert branch.seen == "`train_one_step` runs in the recorded steps and does not wait here"

    def test_a_wait_without_a_call_is_none_of_those_that_have_a_frame(self) -> None:
        read, branch = told(by_hand(), READ, BRANCH)
        assert (read.evidence, branch.evidence) == ("cleared", "confirmed")

    def test_lines_that_no_frame_tells_apart_share_the_loss(self) -> None:
        one, other = told(by_hand(), BRANCH, finding("sync.scalar_read", ITEM + 5))
        assert one.lost_share == other.lost_share == pytest.approx(0.1, abs=0.02)
        assert one.confidence < 0.9
        assert "2 such lines" in one.seen

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
        elsewhere = source(name="lib/train.py", path="/home/me/job/lib/train.py")
        read = replace(READ, locations=(replace(READ.locations[0], file="lib/train.py"),))
        trace = steps(frames=(ITEM_FRAME,))
        trace.host = [(*row[:3], row[3].replace("train.py(", "app/train.py("), *row[4:]) for row in trace.host]
        assert told(Run((trace.trace(),)), read, sources=(elsewhere,))[0].evidence == "source"


def log(**seen: Any) -> StepLog:
    """A process that was watched."""
    empty = np.empty(0, np.int64)
    columns = dict.fromkeys(("kind", "flags", "thread", "sequence", "start", "duration", "value"), empty)
    return StepLog("run", Process("node", 1, 0), **columns, **seen)


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
        frames = tuple(Stack((("train.py", line, "__getitem__"),), count, "cpu") for line, count in ((36, 8), (45, 2)))
        worker = Worker(0, 0, 2, 10, 1.0, 0.1, 1.0, 0.0, stacks=frames)
        run = replace(run, logs=(log(workers=(worker,)),))
        measured = measured_of(run)
        findings = (finding(rule, ITEM), finding(rule, COPY))
        met, other = weighed(findings, (source(),), run, measured, report)
        assert met.evidence == "confirmed"
        assert "80% of the samples" in met.seen
        assert other.evidence != "confirmed"


class TestRealTraces:
    """A public pair of 2021 with call stacks: one script, with and without workers."""

    NAME = "resnet50_profiler_api.py"  # its copies are at line 44, its loop at 42

    def told(self, corpus: Path, workers: int) -> dict[str, Finding]:
        lines = {22: "loader = DataLoader(data, num_workers=n)", 42: "for batch in loader:"}
        lines |= {44: "    x, y = batch[0].to(device), batch[1].to(device)", 45: "    total += loss(x, y).item()"}
        text = "".join(f"{lines.get(number, '')}\n" for number in range(1, 46))
        rules = {"input.workers_zero": 22, "transfer.pageable_h2d": 44, "sync.scalar_read": 45}
        places = {rule: Location(self.NAME, line, 5) for rule, line in rules.items()}
        findings = [Finding(rule, "medium", 0.7, "", None, locations=(place,)) for rule, place in places.items()]
        run = load([corpus / "kineto" / f"resnet50_num_workers_{workers}"])
        found = told(run, *findings, sources=(source(text, self.NAME, f"/home/me/{self.NAME}"),))
        return {one.rule: one for one in found}

    def test_without_workers_the_loader_is_confirmed(self, corpus: Path) -> None:
        found = self.told(corpus, 0)
        loader, copy, read = (
            found[rule] for rule in ("input.workers_zero", "transfer.pageable_h2d", "sync.scalar_read")
        )
        assert (loader.evidence, loader.severity) == ("confirmed", "high")
        assert (copy.evidence, copy.severity) == ("confirmed", "low")
        assert read.evidence == "cleared"

    def test_with_workers_it_is_cleared_and_the_copies_cost_more(self, corpus: Path) -> None:
        found = self.told(corpus, 4)
        assert found["input.workers_zero"].evidence == "cleared"
        copy = found["transfer.pageable_h2d"]
        assert (copy.evidence, copy.severity) == ("confirmed", "medium")
        assert "waits here 2 times per step" in copy.seen


class TestRules:
    """What the run as a whole says, where nothing is known of the line."""

    def test_what_a_trace_of_some_steps_cannot_hold_is_not_cleared_by_it(self) -> None:
        (found,) = told(by_hand(), finding("input.worker_startup", LOADER))
        assert found.evidence == "source"
        assert "whyidle run" in found.seen

    def test_a_loss_that_has_many_causes_is_no_proof_of_one(self, tmp_path: Path) -> None:
        world.simulate("bert", {"host.launch_bound": 0.3}, steps=5, seed=1, stacks=False, out=tmp_path / "run")
        run = load([tmp_path / "run"])
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


class TestReports:
    """What becomes of the verdict, and of the report on the source."""

    def test_a_measured_finding_gets_its_lines_and_the_verdict_stays(self) -> None:
        run = load([RUNS / "scalar_read"])
        measured = measured_of(run)
        report = judge(run, measured=measured)
        mask = finding("measure.left_on", MASK)
        joined = with_source(report, weighed((READ, mask, WORKERS), (source(),), run, measured, report))
        first = joined.findings[0]
        assert (first.rule, first.evidence, first.severity) == ("sync.scalar_read", "confirmed", "high")
        assert first.locations[0] == READ.locations[0]
        assert first.fixes == report.findings[0].fixes, "the measured one knows what it is worth"
        assert [one.rule for one in joined.findings] == [*(one.rule for one in report.findings), "measure.left_on"]
        assert (joined.findings[-1].severity, joined.findings[-1].evidence) == ("low", "source")
        assert [one.rule for one in joined.cleared] == ["input.workers_zero"]
        assert joined.summary == report.summary

    def test_suspicion_never_makes_a_healthy_job_ill(self) -> None:
        run = load([RUNS / "healthy"])
        report = judge(run)
        assert report.healthy
        found = told(run, READ, MASKED, UPLOAD, WORKERS, finding("measure.left_on", MASK))
        joined = with_source(report, found)
        assert joined.healthy
        assert joined.exit_code == report.exit_code
        shown = whyidle.render(joined)
        assert "train.py:36 sync.scalar_read" in shown

    def test_the_report_on_source_counts_what_a_run_says(self) -> None:
        found = Report(judge(Run()).run, replace(judge(Run()).summary, verdict="2 lines can stall."), (WORKERS, READ))
        run = load([RUNS / "scalar_read"])
        after = against(found, told(run, *found.findings), judge(run))
        assert after.summary.verdict == "2 lines can stall. Of 2 findings the run confirms 1 and clears 1."
        assert [one.rule for one in after.findings] == ["sync.scalar_read"]
        assert [one.rule for one in after.cleared] == ["input.workers_zero"]

    def test_a_run_that_cannot_be_judged_changes_nothing_but_says_so(self) -> None:
        found = Report(judge(Run()).run, judge(Run()).summary, (READ,))
        after = against(found, told(Run(), READ), judge(Run()))
        assert [(one.evidence, one.severity) for one in after.findings] == [("source", "medium")]
        assert after.warnings[0].startswith("the run says little: Cannot judge")


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
        ("/home/me/job/train.py", True),
        ("C:\\src\\job\\train.py", True),
        ("/workspace/other/train.py", False),
        ("torch/train.py", False),
        ("trains.py", False),
    ],
)
def test_a_path_of_another_machine(recorded: str, same: bool) -> None:
    assert Spots([source()]).of(READ.locations[0]).in_file(recorded) is same
