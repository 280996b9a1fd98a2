"""Where a finding stands in source, as people and formats say it; in notebooks that is a line of a cell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from whyidle.model.finding import Finding, Location
from whyidle.render.words import clean

_IN_CELL = re.compile(r"cell (\d+), line (\d+)")  # whyidle.lint.source.cell_words


def in_source(finding: Finding) -> Location | None:
    """Return the first of its places that is a line of source."""
    return next((place for place in finding.locations if place.line is not None), None)


def cell(place: Location) -> str:
    """Return "cell 3, line 5" where it is in a notebook, else nothing."""
    return place.name if place.name and place.line is not None and _IN_CELL.fullmatch(place.name) else ""


def file_line(place: Location) -> int | None:
    """Return the line of the file itself; None in notebooks, whose files hold cells in a form that nobody reads."""
    return None if cell(place) else place.line


def number(place: Location) -> str:
    """Return the number that a person sees beside the line."""
    found = _IN_CELL.fullmatch(place.name or "")
    return found[2] if found else str(place.line)


def spot(place: Location) -> str:
    """Return "train.py:41:9", or "study.ipynb, cell 3, line 5"."""
    if cell(place):
        return f"{clean(place.file)}, {cell(place)}"
    return f"{clean(place.file)}:{place.line}" + (f":{place.column}" if place.column is not None else "")


def spots(places: Iterable[Location]) -> str:
    """Return "train.py:80, 91, study.ipynb cell 3 line 5, cell 4 line 2": a file's name once for all of its lines."""
    told = []
    for file, found in groupby(places, key=lambda place: place.file):
        of_file = list(found)
        lines = dict.fromkeys(cell(place).replace(",", "") or str(place.line) for place in of_file)
        told.append(f"{clean(file)}{' ' if cell(of_file[0]) else ':'}{', '.join(lines)}")
    return ", ".join(told)
