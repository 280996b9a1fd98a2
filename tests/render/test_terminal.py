"""What a person sees, whole: read the snapshots as the pictures that they are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle import cost
from whyidle.model.evidence import Ignored
from whyidle.model.finding import CAUSES, DeviceBusy, Finding, GpuCount, Report, RunInfo, Summary
from whyidle.render import render
from whyidle.render.base import Colors, Look
from whyidle.render.lines import wrap
from whyidle.render.palette import COLORS
from whyidle.render.terminal import Terminal


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


def test_what_a_million_tokens_cost(watched_gpu: Report) -> None:
    summary = replace(watched_gpu.summary, gpu_idle_share=0.5, tokens_per_s=1e6, samples_per_s=1e3)
    report = replace(watched_gpu, summary=summary)
    text = " ".join(render(cost.price(report, 2.60)).split())
    assert "; $0.000722 per million tokens, $0.000361 without idle time" in text
    unknown = replace(report, summary=replace(summary, gpu_idle_share=None, tokens_per_s=None))
    text = " ".join(render(cost.price(unknown, 2.60, source="pyproject.toml", hours=2)).split())
    assert "cost: $2.60 per hour, $5.20 in 2 h (1 GPU at $2.60, pyproject.toml); $0.722 per million samples" in text
    assert "without idle time" not in text


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
    small = replace(bound, rule="host.gc_pause", lost_share=0.02)
    report = replace(healthy, findings=(bound, small), unknown=many.unknown, warnings=("one",) * 7)
    text = render(report)
    assert "compute_bound" not in text
    assert "1 small finding, 5 rules not judged: --all" in text
    assert text.count("warning: one") == 4
    assert "warning: 3 more: --all" in text
    assert "none.compute_bound" in render(report, everything=True)
    assert render(report, everything=True).count("warning: one") == 7
    assert "cost:" not in render(cost.price(report))
    assert "cost:" in render(cost.price(report, 2.60))


@pytest.mark.parametrize("count", [1, 3, 6, 40])
def test_a_report_fits_a_small_screen(count: int, many: Report) -> None:
    finding = replace(
        many.findings[0], message="What is wrong and how much it costs, in words. " * 2, seen="shown " * 40
    )
    report = replace(many, findings=(finding,) * count)
    lines = render(report, width=80).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "  whyidle explain RULE: why, and when to ignore it; --all: everything"


def test_the_order_and_what_overlaps_are_said(one_finding: Report, many: Report) -> None:
    large, small = many.findings[0], replace(many.findings[0], rule="host.gc_pause", lost_share=0.05)
    told = {
        (large, small): "",
        (small, large): "order: saving",
        (large, replace(large, lost_share=0.3)): "shares overlap: fixing one shrinks others",
        (large, replace(small, rule="compute.dtype_cast")): "shares overlap",
    }
    for findings, said in told.items():
        text = render(replace(one_finding, findings=findings))
        assert said in text
        assert said or not ("order:" in text or "overlap" in text)


def test_loss_in_time_is_that_of_all_of_it_where_steps_do_not_fill_the_window(one_finding: Report) -> None:
    summary = replace(one_finding.summary, window_s=1.15, steps=10, step_time_s=0.01, step_time_mean_s=0.115)
    finding = replace(one_finding.findings[0], lost_share=0.5)
    text = render(replace(one_finding, summary=summary, findings=(finding,)))
    assert "10 ms/step, mean 115 ms" in text
    assert "50% of the time, 575 ms of 1.15 s" in text
    text = render(replace(one_finding, summary=replace(summary, steps=None, step_time_s=None), findings=(finding,)))
    assert "lost    50% of the time ·" in text


def test_a_number_and_its_unit_stay_together() -> None:
    for width in range(20, 60):
        rows = wrap("lost 24% of it, 3.48 ms of 12 ms, on 8 GPUs in 6 steps and 19.3 MB", width, width)
        assert not any(row.endswith(("3.48", "12", "8", "6", "19.3")) for row in rows)
        assert max(map(len, rows)) <= width


def test_what_was_given_and_not_read_is_said_once(many: Report) -> None:
    path = "runs/other/trace.json"
    ignored = (Ignored(path, "older than the one that is judged."), Ignored("runs/notes.txt", "text."))
    report = replace(many, run=replace(many.run, ignored=ignored), warnings=(f"2 traces: not judged: {path}.",))
    text = render(report)
    assert text.count("trace.json.") == 1
    assert "ignored 1 file: notes.txt (text)" in text
    refused = replace(
        report, judged=False, findings=(), summary=Summary("Cannot judge: it is torn."), warnings=("it is torn.",)
    )
    assert render(refused).count("torn") == 1


def test_no_price_is_said_once(many: Report) -> None:
    assert "cost: no list price for this GPU is known; --price" in render(
        replace(many, summary=replace(many.summary, cost=None))
    )
    asked = cost.price(replace(many, run=replace(many.run, gpus=(GpuCount("X", 1),))), hours=3)
    assert render(asked).count("no list price") == 1


def test_more_gpus_than_were_recorded(many: Report) -> None:
    text = " ".join(render(cost.price(many, 2.60, gpus=64)).split())
    assert "if all 64 GPUs are like the 1 recorded" in text


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
    told = re.findall(r"([<>]?\d+)%$", render(report), flags=re.M)
    shown = [rounded[number] if number in (rounded := {"<1": 0, ">99": 100}) else int(number) for number in told]
    assert sum(shown) == (100 if shown else 0)  # a healthy job has no bars
    assert sum(shown[1:]) == (round(idle * 100) if shown else 0)


@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_to_change_is_never_cut(count: int, width: int, many: Report) -> None:
    change = "\n".join([f"line_{number} = DataLoader(dataset, num_workers={number}, pin=True)" for number in range(5)])
    long = (
        "DataLoader(dataset, batch_size=256, num_workers=16, pin_memory=True, persistent_workers=True, drop_last=True)"
    )
    for text in (change, long):
        fixes = (replace(many.findings[0].fixes[0], change=text),)
        shown = render(replace(many, findings=(replace(many.findings[0], fixes=fixes),) * count), width=width)
        words = " ".join(shown.split())
        assert " ".join((text if count == 1 else text.splitlines()[0]).split()) in words
        assert not [line for line in shown.splitlines() if "line_" in line and line.endswith("…")]


@pytest.mark.parametrize("colors", ["truecolor", "standard"])
def test_bars_have_the_colors_of_the_palette_where_the_terminal_can_show_them(many: Report, colors: Colors) -> None:
    text = Terminal().render(many, Look(color=True, colors=colors))
    red, green, blue = (int(COLORS["waiting for data"].terminal[at : at + 2], 16) for at in (1, 3, 5))
    ours = f"\x1b[38;2;{red};{green};{blue}m█"
    assert (ours in text) == (colors == "truecolor")
    assert ("\x1b[31m█" in text) == (colors == "standard")
