"""One colour for each group of causes, the same in terminal and page: what is busy is calm, what idles is vivid.

Text always stands beside a colour. The colours were searched for (simulated annealing in OKLCH, with a hue given to
each group) such that no two that often meet look alike, also to readers who do not see red, green or blue as most do,
and all stand out from their ground. tests/render/test_palette.py holds them to it: one changed by hand may fail it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from whyidle.model.finding import GROUPS
from whyidle.render.base import Colors

LIGHT, DARK = "#ffffff", "#14171c"  # the grounds of the page


@dataclass(frozen=True, slots=True)
class Color:
    """Hex colours on a light and on a dark ground, and in a terminal, of which nobody knows the ground."""

    light: str
    dark: str
    terminal: str


BUSY: Final = Color("#858da6", "#8890a9", "#8792aa")
UNKNOWN: Final = Color("#767776", "#adaeac", "#7e807e")
OTHER: Final = Color("#515151", "#cfcfcf", "#636363")

COLORS: Final[Mapping[str, Color]] = {
    "waiting for data": Color("#cc340b", "#ec6145", "#d15646"),
    "checkpoint": Color("#5328b2", "#7059e5", "#6c52df"),
    "evaluation": Color("#50426a", "#746392", "#7a5f92"),
    "logging": Color("#968274", "#ad978a", "#98918b"),
    "blocking reads": Color("#9a074f", "#c73268", "#ab2d48"),
    "memory allocation": Color("#5b4d21", "#926010", "#88796a"),
    "preparing copies": Color("#7f7332", "#d7d849", "#63601a"),
    "garbage collection": Color("#85995d", "#9fbe75", "#778a59"),
    "compilation": Color("#0c6165", "#38dcea", "#356c75"),
    "host dispatch": Color("#cd8021", "#f8a00a", "#cc8300"),
    "launch latency": Color("#735c3d", "#f2df86", "#796f01"),
    "between kernels": Color("#5f8656", "#aeddb6", "#6a9e76"),
    "waiting for peers": Color("#008ae4", "#3ba3fd", "#2798e6"),
    "stalled queue": Color("#a066a4", "#996f84", "#967093"),
    "unknown": UNKNOWN,
}

GROUP_OF: Final[Mapping[str, str]] = {cause: label for label, causes in GROUPS.items() for cause in causes}


def style(label: str) -> str:
    """Return the name of the style that a bar has in a terminal, by its label; what is no group of causes is grey."""
    return f"idle.{slug(label)}" if label in COLORS else "idle.other"


def styles(colors: Colors) -> dict[str, str]:
    """Return what those names mean: our colours, or what stands for them where a terminal has its own 16."""
    if colors == "standard":
        return {"busy": "green", "idle.other": "red"} | {style(label): "red" for label in COLORS}
    return {"busy": BUSY.terminal, "idle.other": OTHER.terminal} | {style(n): c.terminal for n, c in COLORS.items()}


def slug(label: str) -> str:
    """Return a label as it stands in the name of a CSS class: "waiting-for-data"."""
    return label.replace(" ", "-")
