"""`whyidle diagnose`: the verdict."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from whyidle import cost, diagnosis
from whyidle.cli._destination import destination, format_of
from whyidle.cli._loading import loading
from whyidle.cli._numbers import Gpus, Hours, NoPredict, Price, priced
from whyidle.errors import WhyIdleError
from whyidle.fetch.base import shown
from whyidle.model.finding import Report, RunInfo, Summary
from whyidle.render import renderer
from whyidle.render.words import clean

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files, folders or addresses with the evidence of one run.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="terminal, html, markdown, json, sarif, github, gitlab or junit; by -o's suffix, else terminal.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
WhatIf = Annotated[
    list[str] | None,
    typer.Option("--what-if", metavar="RULE[,RULE...]", help="Say what the fixes of these findings bring together."),
]
Everything = Annotated[
    bool, typer.Option("--all", "-v", help="All findings in full, and the tables behind the numbers.")
]
SourceCode = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="PATH", help="The code that ran: its lines are named, and what can stall weighed."
    ),
]


def diagnose(
    paths: Paths,
    format: Format = None,  # noqa: A002
    output: Output = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file.")] = False,
    price: Price = None,
    gpus: Gpus = None,
    hours: Hours = None,
    what_if: WhatIf = None,
    no_predict: NoPredict = False,
    source: SourceCode = None,
    everything: Everything = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 even when there are findings.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Say why the GPU was idle in a recorded run.

    Reads Kineto traces (torch.profiler, .json or .json.gz), the folders that `whyidle run` writes, of jobs that have
    ended or still run, and folders of them; several ranks of one job are judged together. And what you already have:
    curves of nvidia-smi, DCGM, Prometheus or CloudWatch, CSVs with a time and a utilization, trainers' logs. Alone they
    say how much the GPU idles and what that may be; beside a trace or a run they make one verdict. Files that it does
    not know are listed, not errors.

    For example:

        whyidle diagnose runs/resnet50/
        whyidle diagnose rank*.json.gz --price 2.60 --gpus 8 --hours 24
        whyidle diagnose trace.json -o report.json
        whyidle diagnose whyidle-runs/LATEST gpu.txt train.log
        whyidle diagnose whyidle-runs/LATEST --source train.py
        whyidle diagnose trace.json --what-if input.workers_zero,sync.scalar_read
        whyidle diagnose 'sagemaker://my-training-job?region=us-east-1'
        whyidle diagnose 'prometheus+http://localhost:9090/?match={Hostname="node7"}&start=-3h'

    To record your job: whyidle demo --record

    Exit code: 0 judged, no finding of 5% of the time or more; 1 there is one; 2 could not judge, the recording
    does not show what to change, or wrong usage.
    """
    chosen = format_of(output, format)
    renders = renderer(chosen)
    cost.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours)
    asked = diagnosis.rules_in(what_if or ())
    diagnosis.check(predict=not no_predict, what_if=asked)
    usd, whose = priced(price)
    judge = partial(diagnosis.diagnose, paths, price=usd, price_source=whose, gpus=gpus, hours=hours, what_if=asked)
    with destination(output, force=force, color=not no_color, everything=everything) as out:
        try:
            with loading() as progress:
                report = judge(predict=not no_predict, source=source, picture=renders.draws, progress=progress)
        except WhyIdleError as error:
            # A program that reads standard output gets its report all the same, but for a name that no rule has.
            if chosen != "terminal" and output is None and not diagnosis.unheard_of(asked):
                out.write(renders.render(_nothing(error), out.look))
            raise
        _warn_of_unread(report, paths)
        out.write(renders.render(report, out.look))
    if output is not None:
        _say_where(report, output, chosen if format is None and chosen != "terminal" else "")
    return 0 if exit_zero and report.exit_code == 1 else report.exit_code


def _say_where(report: Report, output: Path, kind: str) -> None:
    """Say the verdict, and where the report is; `kind` is its format where nobody asked for it."""
    written = f"{clean(str(output))} ({kind})" if kind else clean(str(output))
    sys.stderr.write(f"{clean(report.summary.verdict)} Report: {written}\n".lstrip())


def _nothing(error: WhyIdleError) -> Report:
    """Return a report that says that nothing could be judged."""
    return Report(RunInfo(), Summary(f"Cannot judge: {error.message}"), judged=False)


def _warn_of_unread(report: Report, paths: list[str]) -> None:
    """Say of each path that was named, before the report, if it could not be read."""
    named = {name for path in paths for name in (str(Path(path)), shown(path))}
    for file in report.run.ignored:
        said = f"{file.path}: {file.why}"
        if file.path in named and said in report.warnings:
            sys.stderr.write(f"whyidle: warning: {clean(said)}\n")
