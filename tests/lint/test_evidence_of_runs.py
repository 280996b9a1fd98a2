"""What can stall beside whole runs: the simulator's, whose truth is known, public traces, and jobs that really ran."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import whyidle
import world
from tests.lint.suspicions import (
    FIRST,
    ITEM,
    MASK,
    MASKED,
    READ,
    RUNS,
    UPLOAD,
    WORKERS,
    commanded,
    finding,
    source,
    told,
)
from tests.recorded import GPU_OF_MACHINE, run_directory
from tests.recorded import Process as Watched
from whyidle.cli import main
from whyidle.errors import WhyIdleError
from whyidle.judge import judge, measured_of
from whyidle.model.evidence import Run
from whyidle.model.finding import Finding, Location, Report
from whyidle.proof import against, weighed, with_source
from whyidle.read import load


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
        assert told(run, READ)[0].seen == "this recording does not show that it is of this code"
        assert told(commanded(run), READ)[0].evidence == "cleared", "no wait of the kind costs anything, wherever it is"
        world.simulate("cnn", {"sync.scalar_read": 0.2}, steps=5, seed=1, stacks=False, out=tmp_path / "ill")
        (found,) = told(commanded(load([tmp_path / "ill"])), READ)
        assert (found.evidence, found.severity, found.lost_share) == ("source", "medium", None)
        assert "with_stack=True" in found.seen

    def test_a_loader_without_workers(self, tmp_path: Path) -> None:
        world.simulate("cnn", {"input.workers_zero": 0.2}, steps=5, seed=1, out=tmp_path / "run")
        run = load([tmp_path / "run"])
        assert told(run, WORKERS)[0].evidence == "source", "it may be of another program"
        run = commanded(run)
        (found,) = told(run, WORKERS)
        assert (found.evidence, found.severity) == ("confirmed", "high")
        assert found.lost_share == pytest.approx(0.2, abs=0.08)
        both = told(run, WORKERS, replace(WORKERS, locations=(Location("other.py", 3),)))
        assert {one.evidence for one in both} == {"source"}, "which of two loaders it is nobody knows"

    def test_a_loader_that_keeps_up_is_cleared(self, tmp_path: Path) -> None:
        run = simulated(tmp_path / "run", world.healthy("bert", seed=1, steps=5))
        assert told(run, WORKERS)[0].evidence == "source"
        assert told(commanded(run), WORKERS)[0].evidence == "cleared"


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
        found = told(run, *findings, sources=(source(text, self.NAME, f"/srv/me/{self.NAME}"),))
        return {one.rule: one for one in found}

    def test_without_workers_the_loader_is_confirmed(self, corpus: Path) -> None:
        found = self.told(corpus, 0)
        loader, copy, read = (
            found[rule] for rule in ("input.workers_zero", "transfer.pageable_h2d", "sync.scalar_read")
        )
        assert (loader.evidence, loader.severity) == ("confirmed", "high")
        assert (copy.evidence, copy.severity) == ("confirmed", "low")
        assert read.evidence == "source", "no operator ran at that line"

    def test_with_workers_it_is_cleared_and_the_copies_cost_more(self, corpus: Path) -> None:
        found = self.told(corpus, 4)
        assert found["input.workers_zero"].evidence == "cleared"
        copy = found["transfer.pageable_h2d"]
        assert (copy.evidence, copy.severity) == ("confirmed", "medium")
        assert "waits here 2 times per step" in copy.seen


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
        found = told(commanded(run), READ, MASKED, UPLOAD, WORKERS, finding("measure.left_on", MASK))
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


JOB = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from data import Pictures

device = torch.device("cuda")
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(Pictures("train"), batch_size=64, num_workers=8, pin_memory=True)
criterion = nn.CrossEntropyLoss()
"""
STEP = """\
def train_one_step(batch, meter):
    images, labels = batch
    images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter.update(loss.item())


for epoch in range(10):
    for batch in loader:
        train_one_step(batch, meter)
"""
JOB_LOADER, JOB_READ = 10, 38


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script whose step stands where the simulator's does."""
    file = tmp_path / "job" / "train.py"
    file.parent.mkdir()
    file.write_text(JOB + "\n" * (FIRST - 1 - JOB.count("\n")) + STEP)
    return file


class TestTheWholeWay:
    """From the script and the recording to what a person and a program read."""

    def test_a_diagnosis_names_the_line(self, script: Path) -> None:
        report = whyidle.diagnose([RUNS / "scalar_read"], source=script)
        first = report.findings[0]
        assert (first.rule, first.evidence, first.severity) == ("sync.scalar_read", "confirmed", "high")
        assert (first.locations[0].line, first.locations[0].excerpt) == (JOB_READ, "    meter.update(loss.item())")
        assert f"train.py:{JOB_READ}" in whyidle.render(report)
        told = json.loads(whyidle.render(report, "json"))
        assert told["findings"][0]["locations"][0]["line"] == JOB_READ
        assert {one["evidence"] for one in told["findings"]} <= {"run", "confirmed", "source"}
        assert report.exit_code == 1

    def test_a_healthy_run_clears_it_and_stays_healthy(self, script: Path, tmp_path: Path) -> None:
        assert whyidle.diagnose(RUNS / "healthy", source=script.parent).cleared == ()
        job = replace(world.healthy("cnn", seed=1, steps=5), metrics_every=1, deferred_reads=0, stacks=True)
        simulated(tmp_path / "run", job)
        report = whyidle.diagnose(tmp_path / "run", source=script.parent)
        assert report.healthy
        assert report.exit_code == 0
        assert [(one.rule, one.locations[0].line) for one in report.cleared] == [("sync.scalar_read", JOB_READ)]
        assert "cleared" in whyidle.render(report)

    def test_a_lint_beside_a_watched_run(
        self, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Lines, the loader's settings and, without frames, a trace."""
        process = Watched().train(20, workers=True)
        site = {"file": "train.py", "line": JOB_READ, "function": "train_one_step", "operation": "item", "count": 3}
        process.facts["syncs"] = {"steps": 3, "sites": [site]}
        process.loaders.append({"loader": 0, "where": f"train.py:{JOB_LOADER}", "persistent_workers": True})
        run = tmp_path / "run"
        run_directory(run, process, gpus=[GPU_OF_MACHINE])
        world.simulate("cnn", {"sync.scalar_read": 0.2}, steps=5, seed=1, stacks=False, out=run / "trace")
        assert main(["lint", str(script), "--run", str(run), "--format", "json"]) == 1
        told = json.loads(capsys.readouterr().out)
        (read,) = [one for one in told["findings"] if one["rule"] == "sync.scalar_read"]
        assert (read["evidence"], read["severity"]) == ("confirmed", "high")
        assert read["lost_per_step_s"] > 0
        assert "once per step in 3 watched steps" in read["seen"]
        assert [(one["rule"], one["seen"]) for one in told["cleared"]] == [
            ("input.worker_startup", "the run has persistent_workers=True")
        ]
        assert "the run confirms 1 and clears 1" in told["summary"]["verdict"]

    def test_source_that_is_not_there(self) -> None:
        with pytest.raises(WhyIdleError, match="no such file or folder"):
            whyidle.diagnose([RUNS / "healthy"], source="nowhere.py")
