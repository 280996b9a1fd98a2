"""What a renderer is: a report in, the text of one format out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from whyidle.model.finding import Report

SCREEN = 36  # lines: a screen has 40, and the rest is room for the command and the prompt


# What a terminal can show: its own 16 colors, of which nobody knows how they look; or any, exactly or nearly.
Colors: TypeAlias = Literal["standard", "256", "truecolor"]


@dataclass(frozen=True, slots=True)
class Look:
    """How a report should look; a format takes from it what it has a use for."""

    width: int = 100  # columns
    color: bool = False
    unicode: bool = True  # False: draw with ASCII
    everything: bool = False  # all findings in full, and the tables behind the numbers
    spaced: bool = False  # with an empty line before and after, as suits a screen
    lines: int = SCREEN  # that a report on a screen takes at most
    colors: Colors = "standard"  # of which it may use some, if `color`


class Renderer(ABC):
    """Writes a report in one format. One subclass, one file."""

    format: ClassVar[str]  # what `--format` calls it
    draws: ClassVar[bool] = False  # Report.picture: who diagnoses for it asks for one

    @abstractmethod
    def render(self, report: Report, look: Look) -> str:
        """Return the report, ending with a line break."""
