"""Markdown for reviews: read the snapshots as the comments that they become, and let nothing of a file act in them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from syrupy.assertion import SnapshotAssertion

from tests.render.linted import clean_source, linted, much_linted, notebook
from whyidle import cost
from whyidle.model.evidence import Ignored
from whyidle.model.finding import Finding, Fix, Location, Report, Unknown
from whyidle.render import render
from whyidle.render.escapes import code, fence, folded, prose, table
from whyidle.render.headline import facts_of
from whyidle.render.pasted import ROOM, fitted
from whyidle.render.words import clean

GITHUB = MarkdownIt("commonmark").enable("table")  # of which github.github.com/gfm is an extension

EVIL = (
    "</script><img src=x onerror=alert(1)>|](http://evil.example) ![x](http://evil.example/p.png) @octocat #1 GH-2 "
    "www.evil.example a@b.example ```\n# head\n``` `code` **bold** __x__ $m$ :tada: <!-- -- > "
    "\u202e\x1b[31m &lt; ~~s~~ a_b_c"
)
FIXTURES = [
    "one_finding", "many", "ranks", "healthy", "not_judged", "one_predicted", "predicted", "asked", "refused",
    "watched_cpu", "watched_gpu", "watched_and_traced",
]  # fmt: skip


def tokens(text: str) -> list[Token]:
    """Return all tokens, those within lines too."""
    return [part for block in GITHUB.parse(text) for part in (block, *(block.children or ()))]


def words(text: str) -> str:
    """Return what a reader sees of a paragraph."""
    seen = "".join(part.content for part in tokens(text) if part.type in {"text", "code_inline", "text_special"})
    return seen.replace("\u200b", "")


@pytest.mark.parametrize("name", FIXTURES)
def test_comment(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    assert render(request.getfixturevalue(name), "markdown") == snapshot


@pytest.mark.parametrize("report", [linted(), clean_source(), notebook()], ids=["linted", "clean", "notebook"])
def test_comment_on_source(report: Report, snapshot: SnapshotAssertion) -> None:
    assert render(report, "markdown") == snapshot


@pytest.mark.parametrize("name", FIXTURES)
def test_it_says_what_the_terminal_says_of_the_job(name: str, request: pytest.FixtureRequest) -> None:
    report = request.getfixturevalue(name)
    text = words(render(report, "markdown"))
    for fact in facts_of(report):
        assert fact in text


def test_every_warning_is_told_up_to_a_number(many: Report) -> None:
    text = render(replace(many, warnings=tuple(f"warning {number} here" for number in range(25))), "markdown")
    assert text.count(" here") == 20
    assert "and 5 more" in text
    assert "--all" not in text


def test_of_many_lines_the_first_are_told() -> None:
    text = render(much_linted(), "markdown")
    assert "and 26 more findings: `-o report.json` has all" in text


def test_with_a_price(predicted: Report) -> None:
    text = render(cost.price(predicted, 2.60, gpus=4), "markdown")
    assert "**cost**: \\$4.57 of \\$10.40 per hour is idle" in text


def test_ascii_where_nothing_else_can_be_shown(many: Report) -> None:
    assert render(many, "markdown", unicode=False).isascii()


def test_everything_is_there_in_full_if_asked(many: Report) -> None:
    short, whole = render(many, "markdown"), render(many, "markdown", everything=True)
    assert (short.count("#### "), whole.count("#### ")) == (3, 4)


def evil(report: Report) -> Report:
    """Return the report with hostile text wherever a file can put some."""

    def finding(one: Finding) -> Finding:
        places = (*(replace(place, file=EVIL, name=EVIL) for place in one.locations), Location(EVIL, 3, excerpt=EVIL))
        fixes = tuple(replace(fix, title=EVIL, change=f"{EVIL}\n{EVIL}", risk=EVIL) for fix in one.fixes)
        return replace(one, message=EVIL, seen=EVIL, locations=places, fixes=fixes, candidates=(EVIL,))

    return replace(
        report,
        run=replace(
            report.run,
            ignored=(Ignored(EVIL, EVIL),),
            gpus=tuple(replace(gpu, name=EVIL) for gpu in report.run.gpus),
        ),
        summary=replace(report.summary, verdict=EVIL),
        findings=tuple(map(finding, report.findings)),
        unknown=tuple(replace(unknown, how=EVIL) for unknown in report.unknown),
        warnings=(EVIL, EVIL),
    )


OURS = re.compile(r"</?(?:details|summary|sub|code)>|<br>")


@pytest.mark.parametrize("name", FIXTURES)
def test_nothing_of_a_file_acts(name: str, request: pytest.FixtureRequest) -> None:
    text = render(evil(request.getfixturevalue(name)), "markdown")
    found = tokens(text)
    assert not {"link_open", "image", "heading_close_evil"} & {token.type for token in found}
    raw = "".join(token.content for token in found if token.type in {"html_inline", "html_block"})
    assert "<" not in OURS.sub("", raw)
    seen = "".join(token.content for token in found if token.type == "text")  # in which GitHub looks, too
    for mark in ("@octocat", "#1", "GH-2", "http://", "www.evil", "a@b", ":tada:"):
        assert mark not in seen
    rows = [token.map for token in found if token.type == "table_open"]
    for start, end in (span for span in rows if span):
        lines = text.splitlines()[start:end]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    headings = [token for token in found if token.type == "heading_open"]
    assert len(headings) == 1 + min(len(request.getfixturevalue(name).findings), 3)


def test_lint_of_hostile_source() -> None:
    text = render(evil(linted()), "markdown")
    assert not {"link_open", "image"} & {token.type for token in tokens(text)}


def test_a_comment_has_room_for_whatever_was_found(predicted: Report) -> None:
    long = "n" * 10_000
    finding = replace(
        predicted.findings[0],
        message=long,
        seen=long,
        locations=(Location(long, 1, excerpt=long),) * 50,
        fixes=(Fix(long, "\n".join([long] * 50), "code", risk=long),),
    )
    report = replace(
        predicted,
        findings=(finding,) * 10 + predicted.findings[:1] * 490,
        warnings=(long,) * 50,
        unknown=tuple(Unknown(f"family.rule{number}", (), f"{number} {long}") for number in range(100)),
    )
    for everything in (False, True):
        text = render(report, "markdown", everything=everything)
        assert len(text) <= ROOM
        assert "475 more findings" in text
    assert "left out for its length" in text


def test_what_is_left_out_is_said() -> None:
    assert fitted(["a" * 100, "b" * 900, "c"], room=400).endswith(
        "\n\nc\n\n*1 part of this report left out for its length: `-o report.json` has all.*\n"
    )
    assert fitted(["a", "b"]) == "a\n\nb\n"


@given(st.text(max_size=60) | st.text("`|\\@#:/<&_*[]()!~$-+.1aw \n", max_size=40))
def test_prose_says_what_the_text_says(text: str) -> None:
    shown = " ".join(clean(text).split())
    told = prose(text)
    kinds = {token.type for token in tokens(told)}
    marks = {"link_open", "image", "em_open", "strong_open", "heading_open", "bullet_list_open", "hr", "fence"}
    assert not kinds & marks
    if "`" not in shown:
        assert " ".join(words(told).split()) == shown


@given(st.text(max_size=60) | st.text("`|\\ a", max_size=30))
def test_code_says_what_the_text_says(text: str) -> None:
    told = code(text)
    assert words(told) == clean(text).strip()
    assert (told == "") == (clean(text).strip() == "")


@given(st.lists(st.text("`~\\ a|\t", max_size=20), max_size=5))
def test_a_fence_ends_where_its_code_does(lines: list[str]) -> None:
    blocks = GITHUB.parse(fence(lines, "python") + "\n\nafter")
    assert [block.type for block in blocks] == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(st.lists(st.tuples(st.text(max_size=20), st.text("|`\\ a", max_size=20)), max_size=4))
def test_a_table_keeps_its_columns(rows: list[tuple[str, str]]) -> None:
    text = table(("one", "two"), [(prose(one), code(two, cell=True)) for one, two in rows])
    found = GITHUB.parse(text)
    assert sum(token.type == "td_open" for token in found) == 2 * len(rows)
    assert sum(token.type == "table_open" for token in found) == 1


def test_a_fold_holds_markdown() -> None:
    assert folded("2 <b>", "- a") == "<details><summary>2 &lt;b&gt;</summary>\n\n- a\n\n</details>"


def test_ordinary_text_stays_readable() -> None:
    plain = "DataLoader(num_workers=0) in train.py:12: 176 → 117 ms/step, 1.5x (1.4–1.6x); at::native::copy_ 3 * 4"
    assert prose(plain) == plain.replace("*", "\\*").replace("copy_", "copy\\_")
    assert prose("`loss.item()` waits") == "`loss.item()` waits"
