"""Lines of a chart can be told apart by everybody: on both grounds, with and without red or green."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

CSS = Path(__file__).parents[3] / "web" / "src" / "charts" / "charts.css"
GROUNDS = {"light": "#ffffff", "dark": "#14171c"}
# Machado, Oliveira, Fernandes 2009: what is left of linear RGB without one kind of cone.
WITHOUT = {
    "all": np.eye(3),
    "red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
APART = 10.0  # CIE76 distance in Lab; dashes tell lines apart as well
CONTRAST = 3.0  # WCAG 1.4.11, of a line to its ground


def linear(color: str) -> np.ndarray:
    rgb = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ rgb.clip(0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def luminance(color: str) -> float:
    return float(linear(color) @ np.array([0.2126, 0.7152, 0.0722]))


def lines(theme: str) -> dict[str, str]:
    blocks = re.findall(r"--line-1:.*", CSS.read_text("utf-8"))
    return dict(re.findall(r"--line-(\w+): (#\w{6})", blocks[0 if theme == "light" else 1]))


@pytest.mark.parametrize("theme", GROUNDS)
@pytest.mark.parametrize("missing", WITHOUT)
def test_lines_differ_for_every_eye(theme: str, missing: str) -> None:
    seen = {role: lab(WITHOUT[missing] @ linear(color)) for role, color in lines(theme).items()}
    near = {
        (one, other): round(distance, 1)
        for one, other in combinations(seen, 2)
        if (distance := float(np.linalg.norm(seen[one] - seen[other]))) < APART
    }
    assert not near


@pytest.mark.parametrize("theme", GROUNDS)
def test_lines_that_stand_out_are_seen_on_their_ground(theme: str) -> None:
    ground = luminance(GROUNDS[theme])
    for role, color in lines(theme).items():
        bright, dim = sorted((luminance(color), ground), reverse=True)
        if role != "muted":
            assert (bright + 0.05) / (dim + 0.05) >= CONTRAST, role
