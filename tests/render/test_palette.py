"""Colours that meet are told apart by every reader, and stand out from their ground.

How people with one kind of cone missing see a colour: Machado, Oliveira and Fernandes, "A Physiologically-based Model
for Simulation of Color Vision Deficiency", IEEE TVCG 15(6), 2009, matrices of severity 1.0, on linear RGB. How far two
colours are apart: CIEDE2000 (Sharma, Wu and Dalal, Color Research and Application 30(1), 2005, of whose test data three
pairs are below); 1 is just noticeable for patches side by side. Contrast: WCAG 2.2, 1.4.11 asks for 3:1.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from whyidle.model.finding import GROUPS
from whyidle.render.bars import MEANINGS
from whyidle.render.palette import BUSY, COLORS, DARK, GROUP_OF, LIGHT, OTHER, slug, style, styles

Vector = NDArray[np.float64]

FREQUENT: Final = (
    "waiting for data", "host dispatch", "blocking reads", "launch latency", "between kernels", "waiting for peers",
    "checkpoint", "compilation",
)  # fmt: skip
APART: Final = 9.5  # CIEDE2000, of any two that often meet
ALIKE: Final = 6.0  # of any two at all
CONTRAST: Final = 3.0

SEEN_BY: Final = {
    "everybody": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
THEMES: Final = ("light", "dark", "terminal")
GROUNDS: Final = [("light", LIGHT), ("dark", DARK), ("terminal", "#ffffff"), ("terminal", "#000000")]


def linear(color: str) -> Vector:
    """Return red, green and blue of a hex colour as light, 0-1."""
    parts = np.array([int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: Vector) -> Vector:
    """Return CIE L*, a* and b* (D65) of linear RGB."""
    xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    ) @ np.clip(light, 0, 1)
    ratio = xyz / np.array([0.95047, 1.0, 1.08883])
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one: Vector, other: Vector) -> float:
    """Return how far apart two colours in L*a*b* are, by CIEDE2000; names as in the paper."""
    mean_c = (np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2
    g = 1.5 - 0.5 * np.sqrt(mean_c**7 / (mean_c**7 + 25.0**7))
    c1, c2 = np.hypot(one[1] * g, one[2]), np.hypot(other[1] * g, other[2])
    h1, h2 = (np.degrees(np.arctan2(color[2], color[1] * g)) % 360 for color in (one, other))
    turn = (h2 - h1 + 180) % 360 - 180
    light, chroma, hue = (one[0] + other[0]) / 2, (c1 + c2) / 2, (h1 + turn / 2) % 360
    waves = ((1, -30, -0.17), (2, 0, 0.24), (3, 6, 0.32), (4, -63, -0.20))
    t = 1 + sum(weight * np.cos(np.radians(times * hue + shift)) for times, shift, weight in waves)
    of_light = (other[0] - one[0]) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    of_chroma = (c2 - c1) / (1 + 0.045 * chroma)
    of_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    bend = np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2))))
    turned = -2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * bend
    return float(np.sqrt(of_light**2 + of_chroma**2 + of_hue**2 + turned * of_chroma * of_hue))


def luminance(color: str) -> float:
    return float(linear(color) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio of two hex colours."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def least(pairs: list[tuple[str, str]], theme: str, eyes: str) -> tuple[float, tuple[str, str]]:
    """Return how far apart the two are that look most alike, and which they are."""
    seen = {
        label: lab(SEEN_BY[eyes] @ linear(getattr(color, theme))) for label, color in {**COLORS, "busy": BUSY}.items()
    }
    return min((apart(seen[one], seen[other]), (one, other)) for one, other in pairs)


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", THEMES)
def test_frequent_groups_are_told_apart(theme: str, eyes: str) -> None:
    found, which = least(list(combinations(("busy", *FREQUENT, "unknown"), 2)), theme, eyes)
    assert found >= APART, which


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", THEMES)
def test_neighbours_in_the_order_of_groups_are_told_apart(theme: str, eyes: str) -> None:
    found, which = least([*pairwise(GROUPS), ("busy", next(iter(GROUPS)))], theme, eyes)
    assert found >= APART, which


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_look_alike(theme: str, eyes: str) -> None:
    found, which = least(list(combinations(("busy", *GROUPS), 2)), theme, eyes)
    assert found >= ALIKE, which


@pytest.mark.parametrize(("theme", "ground"), GROUNDS)
def test_every_colour_stands_out_from_its_ground(theme: str, ground: str) -> None:
    for label, color in {**COLORS, "busy": BUSY, "other": OTHER}.items():
        assert contrast(getattr(color, theme), ground) >= CONTRAST, label


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", THEMES)
def test_what_is_no_group_is_a_grey_of_its_own(theme: str, eyes: str) -> None:
    every = {**COLORS, "busy": BUSY}
    seen = {label: lab(SEEN_BY[eyes] @ linear(getattr(color, theme))) for label, color in every.items()}
    other = lab(SEEN_BY[eyes] @ linear(getattr(OTHER, theme)))
    assert min((apart(other, color), label) for label, color in seen.items()) >= (ALIKE, "")
    assert min(apart(other, seen[label]) for label in ("busy", "unknown")) >= 8


def test_busy_is_calmer_than_what_is_often_idle_and_the_unknown_is_grey() -> None:
    for theme in THEMES:
        chroma = {
            label: float(np.hypot(*lab(linear(getattr(color, theme)))[1:]))
            for label, color in {**COLORS, "busy": BUSY}.items()
        }
        assert all(chroma["busy"] < chroma[label] for label in FREQUENT)
        assert chroma["unknown"] < 3


def test_every_group_has_a_colour_and_every_cause_a_group() -> None:
    assert list(COLORS) == list(GROUPS) == list(MEANINGS)
    assert set(GROUP_OF) == {cause for causes in GROUPS.values() for cause in causes}
    assert len({slug(label) for label in GROUPS}) == len(GROUPS)


def test_a_terminal_has_the_colours_of_the_page_where_it_can_show_them() -> None:
    ours, theirs = styles("truecolor"), styles("standard")
    assert ours[style("waiting for data")] == COLORS["waiting for data"].terminal
    assert ours[style("other")] == ours[style("a cause of tomorrow")] == OTHER.terminal
    assert {theirs[style(label)] for label in GROUPS} == {"red"}
    assert theirs["busy"] == "green"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.4900, -0.0010), (50.0, -2.4900, 0.0011), 7.2195),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_colours_are_as_far_apart_as_the_paper_says(
    one: tuple[float, float, float], other: tuple[float, float, float], expected: float
) -> None:
    assert apart(np.array(one), np.array(other)) == pytest.approx(expected, abs=1e-4)
