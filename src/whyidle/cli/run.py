"""`whyidle run`: an unmodified job measured, then the verdict."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from whyidle.cli._destination import check_folder
from whyidle.cli._numbers import Gpus, Hours, NoPredict, Price, priced
from whyidle.errors import WhyIdleError
from whyidle.launch.looks import Looks
from whyidle.launch.settings import parse

LEAST_INTERVAL_S = 0.2
LONGEST_INTERVAL_S = 60.0  # what is rarer misses the pauses that it is for

# From the first word of the command on, everything is the command's.
CONTEXT = {"allow_interspersed_args": False}

Command = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The job, as it is started without whyidle.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Where the evidence goes; else whyidle-runs/NAME-DATE-TIME."),
]
ReportTo = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file, too.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", "-f", help="Of --report: terminal, html, markdown, json or sarif; by FILE's suffix, else terminal."
    ),
]
NoTrace = Annotated[bool, typer.Option("--no-trace", help="Do not record a few steps with torch.profiler.")]
Steps = Annotated[int, typer.Option("--trace-steps", metavar="N", help="Steps that torch.profiler records.")]
After = Annotated[int, typer.Option("--trace-after", metavar="N", help="Steps before it begins.")]
Ranks = Annotated[str, typer.Option("--trace-ranks", metavar="0|all", help="Which ranks it records.")]
NoSyncs = Annotated[bool, typer.Option("--no-syncs", help="Do not look for the lines that wait for the GPU.")]
Workers = Annotated[bool, typer.Option("--workers", help="Look at what the DataLoader's workers do.")]
Losses = Annotated[bool, typer.Option("--losses", help="Record the loss of each step, for `whyidle compare`.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Run the job with this, whatever its script says; repeatable."),
]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", help="Between two samples of the counters, 0.2 at least.")
]
Metrics = Annotated[bool, typer.Option("--emit-metrics", help="Write step time and throughput to stderr every 10 s.")]
NoVerdict = Annotated[bool, typer.Option("--no-verdict", help="Record only; `whyidle DIR` judges it later.")]
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
    no_trace: NoTrace = False,
    trace_steps: Steps = 6,
    trace_after: After = 20,
    trace_ranks: Ranks = "0",
    no_syncs: NoSyncs = False,
    workers: Workers = False,
    losses: Losses = False,
    set: Set = None,  # noqa: A002
    interval: Interval = 1.0,
    emit_metrics: Metrics = False,
    metrics_file: MetricsTo = None,
    price: Price = None,
    gpus: Gpus = None,
    hours: Hours = None,
    no_predict: NoPredict = False,
    no_verdict: NoVerdict = False,
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
        whyidle run --workers --report today.html -o runs/today -- bash train.sh
        whyidle run --set loader:num_workers=8 --set torch:tf32=on -- python a.py

    --set changes arguments of DataLoaders (loader:num_workers, batch_size, prefetch_factor, pin_memory …) and
    switches of PyTorch (torch:compile, tf32, matmul_precision …) without a change of the script.

    --emit-metrics writes lines that trainers and clouds can search:

        step_time_sec=0.123400; data_wait_frac=0.4100; samples_per_sec=520.30;

    Exit code: the job's own. 2 when it was not started since the options are wrong, 126 or 127 when it cannot be.
    """
    if sys.platform != "linux":
        raise WhyIdleError("`whyidle run` measures jobs on Linux only", "to record one here: whyidle demo --record")
    _check(output, report, format, trace_steps, trace_after, trace_ranks, interval, no_verdict)
    syncs = 0 if no_syncs else 3
    looks = Looks(not no_trace, trace_steps, trace_after, trace_ranks, syncs, workers, losses, parse(set or ()))
    usd, whose = priced(price)
    judging = {"price": usd, "price_source": whose, "gpus": gpus, "hours": hours, "predict": not no_predict}
    show = Show(report, format, force, quiet, judging, not no_color, not no_verdict)
    asked = Asked(command, output, looks, interval, emit_metrics or metrics_file is not None, metrics_file, show)
    with importlib.import_module("whyidle.launch.process").Mask() as mask:
        code: int = importlib.import_module("whyidle.cli._watching").watch(asked, mask)
    return code


@dataclass(frozen=True, slots=True)
class Show:
    """What shall be shown of a run when it is over."""

    report: Path | None
    format: str | None
    force: bool
    quiet: bool
    judging: Mapping[str, Any]  # as `diagnosis.diagnose` takes it
    color: bool
    verdict: bool  # or only the recording


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    command: list[str]
    output: Path | None
    looks: Looks
    interval_s: float
    metrics: bool
    metrics_file: Path | None
    show: Show


def _check(
    output: Path | None,
    report: Path | None,
    format: str | None,  # noqa: A002
    steps: int,
    after: int,
    ranks: str,
    interval_s: float,
    no_verdict: bool,
) -> None:
    check_folder(output)
    if no_verdict and report is not None:
        raise WhyIdleError("--no-verdict gives no report", "leave out --report, or --no-verdict")
    if format is not None and report is None:
        raise WhyIdleError("--format is the format of --report FILE", "DIR/report.json holds the report as JSON anyway")
    if steps < 1 or after < 1:
        raise WhyIdleError("torch.profiler records 1 step or more, after 1 or more", "--no-trace records none")
    if ranks not in {"0", "all"}:
        raise WhyIdleError(f"--trace-ranks is 0 or all, not {ranks!r}", "--trace-ranks all")
    if not LEAST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        allowed = f"{LEAST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:g}"
        raise WhyIdleError(f"--interval is {allowed} seconds, not {interval_s:g}", "--interval 1")
