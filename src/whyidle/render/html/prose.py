"""Our own docstrings, which are Markdown, as HTML. HTML within them stays text."""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup


@cache
def _parser() -> MarkdownIt:
    # Links of docstrings lead to files beside the docs, which a page does not have: they stay text.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])


def prose(text: str, heading: int = 3) -> Markup:
    """Return Markdown as HTML, whose headings begin at this level; a link is its text."""
    plain = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", text)
    tokens = _parser().parse(plain)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1]) - 2 + heading, 6)}"
    return Markup(_parser().renderer.render(tokens, _parser().options, {}))  # noqa: S704 - ours, and it escapes
