"""Lint's scoreboard counts what it says it counts, on files that are made here."""

from __future__ import annotations

import ast
import random
from pathlib import Path

from scoring.lines import Marked, Stall, board
from scoring.projects import write

SCRIPT = """\
import torch

def train(model, loader, optimizer):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
        if step % 100 == 0:
            print(loss.item())
"""


def test_stalls_are_found_and_decoys_are_not(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, "utf-8")
    stalls = (Stall(10, "sync.scalar_read"), Stall(7, "sync.scalar_read", "minor"))
    made = board([Marked("train", path, stalls, (12,), "clean"), Marked("gone", tmp_path / "gone.py", (), ())])
    assert made.missing == ("gone",)
    assert (made.found("provable").hits, made.found("provable", named=True).hits) == (1, 1)
    assert (made.found("minor").hits, made.found("minor").n) == (0, 1)
    assert (made.decoys.hits, made.decoys.n) == (0, 1)
    assert made.clean.hits == 0, "a clean file in which something grave is found is not clean"
    assert made.judged[0].elsewhere == ()


def test_a_made_up_project_parses_and_is_as_long_as_asked(tmp_path: Path) -> None:
    files, lines = write(tmp_path, 20, 4000, random.Random(3))
    texts = [path.read_text("utf-8") for path in sorted((tmp_path / "package").glob("*.py"))]
    assert (len(texts), sum(text.count("\n") for text in texts)) == (files, lines)
    assert 3000 < lines < 6000
    for text in texts:
        ast.parse(text)
    again = tmp_path / "again"
    write(again, 20, 4000, random.Random(3))
    assert [path.read_text("utf-8") for path in sorted((again / "package").glob("*.py"))] == texts
