"""`whyidle sweep`: one job per value of a setting, and the value to take."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from whyidle.cli import _numbers as numbers
from whyidle.cli._numbers import Price
from whyidle.errors import WhyIdleError
from whyidle.sweep.budget import Budget

# From the first word of the command on, everything is the command's.
CONTEXT = {"allow_interspersed_args": False}

Command = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND...", help="The job, as it is started without whyidle.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=V1,V2", help="What to vary, and its values; repeatable."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Where the cells go; else whyidle-sweeps/NAME-DATE-TIME."),
]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="DIR", help="Go on with the sweep in this folder.")]
Strategy = Annotated[
    str | None,
    typer.Option("--strategy", metavar="NAME", help="grid, or a search with few cells: workers, batch; else grid."),
]
Repeats = Annotated[int, typer.Option("--repeats", metavar="N", help="Times that each cell is run, in turns.")]
Settle = Annotated[
    float | None,
    typer.Option(
        "--settle",
        parser=numbers.share,
        metavar="SHARE",
        help="End a cell when its mean step is known to this; else 2%.",
    ),
]
MinSteps = Annotated[
    int | None, typer.Option("--min-steps", metavar="N", help="Steps that a cell makes before that; else 50.")
]
CellTime = Annotated[
    float | None,
    typer.Option(
        "--cell-time", parser=numbers.seconds, metavar="TIME", help="End a cell after this at the latest; else 10m."
    ),
]
CellSteps = Annotated[int | None, typer.Option("--cell-steps", metavar="N", help="End a cell after so many steps.")]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", parser=numbers.usd, metavar="USD", help="What all cells may cost.")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", parser=numbers.seconds, metavar="TIME", help="How long all cells may take.")
]
MaxCells = Annotated[int | None, typer.Option("--max-cells", metavar="N", help="How many jobs may be run.")]
Gpus = Annotated[
    str | None,
    typer.Option("--gpus", metavar="0,1", help="Run a cell on each of these GPUs at a time; else one at all."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List the cells, their commands and what they can cost; run none.")
]
ReportTo = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file, too.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", "-f", metavar="NAME", help="terminal, json, markdown or html; else as --report is called."
    ),
]


def sweep(
    command: Command = None,
    param: Parameters = None,
    output: Output = None,
    resume: Resume = None,
    strategy: Strategy = None,
    repeats: Repeats = 1,
    settle: Settle = None,
    min_steps: MinSteps = None,
    cell_time: CellTime = None,
    cell_steps: CellSteps = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    max_cells: MaxCells = None,
    price: Price = None,
    gpus: Gpus = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    report: ReportTo = None,
    format: Format = None,  # noqa: A002
    force: Annotated[bool, typer.Option("--force", help="Let --report replace a file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No line per cell.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Try a job with several values of a setting, and say which one to take.

    Each combination of values is a cell: the job is run with them, measured as by `whyidle run`, and ended as soon as
    its step time is known. A cell that fails or runs out of memory is a result. What is recommended is the cheapest
    cell that is as fast as the fastest.

    For example:

        whyidle sweep -p num_workers=0,4,8 -- python train.py
        whyidle sweep -p num_workers -- python train.py
        whyidle sweep -p num_workers=2,4 -p batch_size=32,64 -- python train.py
        whyidle sweep -p lr=1e-3,1e-2 --dry-run -- python train.py --lr {lr}
        whyidle sweep -p batch_size=16,32 --repeats 3 -- python train.py
        whyidle sweep --resume whyidle-sweeps/train-20260101-120000 --report sweep.html

    -p num_workers or -p batch_size without values, as --strategy workers or batch, looks for the best value in few
    cells. A value reaches the job as an option, --num-workers 4, or where {num_workers} stands in the command. Cells
    run in the current folder, where one finds the files of the last, checkpoints too; each has a folder of its own in
    $WHYIDLE_CELL. Ctrl-C ends the cell that runs, with all its processes; the cells that are done are kept, and
    --resume goes on.

    Exit code: 0 something was measured; 2 no cell gave a number, or wrong usage; 130 at Ctrl-C.
    """
    if sys.platform != "linux":
        raise WhyIdleError("`whyidle sweep` runs and measures jobs on Linux only", "whyidle demo shows a verdict here")
    limits = {"settle_share": settle, "min_steps": min_steps, "cell_time_s": cell_time, "cell_steps": cell_steps}
    asked = Asked(
        tuple(command or ()), tuple(param or ()), output, resume, strategy, repeats,
        {name: value for name, value in limits.items() if value is not None},
        None if gpus is None else tuple(gpu.strip() for gpu in gpus.split(",")),
        Budget(max_cost, timeout, max_cells), price, yes, dry_run,
        Show(report, format, force, quiet, not no_color),
    )  # fmt: skip
    code: int = importlib.import_module("whyidle.cli._sweeping").sweep(asked)
    return code


@dataclass(frozen=True, slots=True)
class Show:
    """How to say what came of it."""

    report: Path | None
    format: str | None
    force: bool
    quiet: bool
    color: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    command: tuple[str, ...]
    parameters: tuple[str, ...]
    output: Path | None
    resume: Path | None
    strategy: str | None
    repeats: int
    limits: dict[str, float | int]  # fields of `sweep.plan.Limits` that were given
    gpus: tuple[str, ...] | None
    budget: Budget
    price: float | None
    yes: bool
    dry_run: bool
    show: Show
