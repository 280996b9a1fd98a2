"""What shows itself in a notebook."""

from __future__ import annotations

import sys


class Shown:
    """A noun that a notebook shows below a cell.

    What is shown is made far above: the package, which is at the top, is asked for it when a notebook asks us.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        told: str = sys.modules[__name__.partition(".")[0]]._in_a_notebook(self)
        return told
