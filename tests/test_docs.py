"""Docs are in step: generated pages are fresh, links lead somewhere, what the README tells to type is one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import document
from whyidle.model.finding import CAUSES
from whyidle.render.problems import known

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
HOW = "run: python scripts/document.py"
WRITTEN = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{name}" for name in ("README.md", "architecture.md")),
]


def test_generated_pages_are_fresh() -> None:
    pages = document.pages()
    old = [
        name for name, text in pages.items() if not (DOCS / name).is_file() or (DOCS / name).read_text("utf-8") != text
    ]
    assert old == [], HOW
    assert document.stale() == [], HOW


def test_every_rule_and_verb_has_a_page() -> None:
    assert [name for name in known() if not (DOCS / "rules" / f"{name}.md").is_file()] == []
    assert "diagnose" in document.verbs()
    assert [name for name in document.verbs() if not (DOCS / "cli" / f"{name}.md").is_file()] == []


def test_method_says_how_each_cause_is_decided() -> None:
    method = (DOCS / "method.md").read_text("utf-8")
    assert [cause for cause in CAUSES if f"`{cause}`" not in method] == []


def test_method_says_what_the_lines_of_a_report_mean() -> None:
    text = (DOCS / "method.md").read_text("utf-8")
    assert [block[2] for block in document.BLOCK.finditer(text)] == ["labels"]
    assert document.readme(text) == text, HOW


def test_readme_shows_what_the_demo_shows() -> None:
    text = README.read_text("utf-8")
    made = ["report", "watched", "record", "compared", "linted", "curve"]
    assert [block[2] for block in document.BLOCK.finditer(text)] == made
    assert document.readme(text) == text, HOW


def commands(word: str) -> Iterator[str]:
    yield from (line for line in README.read_text("utf-8").splitlines() if word in line and line.startswith("python3 "))


@pytest.mark.parametrize("word", ["whyidle demo", "pytest"])
def test_readme_commands_are_whole_lines(word: str) -> None:
    """Each makes its own environment and is pasted as it stands."""
    first = next(commands(word))
    assert first.startswith("python3 -m venv .venv && ")
    assert not first.endswith("\\")


def test_the_first_mention_of_the_demo_can_be_pasted() -> None:
    lines = README.read_text("utf-8").splitlines()
    assert next(line for line in lines if "whyidle demo" in line) == next(commands("whyidle demo"))


def anchors(text: str) -> set[str]:
    """Return the anchors that headings get on a code host."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text("utf-8")), link


@pytest.mark.parametrize("name", WRITTEN)
def test_written_pages_are_there(name: str) -> None:
    assert (ROOT / name).is_file()
