"""The upper half of the page: what it says, read without tags, and that it holds nothing but what we wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle import cost
from whyidle.diagnosis import diagnose
from whyidle.model.finding import CAUSES, Cost, Estimate, Finding, Report, RunInfo, Summary
from whyidle.model.picture import Lane, Picture, Timeline
from whyidle.render.html.bar import device_parts, parts_of
from whyidle.render.html.section import Section, capital, code, sentence
from whyidle.render.html.sections import SECTIONS, findings, fixes, seconds, verdict
from whyidle.render.words import clean

RUNS = Path(__file__).parents[2] / "runs"
UPPER: tuple[Callable[[Report], Section | None], ...] = (
    verdict.section,
    seconds.section,
    fixes.section,
    findings.section,
)
REPORTS = (
    "one_predicted", "predicted", "asked", "refused", "ranks", "healthy", "not_judged",
    "watched_cpu", "watched_gpu", "watched_unknown", "watched_and_traced", "watched_healthy",
)  # fmt: skip
EMPTY = {"meta", "br", "rect", "line", "img"}
OURS = {
    "a", "article", "b", "br", "code", "dd", "details", "div", "dl", "dt", "figure", "h1", "h2", "h3", "h4", "li",
    "line", "p", "pre", "rect", "small", "span", "summary", "svg", "table", "tbody", "td", "text", "tfoot", "th",
    "thead", "tr", "ul",
}  # fmt: skip
BREAKS = {"p", "li", "tr", "h1", "h2", "h3", "h4", "pre", "figure", "summary", "dt", "details", "table", "ul", "dl"}


class Read(HTMLParser):
    """What a person reads of a page, its tags, and whether they close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.attributes = "", list[str](), set[str](), list[tuple[str, str | None]]()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.text += "\n" if tag in BREAKS else " "
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"svg"} & set(self.open):  # the key says the same
            self.text += data

    @property
    def lines(self) -> str:
        return "\n".join(text for line in self.text.splitlines() if (text := " ".join(line.split())))


def html_of(report: Report) -> str:
    return "".join(f"<h2>{made.title}</h2>{made.html}" for make in UPPER if (made := make(report)) is not None)


@pytest.mark.parametrize("name", REPORTS)
def test_text(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    assert Read(html_of(cost.price(request.getfixturevalue(name), 2.60))).lines == snapshot


def test_text_of_a_curve(snapshot: SnapshotAssertion) -> None:
    report = diagnose([str(RUNS / "curve" / "gpu.csv.gz")], picture=True)
    assert Read(html_of(report)).lines == snapshot


@pytest.mark.parametrize("name", REPORTS)
def test_no_style_and_no_handler(name: str, request: pytest.FixtureRequest) -> None:
    read = Read(html_of(cost.price(request.getfixturevalue(name), 2.60)))
    assert read.tags <= OURS
    names = {attribute for attribute, _ in read.attributes}
    assert "style" not in names
    assert not any(name.startswith("on") for name in names)
    ids = [value for attribute, value in read.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))


