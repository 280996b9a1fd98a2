"""The whole page: head, sections, what the scripts draw, and the report as JSON, with a policy that allows no more."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from markupsafe import Markup

from whyidle._version import __version__
from whyidle.model.picture import Picture
from whyidle.render.html.packing import in_script, packed
from whyidle.render.html.section import Section, filled
from whyidle.render.html.style import colors

MOST: Final = 80  # characters of the name of a file


def page(title: str, sections: Sequence[Section], report: str, picture: Picture | None = None) -> str:
    """Return an HTML document.

    Args:
        title: what it says first, for the tab of a browser.
        sections: in the order in which they are read.
        report: the same as JSON: embedded, and to be saved from the page.
        picture: what the scripts draw; None for nothing.
    """
    style, script = colors() + bundled("report.css"), bundled("report.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return str(
        filled(
            "page",
            title=title,
            file=_file(picture.name if picture is not None else ""),
            version=__version__,
            policy=Markup(policy),  # noqa: S704 - hashes and words of ours
            style=Markup(style),  # noqa: S704 - ours, and without "</"
            script=Markup(script),  # noqa: S704
            sections=sections,
            report=in_script(report),
            drawn=in_script(packed(picture or Picture())),
        )
    )


@cache
def bundled(name: str) -> str:
    """Return a file that web/ was built into."""
    return (files(__package__) / "bundle" / name).read_text("utf-8")


def _file(name: str) -> str:
    """Return what the report is called where a reader saves it: any system takes these characters."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MOST].strip(".-")
    return f"{plain or 'whyidle'}-report.json"


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
