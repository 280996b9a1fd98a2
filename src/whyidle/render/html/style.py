"""The colours of causes as CSS: custom properties for both themes, and a class for each that fills and draws."""

from __future__ import annotations

from functools import cache

from whyidle.render.palette import BUSY, COLORS, OTHER, slug


@cache
def colors() -> str:
    """Return "--c-waiting-for-data" and its like, light, dark, and the class `.c-waiting-for-data`."""
    every = {"busy": BUSY, "other": OTHER, **COLORS}
    light = "".join(f"--c-{slug(label)}:{color.light};" for label, color in every.items())
    dark = "".join(f"--c-{slug(label)}:{color.dark};" for label, color in every.items())
    classes = "".join(f".c-{slug(label)}{{--c:var(--c-{slug(label)})}}" for label in every)
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}@media print{{:root:root{{{light}}}}}{classes}\n"
    )