def test_hostile_names(predicted: Report) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u202e`\x1b[31m"

    def bad(finding: Finding) -> Finding:
        made = tuple(replace(fix, title=evil, change=evil, risk=evil) for fix in finding.fixes)
        places = tuple(replace(place, file=evil, name=evil) for place in finding.locations)
        return replace(finding, message=evil, seen=evil, fixes=made, locations=places, candidates=(evil,), rule=evil)

    summary = replace(predicted.summary, verdict=evil, mfu=0.3, mfu_peak=evil)
    report = replace(predicted, summary=summary, findings=tuple(map(bad, predicted.findings)))
    read = Read(html_of(report))
    assert read.tags <= OURS
    assert not {"src", "onerror"} & {name for name, _ in read.attributes}
    assert "\u202e" not in read.text
    assert "\x1b" not in read.text


def test_findings_fold_and_stay_small(predicted: Report) -> None:
    report = replace(predicted, findings=predicted.findings * 100)
    html = html_of(report)
    assert html.count("<details") == len(report.findings)
    assert html.count(" open>") == findings.OPEN
    assert len(html.encode()) < 1_500_000


def test_places_move_the_timeline_of_their_rank(one_predicted: Report) -> None:
    none = np.zeros(0, np.int64)
    lane = Lane("stream 7", "stream", none, none, none.astype(np.int32), none.astype(np.uint8), 0, none.astype("f4"))
    shown = tuple(Timeline(f"rank {rank}", "runs/resnet50/trace.json.gz", rank, 0, 1, (), (lane,)) for rank in (1, 0))
    html = html_of(replace(one_predicted, picture=Picture(shown)))
    assert '<a href="#timeline" data-timeline="1" data-start="123000000" data-end="190000000">' in html
    assert "data-timeline" not in html_of(replace(one_predicted, picture=Picture(shown[:1])))


def test_many_devices_show_their_ends(ranks: Report) -> None:
    devices = tuple(replace(ranks.summary.devices[0], rank=n, device=n, busy_share=n / 100) for n in range(64))
    made = seconds.section(replace(ranks, summary=replace(ranks.summary, devices=devices)))
    assert made is not None
    text = Read(str(made.html)).lines
    assert "The least busy of 64 GPUs, median 32%" in text
    assert "All 64 GPUs" in text


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"[A-Z a-z.(),0-9?!]{0,60}"))
def test_the_verdict_is_said_whole(text: str) -> None:
    assert " ".join(filter(None, verdict.said_in(text))) == clean(text)


@given(st.lists(st.floats(0, 1), min_size=len(CAUSES), max_size=len(CAUSES)), st.floats(0.001, 1))
def test_parts_of_the_bar_add_up(weights: list[float], idle: float) -> None:
    whole = sum(weights) or 1.0
    by_cause = {cause: weight / whole * idle for cause, weight in zip(CAUSES, weights, strict=True)}
    by_cause["unknown"] += idle - sum(by_cause.values())
    summary = Summary("", gpu_idle_share=idle, gpu_busy_share=1 - idle, idle_by_cause=by_cause)
    parts = parts_of(Report(RunInfo(levels=("trace",)), summary))
    assert sum(part.percent for part in parts) == 100
    assert parts[0].start == 0
    assert parts[-1].start + parts[-1].width == pytest.approx(1)
    assert all(abs(one.start + one.width - two.start) < 1e-9 for one, two in itertools.pairwise(parts))


def test_a_bar_fills_its_width_where_small_parts_are_left_out() -> None:
    summary = Summary("", gpu_idle_share=0.004, gpu_busy_share=0.996, idle_by_cause={"dispatch": 0.004})
    (busy,) = parts_of(Report(RunInfo(levels=("trace",)), summary))
    assert (busy.label, busy.percent, busy.share, busy.width) == ("busy", 100, 0.996, 1.0)


@pytest.mark.parametrize(
    ("said", "shown", "path"),
    [
        ("/runs/a b/train.py: a Python script.", "train.py: a Python script.", "/runs/a b/train.py"),
        ("C:\\runs\\x.db: a database.", "x.db: a database.", "C:\\runs\\x.db"),
        ("runs/x.db: a database.", "x.db: a database.", "runs/x.db"),
        ("x.db: a database.", "x.db: a database.", ""),
        ("no CPU/GPU operations: none.", "no CPU/GPU operations: none.", ""),
        ("nothing was read.", "nothing was read.", ""),
    ],
)
def test_a_refusal_names_a_file_short(said: str, shown: str, path: str) -> None:
    assert verdict.without_folder(f"Cannot judge: {said}") == (f"Cannot judge: {shown}", path)


def test_what_comes_first_though_another_could_save_more_says_why(ranks: Report) -> None:
    small, large = (replace(ranks.findings[0], lost_share=share, fixes=()) for share in (0.06, 0.23))
    told = verdict.section(replace(ranks, findings=(replace(small, fixes=ranks.findings[0].fixes), large)))
    assert "Order by saving × certainty ÷ effort; another could save more (23%)" in Read(told.html).lines
    assert "Order" not in Read(verdict.section(replace(ranks, findings=(large, small))).html).lines


def test_warnings_stand_below_the_findings_and_are_counted_on_the_first_screen(one_predicted: Report) -> None:
    report = replace(one_predicted, warnings=("two traces", "a torn file"))
    order = [made.id for section in SECTIONS if (made := section(report)) is not None]
    assert order.index("warnings") == order.index("findings") + 1
    assert '<a href="#warnings">2 warnings</a>' in verdict.section(report).html
    assert "#warnings" not in verdict.section(replace(report, warnings=())).html
    order = [made.id for section in SECTIONS if (made := section(replace(report, judged=False))) is not None]
    assert order[:2] == ["verdict", "warnings"]


def rows_of(summary: Summary) -> str:
    made = seconds.section(Report(RunInfo(levels=("trace",)), summary))
    assert made is not None
    return Read(str(made.html)).lines


PAUSES = Summary(
    "", window_s=10.0, steps=5, step_time_s=0.5, step_time_mean_s=0.5, gpu_idle_share=0.75,
    idle_by_cause={"evaluation": 0.7, "dispatch": 0.05}, cost=Cost(2.0, "list price", 1, 1.5),
)  # fmt: skip


def test_shares_are_of_the_step_only_where_steps_fill_the_time() -> None:
    text = rows_of(PAUSES)
    assert "Of the time recorded" in text
    assert re.search(r"evaluation.*\n70%\n7 s \$1.40", text), text
    assert "all 100%\n10 s $2.00" in text
    text = rows_of(replace(PAUSES, window_s=2.52))
    assert "Of the mean step" in text
    assert "all 100%\n500 ms $2.00" in text


def test_money_is_of_what_is_paid_for() -> None:
    assert "Per hour" in rows_of(PAUSES)
    assert "Per hour" not in rows_of(replace(PAUSES, curve_idle_share=0.9)), "the whole run idles more"
    watched = Summary("", watched_s=10.0, host_shares={"data": 0.4, "other": 0.6}, curve_idle_share=0.3, on_gpu=True)
    text = rows_of(replace(watched, cost=PAUSES.cost))
    assert "Per hour" not in text, "what the host does is not what GPUs cost"


def test_a_month_of_gpus_that_nobody_recorded_says_so(one_predicted: Report) -> None:
    assert "if all are like" not in html_of(cost.price(one_predicted, 2.60))
    assert "all 8 GPUs, if all are like the 1 recorded." in html_of(cost.price(one_predicted, 2.60, 8))


def test_an_interval_is_named_only_where_one_is_shown(one_predicted: Report) -> None:
    assert "80% sure of the range" in html_of(one_predicted)
    sure = replace(one_predicted.findings[0].fixes[0].predicted, speedup=Estimate(1.5, 1.5, 1.5))
    fixes_ = (replace(one_predicted.findings[0].fixes[0], predicted=sure),)
    report = replace(one_predicted, findings=(replace(one_predicted.findings[0], fixes=fixes_),))
    assert "80% sure of the range" not in html_of(report)


def test_a_gain_that_may_be_none_is_not_green(one_predicted: Report) -> None:
    finding = one_predicted.findings[0]
    assert '<p class="speedup">' in html_of(one_predicted)
    doubted = replace(finding.fixes[0].predicted, speedup=Estimate(0.97, 1.5, 2.84))
    fixes_ = (replace(finding.fixes[0], predicted=doubted),)
    html = html_of(replace(one_predicted, findings=(replace(finding, fixes=fixes_),)))
    assert '<p class="speedup doubtful">1.50x (0.97–2.84x), may not be faster' in html


def test_a_fix_that_pays_only_after_others_says_so(predicted: Report) -> None:
    first, second, *rest = predicted.findings
    hardly = replace(second.fixes[0].predicted, speedup=Estimate(1.0, 1.02, 1.03))
    second = replace(second, fixes=(replace(second.fixes[0], predicted=hardly), *second.fixes[1:]))
    said = "may not be faster; after those before it in the order it saves 11% of today"
    assert said not in html_of(predicted)
    assert said in html_of(replace(predicted, findings=(first, second, *rest)))


def test_words() -> None:
    assert sentence("load in worker processes") == "Load in worker processes."
    assert capital("enumerate(DataLoader) covers 34%") == "enumerate(DataLoader) covers 34%"
    assert capital("model.zero_grad, too") == "model.zero_grad, too"
    assert code("run `a<b` first") == "run <code>a&lt;b</code> first"
    assert code("one ` alone") == "one ` alone"
    assert not re.search(r"\s$", sentence(" x "))


def test_causes_of_each_rank_add_up() -> None:
    report = diagnose([str(RUNS / "straggler")], picture=True)
    for device in report.summary.devices:
        parts = device_parts(device, report.picture)
        assert parts[0].label == "busy"
        assert parts[0].share == device.busy_share
        assert sum(part.percent for part in parts) == 100
        assert len(parts) > 1
        assert [part.label for part in device_parts(device, None)] == ["busy"]
