"""What a person sees, whole: read the snapshots as the pictures that they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle import cost
from whyidle.model.finding import CAUSES, DeviceBusy, Estimate, Finding, Report, RunInfo, Summary
from whyidle.render import render


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize("name", ["one_finding", "many", "ranks", "healthy", "not_judged"])
def test_picture(name: str, width: int, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(request.getfixturevalue(name), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text == snapshot


@pytest.mark.parametrize("name", ["many", "healthy", "not_judged"])
def test_everything(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(request.getfixturevalue(name), width=80, everything=True)
    assert max(map(len, text.splitlines())) <= 80
    assert text == snapshot


def test_cost(ranks: Report, snapshot: SnapshotAssertion) -> None:
    assert render(cost.price(ranks, 2.60, hours=24)) == snapshot


def test_predicted(one_finding: Report, snapshot: SnapshotAssertion) -> None:
    predicted: Mapping[str, Estimate] = {
        "step_time_s": Estimate(0.11, 0.117, 0.126, "replay"),
        "speedup": Estimate(1.4, 1.5, 1.6, "replay"),
    }
    finding = one_finding.findings[0]
    fix = replace(finding.fixes[0], predicted=predicted)
    report = replace(one_finding, findings=(replace(finding, fixes=(fix,)),))
    assert render(cost.price(report, 2.60)) == snapshot


def test_ascii(many: Report, snapshot: SnapshotAssertion) -> None:
    text = render(many, width=80, unicode=False)
    assert text.isascii()
    assert text == snapshot


def test_color_changes_nothing_but_color(many: Report) -> None:
    plain, colored = render(many), render(many, color=True)
    assert "\x1b[" not in plain
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[\d;]*m| +$", "", colored, flags=re.M) == re.sub(r" +$", "", plain, flags=re.M)


def test_a_healthy_job_gets_one_line(healthy: Report) -> None:
    text = render(replace(healthy, warnings=()))
    assert len(text.strip().splitlines()) == 1
    assert text.strip().startswith("Healthy: the GPU was busy 98% of the time.")


def test_a_healthy_job_is_not_told_twice(healthy: Report, many: Report) -> None:
    bound = Finding("none.compute_bound", "low", 0.9, "The GPU is busy all the time.", 0.0)
    report = replace(healthy, findings=(bound,), unknown=many.unknown, warnings=("one",) * 7)
    text = render(report)
    assert "compute_bound" not in text
    assert "not judged: 5 rules: see --all." in text
    assert text.count("warning: one") == 5
    assert "warning: 2 more: see --all" in text
    assert "none.compute_bound" in render(report, everything=True)
    assert render(report, everything=True).count("warning: one") == 7
    assert "cost:" not in render(cost.price(report))
    assert "cost:" in render(cost.price(report, 2.60))


def test_many_ranks_take_one_line(ranks: Report) -> None:
    devices = tuple(DeviceBusy(rank, 0, 0.31 if rank == 17 else 0.56, 1.0) for rank in range(512))
    text = render(replace(ranks, summary=replace(ranks.summary, devices=devices)))
    assert "lowest 31% (rank 17) · median 56% · highest 56%" in text


def test_no_cause_found(one_finding: Report) -> None:
    assert "No rule that could be asked found a cause" in render(replace(one_finding, findings=()))


EVIL = "\x1b[31mred\x1b]0;title\x07[bold]markup[/bold]\x9b2J\u202e\r\n\ud800:smile:"


def test_text_from_files_is_only_text(many: Report) -> None:
    evil = replace(
        many,
        run=replace(
            many.run,
            evidence=tuple(replace(file, path=EVIL) for file in many.run.evidence),
            ignored=tuple(replace(file, path=EVIL, why=EVIL) for file in many.run.ignored),
            gpus=tuple(replace(gpu, name=EVIL) for gpu in many.run.gpus),
            settings={EVIL: EVIL},
        ),
        summary=replace(many.summary, idle_by_cause={EVIL: 0.4399}, steps_from=EVIL),
        findings=tuple(
            replace(
                finding,
                message=EVIL,
                seen=EVIL,
                locations=tuple(replace(place, file=EVIL) for place in finding.locations),
                fixes=tuple(replace(fix, change=EVIL) for fix in finding.fixes),
            )
            for finding in many.findings
        ),
        warnings=(EVIL,),
        detail=replace(many.detail, kernels=tuple(replace(item, name=EVIL) for item in many.detail.kernels)),
    )
    text = render(evil, everything=True)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    assert "red[bold]markup[/bold]" in text
    assert ":smile:" in text
    text.encode("utf-8")


@given(
    st.floats(0.0, 1.0),
    st.lists(st.floats(0.001, 1.0), min_size=1, max_size=len(CAUSES)),
)
def test_what_is_shown_adds_up(idle: float, weights: list[float]) -> None:
    total = sum(weights)
    causes = {cause: idle * weight / total for cause, weight in zip(CAUSES, weights, strict=False)}
    report = Report(RunInfo(), Summary("x", gpu_busy_share=1 - idle, gpu_idle_share=idle, idle_by_cause=causes))
    shown = [int(number) for number in re.findall(r"(\d+)%$", render(report), flags=re.M)]
    assert sum(shown) == (100 if shown else 0)  # a healthy job has no bars
    assert sum(shown[1:]) == (round(idle * 100) if shown else 0)
