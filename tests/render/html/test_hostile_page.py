"""Whatever files, jobs and users call things: a page holds no element but ours, and says what the JSON says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.render.html.markup import Page
from tests.render.html.reports import finding, full, picture, retold
from whyidle.model.detail import Detail, TopItem
from whyidle.model.finding import Report, RunInfo, SourceSummary, Summary
from whyidle.render import render

# Pieces of which an attack is made. `zzz` and `qqq` are no words of ours.
PIECES = (
    "<zzz qqq=1>", "</script>", "</style>", "</title>", "</textarea>", "<!--", "-->", "]]>", "<![CDATA[", '"', "'", "`",
    " qqq=1 ", "&lt;zzz&gt;", "&#60;zzz>", "{{ 7*7 }}", "{% raw %}", "\\u003czzz>", "\0", "\ud800", "\u202e", "\u2028",
    "\r\n", "\t", "\x1b[31m", "javascript:alert(1)", "מְחַכֶּה", "一", "%", "\\", "/", "<", ">", "&", "a", " ",
)  # fmt: skip
SHAPES: dict[str, Callable[[str], Report]] = {
    "full": lambda text: retold(full(), lambda _: text),
    "lint": lambda text: retold(linted(), lambda _: text),
    "refused": lambda text: Report(RunInfo(), Summary(text), warnings=(text,) * 9, judged=False),
}


def linted() -> Report:
    told = replace(full().summary, source=SourceSummary(12, 3204))
    return replace(full(), summary=told, findings=(finding(evidence="source", seen=""),), picture=None)


def page_of(report: Report) -> tuple[str, Page]:
    text = render(report, "html")
    text.encode("utf-8")
    return text, Page(text)


def check(page: Page) -> None:
    assert page.faults == []
    assert page.comments == []
    assert not {name for name in page.elements if "zzz" in name}
    assert not {name for name in page.attributes if "qqq" in name or name.startswith("on") or name == "style"}
    assert page.heads == [("icon", "data:,")], "browsers ask a server for an icon where a page names none"
    assert all(link.startswith(("#", "https://")) for link in page.links)
    assert set(page.scripts) == {"", "whyidle-report", "whyidle-drawn"}


OURS = page_of(full())[1]


def test_a_full_report_is_a_sound_page() -> None:
    check(OURS)
    assert "34 of the 44 idle points" in OURS.read


@pytest.mark.parametrize("shape", SHAPES)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20))
def test_no_text_becomes_an_element_or_an_attribute(shape: str, text: str) -> None:
    report = SHAPES[shape](text)
    _, page = page_of(report)
    check(page)
    assert page.elements <= OURS.elements | {"ol"}
    assert page.attributes <= OURS.attributes
    assert json.loads(page.scripts["whyidle-report"]) == json.loads(render(report, "json"))
    assert json.loads(page.scripts["whyidle-drawn"]).keys() == {"head", "bytes"}


@pytest.mark.parametrize("char", ["\0", "\x1b", "\u202e", "\u2066", "\ud800", "\u2028", "\x85", "\u200b", "\ufeff"])
def test_what_nobody_sees_is_in_no_text(char: str) -> None:
    text, page = page_of(retold(full(), lambda text: f"{text[:3]}{char}{text[3:]}"))
    assert char not in page.read
    assert char not in text.replace(page.scripts["whyidle-report"], "")  # where it stands in a text of JSON


def test_a_kernel_with_a_very_long_name() -> None:
    names = [f"void {'k' * 5000}{number}{'<' * 5000}" for number in range(15)]
    report = replace(full(), detail=Detail(tuple(TopItem(name, 1, 0.1, 0.05) for name in names)), picture=None)
    page = page_of(report)[1]
    check(page)
    assert len(page.read) < 60_000
    assert names[3] in json.loads(page.scripts["whyidle-report"])["detail"]["kernels"][3]["name"]


def test_names_that_read_from_the_right_stand_apart_from_what_is_around_them() -> None:
    report = replace(full(), detail=Detail((TopItem("מְחַכֶּה לנתונים", 1, 0.1, 0.05),)))
    text, page = page_of(report)
    assert "<bdi>מְחַכֶּה לנתונים</bdi>" in text
    check(page)


def test_five_hundred_findings() -> None:
    many = tuple(finding(rule) for rule in ("input.workers_zero", "sync.scalar_read") for _ in range(250))
    text, page = page_of(replace(full(), findings=many, picture=None))
    check(page)
    assert len(text) < 3_000_000
    assert page.read.count("running += loss.item()") >= 500


@pytest.mark.parametrize(
    "report",
    [
        Report(RunInfo(), Summary("")),
        Report(RunInfo(), Summary("Cannot judge: nothing was read."), judged=False),
        replace(full(), findings=(), cleared=(), prediction=None),
        replace(full(), picture=replace(picture(4), timelines=())),  # a curve only
        replace(full(), picture=replace(picture(4), charts=())),  # a trace only
        replace(full(), run=replace(full().run, settings={f"key {n}": "v" * 999 for n in range(2000)})),
        replace(full(), warnings=tuple(f"warning {n}" for n in range(300))),
    ],
    ids=["empty", "refused", "no findings", "no trace", "no curve", "huge settings", "many warnings"],
)
def test_reports_of_all_sorts(report: Report) -> None:
    text, page = page_of(report)
    check(page)
    assert json.loads(page.scripts["whyidle-report"]) == json.loads(render(report, "json"))
    assert len(text) < 4_000_000
