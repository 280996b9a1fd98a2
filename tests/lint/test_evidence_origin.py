"""A recording settles a line only where it shows that it is of this code, as it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lint.suspicions import (
    BRANCH,
    FIRST,
    ITEM,
    ITEM_FRAME,
    READ,
    TRAIN,
    UPLOAD,
    WORKERS,
    by_hand,
    commanded,
    finding,
    log,
    source,
    steps,
    told,
)
from whyidle.lint.parsing import parsed
from whyidle.lint.source import Source
from whyidle.model.evidence import LoaderSettings, Run
from whyidle.model.finding import Location
from whyidle.proof.files import Files, murmur, short
from whyidle.read import load

KNOWN = [3990065800, 2167009006, 3773950048]  # by the reference algorithm, with the seed of ipykernel
NOT_THIS = "this recording does not show that it is of this code"


class TestWhoseRecording:
    """Frames, places and commands name the files that ran."""

    @pytest.mark.parametrize(
        "command",
        [
            ("python", "-u", "/srv/me/job/train.py", "--epochs", "3"),
            ("torchrun", "--nproc-per-node", "8", "train.py"),
            ("python", "-m", "torch.distributed.run", "train.py"),
            ("python", "-m", "job.train"),
        ],
    )
    def test_a_command_names_its_script(self, command: tuple[str, ...]) -> None:
        (found,) = told(commanded(calm(), *command), READ)
        assert found.evidence == "cleared"

    @pytest.mark.parametrize(
        "command", [("python", "evaluate.py", "train.py"), ("python", "-m", "lib.train"), ("./run",)]
    )
    def test_of_another_program_nothing_is_settled(self, command: tuple[str, ...]) -> None:
        run = commanded(calm(), *command)
        run = replace(run, logs=(log(),))
        for found in told(run, READ, WORKERS, finding("compute.cudnn_autotune", ITEM)):
            assert (found.evidence, found.severity, found.seen) == ("source", "medium", NOT_THIS)

    def test_of_two_files_of_one_name_the_nearer_path_is_meant_and_none_where_both_are_as_near(self) -> None:
        job, old = source(name="job/train.py"), source(name="old/train.py", path="/srv/me/old/train.py")
        reads = [replace(READ, locations=(replace(READ.locations[0], file=one.name),)) for one in (job, old)]
        assert {one.seen for one in told(by_hand(ITEM_FRAME), *reads, sources=(job, old))} == {NOT_THIS}
        trace = steps(frames=(ITEM_FRAME,))
        trace.host = [(*row[:3], row[3].replace("train.py(", "old/train.py("), *row[4:]) for row in trace.host]
        mine, other = told(Run((trace.trace(),)), *reads, sources=(job, old))
        assert (mine.evidence, other.evidence) == ("source", "confirmed")

    def test_a_file_that_was_edited_since_is_said_to_be(self) -> None:
        moved = "\n" * 20 + TRAIN
        read = replace(READ, locations=(Location("train.py", ITEM + 20, 5),))
        (found,) = told(by_hand(ITEM_FRAME), read, sources=(source(moved),))
        assert found.evidence == "source"
        assert found.seen == f"train.py is not what ran: `train_one_step` was at line {FIRST} of it"


def calm() -> Run:
    """Steps without frames that lose nothing."""
    trace = steps(gap=6)
    trace.host = [row for row in trace.host if ".py(" not in row[3]]
    return Run((trace.trace(),))


class TestWhatRan:
    """What did not run in the recorded steps is not cleared by them."""

    def test_a_function_that_ran_beside_the_steps(self) -> None:
        trace = steps(frames=(ITEM_FRAME,))
        trace.python("train.py(44): evaluate", 9000, 9100).python(ITEM_FRAME, 9010, 9020)
        (found,) = told(Run((trace.trace(),)), finding("sync.scalar_read", 45))
        assert found.evidence == "source"

    @pytest.mark.parametrize("around", ["if often(step):", "if rare:\n        return\n    if True:"])
    def test_a_line_that_its_function_may_pass_over(self, around: str) -> None:
        text = "\n" * (FIRST - 1) + f"def train_one_step(step, loss):\n    {around}\n        assert loss < 100\n"
        line = text.count("\n")
        suspicion = replace(BRANCH, locations=(Location("train.py", line, 9),))
        (found,) = told(by_hand(ITEM_FRAME, gap=6), suspicion, sources=(source(text),))
        assert found.evidence == "source"

    def test_two_steps_clear_nothing(self) -> None:
        (found,) = told(Run((steps(frames=(ITEM_FRAME,), gap=6, count=2).trace(),)), READ)
        assert found.evidence == "source"
        assert found.seen.endswith("fewer than 3 steps were recorded, which settles nothing")

    def test_a_rank_that_alone_waits_is_no_mean_of_all(self) -> None:
        """20% of one rank in 16 is 1.3% of all, but the others wait for it."""
        ranks = [steps(frames=(ITEM_FRAME,)).trace(rank=0)]
        ranks += [steps(frames=(ITEM_FRAME,), gap=6).trace(rank=rank) for rank in range(1, 16)]
        (found,) = told(Run(tuple(ranks)), READ)
        assert found.evidence == "confirmed"
        assert "on the rank that loses most" in found.seen

    def test_a_line_that_builds_several_loaders_is_cleared_where_all_are_well(self) -> None:
        def run(*workers: int) -> Run:
            where = WORKERS.locations[0]
            seen = [LoaderSettings(i, f"train.py:{where.line}", num_workers=n) for i, n in enumerate(workers)]
            return Run(logs=(log(loaders=tuple(seen)),))

        assert told(run(8, 4), WORKERS)[0].evidence == "cleared"
        assert told(run(8, 0), WORKERS)[0].evidence != "cleared"


def test_one_cause_in_two_places_is_counted_once(corpus: Path) -> None:
    """Batches that are not pinned cost where they are copied; the loader is where that is mended."""
    name = "resnet50_profiler_api.py"  # of 2021, with call stacks: its copies are at line 44
    lines = {
        22: "loader = DataLoader(data)",
        42: "for batch in loader:",
        44: "    x, y = batch[0].to(gpu), batch[1].to(gpu)",
    }
    text = "".join(f"{lines.get(number, '')}\n" for number in range(1, 46))
    copy, loader = (replace(UPLOAD, locations=(Location(name, line, 5),)) for line in (44, 22))
    run = load([corpus / "kineto" / "resnet50_num_workers_4"])
    copy, loader = told(run, copy, loader, sources=(source(text, name, f"/srv/me/{name}"),))
    assert (copy.evidence, loader.evidence) == ("confirmed", "confirmed")
    assert copy.lost_share is not None
    assert copy.lost_per_step_s is not None
    assert (loader.lost_share, loader.lost_per_step_s, loader.severity) == (None, None, copy.severity)
    assert loader.seen == f"the loss is that of {name}:44, where it is counted"


class TestNotebooks:
    """IPython names a cell by what it holds: that is as sure as a name can be."""

    CELL = TRAIN.strip("\n").partition("\n\n\nloader")[0]

    def notebook(self) -> Source:
        cells = [{"cell_type": "code", "source": code} for code in ("import torch\n%matplotlib inline", self.CELL)]
        made = parsed(json.dumps({"cells": cells, "nbformat": 4}).encode(), Path("/srv/me/train.ipynb"), "train.ipynb")
        assert isinstance(made, Source)
        return made

    def test_the_hash_of_ipykernel(self) -> None:
        assert [murmur(data) for data in (b"", b"a", b"print(1)")] == KNOWN

    def test_a_cell_that_ran_is_met(self) -> None:
        book = self.notebook()
        for file in (f"/run/ipykernel_4711/{murmur(self.CELL.encode())}.py", f"<ipython-input-3-{short(self.CELL)}>"):
            assert Files([book]).place(file, 6) == ("train.ipynb", 8)
            trace = steps(frames=(ITEM_FRAME,))
            here = f"{file}(1): train_one_step"
            trace.host = [(*row[:3], here if ".py(" in row[3] else row[3], *row[4:]) for row in trace.host]
            read = replace(READ, locations=(Location("train.ipynb", 8, 5),))
            assert told(Run((trace.trace(),)), read, sources=(book,))[0].evidence == "confirmed"

    def test_a_cell_that_was_edited_since_is_another(self) -> None:
        assert Files([self.notebook()]).place("/run/ipykernel_4711/12345.py", 6) is None
