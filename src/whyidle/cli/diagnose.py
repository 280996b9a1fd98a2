"""`whyidle diagnose`: the verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from whyidle import cost, diagnosis
from whyidle.cli._destination import destination
from whyidle.cli._loading import loading
from whyidle.render import renderer
from whyidle.render.words import clean


def diagnose(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files or folders with the evidence of one run.")],
    format: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file.")] = False,
    price: Annotated[
        float | None,
        typer.Option("--price", metavar="USD", help="What one GPU costs per hour; else its list price, if known."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", help="GPUs that the job rents; else the ranks or GPUs seen.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", metavar="H", help="How long the whole job runs, for its total cost.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-v", help="All findings in full, and the tables behind the numbers.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 even when there are findings.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Say why the GPU was idle in a recorded run.

    Reads Kineto traces (torch.profiler, .json or .json.gz) and folders of them; several ranks of one job are
    judged together. Files that it does not know are listed, not errors.

    For example:

        whyidle diagnose runs/resnet50/
        whyidle diagnose rank*.json.gz --price 2.60 --gpus 8 --hours 24
        whyidle diagnose trace.json --format json -o report.json

    Record a trace with:

        with torch.profiler.profile(
            on_trace_ready=torch.profiler.tensorboard_trace_handler("runs/one")
        ) as prof:
            for batch in loader:
                ...
                prof.step()

    Exit code: 0 judged, nothing at medium or above; 1 findings there; 2 could not judge, or wrong usage.
    """
    renders = renderer(format)
    cost.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours)
    with destination(output, force=force, color=not no_color, everything=everything) as out:
        with loading() as progress:
            report = diagnosis.diagnose(paths, price=price, gpus=gpus, hours=hours, progress=progress)
        out.write(renders.render(report, out.look))
    if output is not None:
        sys.stderr.write(f"{clean(report.summary.verdict)} Report: {clean(str(output))}\n".lstrip())
    return 0 if exit_zero and report.exit_code == 1 else report.exit_code
