"""What a page is made of, and how its templates are filled: everything is escaped unless it is `Markup`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whyidle.render import words
from whyidle.render.palette import slug


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading that can be linked to."""

    id: str  # its anchor
    title: str  # its heading; "" for the first, which is the verdict
    html: Markup


@cache
def environment() -> Environment:
    """Return what fills templates; the words of the terminal report are their filters."""
    made = Environment(
        loader=PackageLoader("whyidle.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_legible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clean": words.clean,
        "middle": words.middle,
        "code": code,
        "duration": words.duration,
        "percent": words.percent,
        "money": words.money,
        "slug": slug,
    }
    return made


def code(text: str) -> Markup:
    """Return a sentence in which what stands between backticks is code."""
    parts = words.clean(text).split("`")
    if len(parts) % 2 == 0:  # one stands alone
        return Markup("{}").format(words.clean(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts)
    )


def _legible(value: object) -> object:
    """Return what a template is about to write without characters that nobody sees, and that turn text around."""
    return words.legible(value) if type(value) is str else value


def filled(template: str, **values: object) -> Markup:
    """Return a template, by its name without ".html", filled with these values."""
    return Markup(environment().get_template(f"{template}.html").render(**values))  # noqa: S704 - it escapes
