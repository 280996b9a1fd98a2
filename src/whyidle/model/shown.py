"""What shows itself in a notebook. A layer above makes the text, and is asked only when a notebook does."""

from __future__ import annotations

import importlib


class Shown:
    """A report or a comparison, however it was made."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(importlib.import_module("whyidle.render.notebook").shown(self))
