"""A page on source in which nothing was found."""

from __future__ import annotations

from tests.render import linted
from whyidle.render import render


def test_it_says_what_to_do_next() -> None:
    html = render(linted.clean_source(), "html")
    assert "What to do next" in html
    assert "<code>whyidle run -- python train.py</code>" in html
    assert "What to do next" not in render(linted.linted(), "html")
