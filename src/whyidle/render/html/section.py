"""What a page is made of, and how its templates are filled: everything is escaped unless it is `Markup`."""

from __future__ import annotations

import re
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
    short: str = ""  # what the header calls it; "" as its heading


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
        "basename": words.basename,
        "capital": capital,
        "clean": words.clean,
        "code": code,
        "decimal": words.decimal,
        "duration": words.duration,
        "kernel_name": words.kernel_name,
        "lines": lines,
        "middle": words.middle,
        "money": words.money,
        "percent": words.percent,
        "plural": words.plural,
        "sentence": sentence,
        "size": words.size,
        "slug": slug,
    }
    return made


def _legible(value: object) -> object:
    """Return what a template is about to write without characters that nobody sees, and that turn text around."""
    return words.legible(value) if type(value) is str else value


def filled(template: str, **values: object) -> Markup:
    """Return a template, by its name without ".html", filled with these values."""
    return Markup(environment().get_template(f"{template}.html").render(**values))  # noqa: S704 - it escapes


def lines(text: str) -> str:
    """Return text of several lines, code for instance, without anything hidden in them."""
    return "\n".join(words.clean(line.replace("\t", "    ")).rstrip() for line in text.splitlines())


def code(text: str) -> Markup:
    """Return a sentence in which what stands between backticks is code."""
    parts = words.clean(text).split("`")
    if len(parts) % 2 == 0:  # one stands alone
        return Markup("{}").format(words.clean(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts)
    )


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital first, a full stop last."""
    said = capital(text)
    return said + ("" if not said or said[-1] in ".!?:" else ".")


def capital(text: str) -> str:
    """Return a text that begins with a capital, unless it begins with a name from code."""
    said = words.clean(text).strip()
    first = said.split(" ", 1)[0]
    return said if re.search(r"[._()=\d]", first.rstrip(".,:")) else f"{said[:1].upper()}{said[1:]}"
