"""One colour for each group of causes, the same in terminal and page.

Text always stands beside a colour. tests/render/test_palette.py holds neighbours apart for colour-blind readers, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from whyidle.model.finding import GROUPS


@dataclass(frozen=True, slots=True)
class Color:
    """Hex colours on a light and on a dark ground."""

    light: str
    dark: str

    @property
    def terminal(self) -> str:
        """Return what reads on both grounds."""
        return self.light


BUSY: Final = Color("#5b7fa6", "#7f9fc4")
OTHER: Final = Color("#9a9a9a", "#808080")

COLORS: Final[Mapping[str, Color]] = {
    "waiting for data": Color("#d55e00", "#e8792b"),
    "checkpoint": Color("#8c6bb1", "#a78bd0"),
    "evaluation": Color("#b39bc8", "#c7b3dc"),
    "logging": Color("#7a6a53", "#a08e74"),
    "blocking reads": Color("#c2185b", "#e0568c"),
    "memory allocation": Color("#a6761d", "#c79a45"),
    "preparing copies": Color("#e6ab02", "#f0c23c"),
    "garbage collection": Color("#6b8e23", "#8fb03f"),
    "compilation": Color("#1b7f7a", "#3aa39d"),
    "host dispatch": Color("#e7a33e", "#f2bb66"),
    "launch latency": Color("#f0d264", "#f5df8b"),
    "between kernels": Color("#c9b458", "#d9c97c"),
    "waiting for peers": Color("#0072b2", "#3d9bd1"),
    "stalled queue": Color("#5c4b7d", "#8573a8"),
    "unknown": Color("#9a9a9a", "#808080"),
}

GROUP_OF: Final[Mapping[str, str]] = {cause: label for label, causes in GROUPS.items() for cause in causes}


def slug(label: str) -> str:
    """Return a label as it stands in the name of a CSS class: "waiting-for-data"."""
    return label.replace(" ", "-")
