"""`whyidle scaling`: how well a job uses more GPUs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from whyidle import cost as costing
from whyidle.cli import _numbers as numbers
from whyidle.cli._destination import destination, format_of
from whyidle.cli._loading import loading
from whyidle.cli._numbers import Price, priced
from whyidle.errors import WhyIdleError
from whyidle.model.scaling import Kind, Scaling
from whyidle.render.words import clean

FORMATS = ("html", "json", "markdown", "terminal")  # of render.scaling
EXAMPLE = "--throughput 1=1000,4=2400"
KINDS: dict[str, Kind] = {"strong": "strong", "weak": "weak"}

ScalingKind = Annotated[
    str | None,
    typer.Option("--kind", help="strong (the same batch in all) or weak (per GPU), where it was not recorded."),
]
GpusOfEach = Annotated[
    str | None, typer.Option("--gpus", metavar="N,N,...", help="GPUs of each run, in order, where it was not recorded.")
]
PrintedPerGpu = Annotated[
    bool, typer.Option("--printed-per-gpu", help="What a trainer printed per second is of each GPU, not of all.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Answer though the runs differ in what makes it worthless, as the GPU.")
]


def scaling(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs of one job on different numbers of GPUs.")
    ] = None,
    throughput: Annotated[
        str | None, typer.Option("--throughput", metavar="N=RATE,...", help="Instead of runs: throughput by GPUs.")
    ] = None,
    unit: Annotated[
        str, typer.Option("--unit", metavar="NAME", help="Of --throughput: samples or tokens, per second.")
    ] = "samples",
    kind: ScalingKind = None,
    gpus: GpusOfEach = None,
    price: Price = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option("--format", "-f", help="terminal, json, markdown or html; else as the file of -o is called."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answer to a file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let -o replace a file.")] = False,
    printed_per_gpu: PrintedPerGpu = False,
    force: Force = False,
) -> int:
    """Say how well a job uses more GPUs, what is lost to what, and what twice as many would do.

    Give it runs of the same job on 1, 2, 4 ... GPUs: folders of `whyidle run`, or traces of all ranks. Each is held
    against the smallest; several on the same number are repeats. Whether that is strong scaling (the same batch in
    all) or weak scaling (the same batch per GPU) the recorded batch sizes say.

    For example:

        whyidle scaling runs/gpus-1 runs/gpus-2 runs/gpus-4 --price 2.60
        whyidle scaling traces-1/ traces-8/ --kind weak -o scaling.html
        whyidle scaling --throughput 1=1000,4=2400 --unit samples

    Exit code: 0 judged; 2 could not judge, or wrong usage.
    """
    chosen = format_of(output, format, FORMATS)
    if chosen not in FORMATS:
        raise WhyIdleError(f"no format is called {chosen!r}", f"formats: {', '.join(sorted(FORMATS))}")
    costing.check(usd_per_gpu_hour=price)
    usd, whose = priced(price)
    if bool(runs) == bool(throughput):
        said = "runs and --throughput both say how fast a job is" if runs else "there is nothing to compare"
        raise WhyIdleError(said, f"whyidle scaling RUN_ON_1 RUN_ON_4, or {EXAMPLE}")
    with destination(output, force=overwrite, option="--overwrite") as out:
        found = (
            _by_numbers(throughput, unit, usd)
            if throughput
            else _by_runs(runs or [], gpus, kind, usd, printed_each=printed_per_gpu, force=force)
        )
        found = replace(found, price_source=whose) if usd is not None else found
        from whyidle.render import scaling as render  # noqa: PLC0415 - after what may be wrong

        out.write(render.FORMATS[chosen](found, out.look))
    if output is not None:
        sys.stderr.write(f"{clean(found.verdict)} Report: {clean(str(output))}\n")
    return 0


def _by_numbers(text: str, unit: str, price: float | None) -> Scaling:
    from whyidle.compare.scaling import scaling_of  # noqa: PLC0415 - numpy

    if unit not in {"samples", "tokens"}:
        raise WhyIdleError(f"no unit is called {unit!r}", "--unit samples, or --unit tokens")
    found: dict[int, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        gpus, sign, per_s = part.partition("=")
        try:
            count, value = numbers.count(gpus), numbers.rate(per_s)
        except WhyIdleError:
            raise WhyIdleError(f"{part!r} is not a number of GPUs and a throughput", EXAMPLE) from None
        if not sign or count in found:
            raise WhyIdleError(f"{part!r}: {count} GPUs are there already", EXAMPLE)
        found[count] = value
    if not found:
        raise WhyIdleError("there is nothing to compare", EXAMPLE)
    return scaling_of(found, unit=unit, usd_per_gpu_hour=price)


def _by_runs(
    paths: list[str], gpus: str | None, kind: str | None, price: float | None, *, printed_each: bool, force: bool
) -> Scaling:
    from whyidle.compare import scaling as comparing  # noqa: PLC0415 - numpy
    from whyidle.fetch import brought  # noqa: PLC0415
    from whyidle.read import load  # noqa: PLC0415

    if kind is not None and kind not in KINDS:
        raise WhyIdleError(f"no kind of scaling is called {kind!r}", "--kind strong, or --kind weak")
    counts = [numbers.count(part) for part in gpus.split(",")] if gpus else []
    costing.check(gpus=min(counts, default=1))
    runs = []
    for path in paths:
        with loading() as progress, brought([path], progress) as here:
            runs.append((path, here.named(load(here.paths, progress))))
    return comparing.scaling(
        runs,
        gpus=counts,
        kind=KINDS[kind] if kind else None,
        usd_per_gpu_hour=price,
        printed_each=printed_each,
        force=force,
    )
