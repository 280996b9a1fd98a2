"""What to paste once it is known which cell to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell
from whyidle.sweep.parameters import parse
from whyidle.sweep.take import proof, take

COMMAND = ("python3", "train.py", "--lr", "1")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lr", "2", "python3 train.py --lr 2"),
        ("env:OMP_NUM_THREADS", "2", "OMP_NUM_THREADS=2 python3 train.py --lr 1"),
        ("num_workers", "4", "DataLoader(..., num_workers=4)"),
        ("loader:pin_memory", "on", "DataLoader(..., pin_memory=True)"),
        ("loader:multiprocessing_context", "spawn", "DataLoader(..., multiprocessing_context='spawn')"),
        ("torch:tf32", "on", "whyidle run --set torch:tf32=on -- python3 train.py --lr 1"),
    ],
)
def test_a_line_for_each_kind(name: str, value: str, text: str, tmp_path: Path) -> None:
    parameters = parse([f"{name}={value}"], COMMAND, tmp_path)
    assert take(parameters, {name: value}, COMMAND) == text


def test_the_first_cell_beside_the_one_to_take() -> None:
    def cell(value: str, status: str = "ok") -> Cell:
        known = Interval(9.0, 10.0, 11.0) if status == "ok" else None
        return Cell({"x": value}, status, folder=f"cell-0{value}-x={value}", throughput=known)  # type: ignore[arg-type]

    cells = [cell("1", "failed"), cell("2"), cell("3")]
    assert proof(Path("a b"), cells, {"x": "3"}) == "whyidle compare 'a b/cell-02-x=2' 'a b/cell-03-x=3'"
    assert proof(Path("out"), cells, {"x": "2"}) == "whyidle compare out/cell-03-x=3 out/cell-02-x=2"
    assert proof(Path("out"), cells[:2], {"x": "2"}) == ""
