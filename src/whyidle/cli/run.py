"""`whyidle run`: an unmodified job measured, then the verdict."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from whyidle import cost
from whyidle.cli.diagnose import Gpus, Hours, Price
from whyidle.errors import WhyIdleError
from whyidle.launch.looks import Looks
from whyidle.render import renderer

LEAST_INTERVAL_S = 0.2
LONGEST_INTERVAL_S = 60.0  # a ring holds some minutes of the fastest loops

# From the first word of the command on, everything is the command's.
CONTEXT = {"allow_interspersed_args": False}

Command = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The job, as it is started without whyidle.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Where the evidence goes; else whyidle-runs/NAME-DATE-TIME."),
]
ReportTo = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file, too.")]
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="Of --report: terminal or json; json for FILE.json.")
]
Steps = Annotated[int, typer.Option("--trace-steps", metavar="N", help="Steps that torch.profiler records.")]
After = Annotated[int, typer.Option("--trace-after", metavar="N", help="Steps before it begins.")]
Ranks = Annotated[str, typer.Option("--trace-ranks", metavar="0|all", help="Which ranks it records.")]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", help="Between two samples of the counters, 0.2 at least.")
]
MetricsTo = Annotated[
    Path | None, typer.Option("--metrics-file", metavar="FILE", help="Append these lines to a file instead.")
]


def run(
    command: Command,
    output: Output = None,
    report: ReportTo = None,
    format: Format = None,  # noqa: A002
    force: Annotated[bool, typer.Option("--force", help="Let --report replace a file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing, but for what went wrong.")] = False,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", help="Do not record a few steps with torch.profiler.")
    ] = False,
    trace_steps: Steps = 6,
    trace_after: After = 20,
    trace_ranks: Ranks = "0",
    no_syncs: Annotated[
        bool, typer.Option("--no-syncs", help="Do not look for the lines that wait for the GPU.")
    ] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="Look into the DataLoader's workers, 50 times a second.")
    ] = False,
    interval: Interval = 1.0,
    emit_metrics: Annotated[
        bool, typer.Option("--emit-metrics", help="Lines with step time and throughput on stderr.")
    ] = False,
    metrics_file: MetricsTo = None,
    price: Price = None,
    gpus: Gpus = None,
    hours: Hours = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Measure a job as it is, and say why its GPU is idle.

    Put it in front of the command that trains. The job runs as it would without: its output, signals and exit code
    are the same. The verdict follows on standard error, and DIR keeps the evidence: `whyidle DIR` judges it again.

    For example:

        whyidle run -- python train.py --epochs 1
        whyidle run -- python -m package.train
        whyidle run -- torchrun --nproc-per-node 8 train.py
        whyidle run -- accelerate launch train.py
        whyidle run --workers -o runs/today -- bash train.sh

    --emit-metrics writes a line about every 10 s that trainers and clouds can search:

        step_time_sec=0.123; data_wait_frac=0.410; samples_per_sec=520.3;

    Exit code: the job's own. 2 when the job was not started since the options are wrong; 126 or 127 when the command
    cannot be, as in a shell.
    """
    if sys.platform != "linux":
        raise WhyIdleError("`whyidle run` measures jobs on Linux only", "to record one here: whyidle demo --record")
    renderer(format or "terminal")
    cost.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours)
    _check(report, format, trace_steps, trace_after, trace_ranks, interval)
    looks = Looks(not no_trace, trace_steps, trace_after, trace_ranks, 0 if no_syncs else 3, workers)
    metrics = emit_metrics or metrics_file is not None
    money = {"price": price, "gpus": gpus, "hours": hours}
    asked = Asked(
        command, output, report, format, force, quiet, looks, interval, metrics, metrics_file, money, not no_color
    )
    code: int = importlib.import_module("whyidle.cli._watching").watch(asked)
    return code


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    command: list[str]
    output: Path | None
    report: Path | None
    format: str | None
    force: bool
    quiet: bool
    looks: Looks
    interval_s: float
    metrics: bool
    metrics_file: Path | None
    money: Mapping[str, float | int | None]  # as `diagnosis.diagnose` takes it
    color: bool


def _check(report: Path | None, format: str | None, steps: int, after: int, ranks: str, interval_s: float) -> None:  # noqa: A002
    if format is not None and report is None:
        raise WhyIdleError("--format is the format of --report FILE", "DIR/report.json holds the report as JSON anyway")
    if steps < 1 or after < 1:
        raise WhyIdleError("torch.profiler records 1 step or more, after 1 or more", "--no-trace records none")
    if ranks not in {"0", "all"}:
        raise WhyIdleError(f"--trace-ranks is 0 or all, not {ranks!r}", "--trace-ranks all")
    if not LEAST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        allowed = f"{LEAST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:g}"
        raise WhyIdleError(f"--interval is {allowed} seconds, not {interval_s:g}", "--interval 1")
