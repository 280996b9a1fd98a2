"""A page of a verb other than diagnose, as text for wherever it goes."""

from __future__ import annotations

from collections.abc import Iterable

from whyidle.model.picture import Picture
from whyidle.render.base import Look
from whyidle.render.html.page import page
from whyidle.render.html.section import Section


def verb_page(
    title: str, sections: Iterable[Section | None], report: str, look: Look, picture: Picture | None = None
) -> str:
    """Return a page of those sections that there are; in ASCII where its destination shows no more.

    Args:
        title: what it says first.
        sections: in the order in which they are read; None has nothing to say.
        report: the same as JSON, in ASCII where the destination shows no more.
        look: the destination. What stands in scripts and styles is ASCII already, where references mean nothing.
        picture: what the scripts draw.
    """
    made = str(page(title, [section for section in sections if section is not None], report, picture))
    return made if look.unicode else made.encode("ascii", "xmlcharrefreplace").decode("ascii")
