"""Report in, text out. One file per format, called like it; `renderers` finds them."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType

from whyidle.discover import defined, discover
from whyidle.errors import WhyIdleError
from whyidle.model.finding import Report
from whyidle.render.base import Look, Renderer


@cache
def renderers() -> dict[str, type[Renderer]]:
    """Return every renderer by the name of its format."""
    found = discover(sys.modules[__name__], Renderer)  # type: ignore[type-abstract]
    return {renderer.format: renderer for renderer in found}


def renderer(format: str) -> Renderer:  # noqa: A002 - the word of the command line
    """Return the renderer of a format. Only its own file is imported, since others need much that takes time.

    Raises:
        WhyIdleError: for a format that there is not.
    """
    try:
        module = importlib.import_module(f"{__name__}.{format}") if format.isidentifier() else None
    except ModuleNotFoundError:
        module = None
    found = [] if module is None else defined(module, Renderer)  # type: ignore[type-abstract]
    if not found:
        raise WhyIdleError(f"no format is called {format!r}", f"formats: {', '.join(sorted(renderers()))}")
    return found[0]()


def render(
    report: Report,
    format: str = "terminal",  # noqa: A002
    *,
    width: int = 100,
    color: bool = False,
    unicode: bool = True,
    everything: bool = False,
) -> str:
    """Return the report as text.

    Args:
        report: what was judged.
        format: "terminal", "html", "markdown", "json", "sarif", "github", "gitlab" or "junit".
        width: columns of a terminal, 60 to 120 are used.
        color: whether to use terminal colors.
        unicode: False writes ASCII only.
        everything: all findings in full and the tables behind the numbers.

    Raises:
        WhyIdleError: for a format that there is not.
    """
    return renderer(format).render(report, Look(width, color, unicode, everything))


class _Callable(ModuleType):
    """`whyidle.render` is the public function and, once imported, this package: let both be called."""

    def __call__(self, *args: object, **options: object) -> str:
        return render(*args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Callable
