"""Why is the GPU idle, what to change, and what that is worth.

    import whyidle

    report = whyidle.diagnose(["runs/resnet50/"])
    print(whyidle.render(report))

    print(whyidle.compare("runs/before/", "runs/after/").message)

Names are imported when first used, so that `whyidle --version` and a program that only imports us stay quick. What they
return shows itself in a notebook.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from whyidle._version import __version__

if TYPE_CHECKING:
    from whyidle.compare import compare as compare
    from whyidle.diagnosis import diagnose as diagnose
    from whyidle.launch.inside import watch_training as watch_training
    from whyidle.lint import lint as lint
    from whyidle.read import load as load
    from whyidle.render import render as render

__all__ = ["__version__", "compare", "diagnose", "lint", "load", "render", "watch_training"]

_HOME = {
    "compare": "whyidle.compare",
    "diagnose": "whyidle.diagnosis",
    "lint": "whyidle.lint",
    "load": "whyidle.read",
    "render": "whyidle.render",
    "watch_training": "whyidle.launch.inside",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def _in_a_notebook(thing: object) -> str:
    """Return what a notebook shows of a report or a comparison (model/shown.py)."""
    return str(importlib.import_module("whyidle.render.notebook").shown(thing))


def __dir__() -> list[str]:
    return sorted(__all__)
