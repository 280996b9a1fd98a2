"""`whyidle compare`: did a change help, by how much, and how sure is that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from whyidle.cli._destination import destination, format_of
from whyidle.cli._loading import loading
from whyidle.cli._numbers import Gpus, Price, priced
from whyidle.compare import check
from whyidle.compare import compare as compared
from whyidle.errors import WhyIdleError
from whyidle.render.comparison import FORMATS
from whyidle.render.words import clean

Before = Annotated[str, typer.Argument(metavar="BEFORE", help="A run: a folder, a file or an address.")]
After = Annotated[str, typer.Argument(metavar="AFTER", help="The same job, changed.")]
MoreBefore = Annotated[
    list[str] | None,
    typer.Option("--before", metavar="RUN", help="A repeat of BEFORE, started anew; as often as you like."),
]
MoreAfter = Annotated[list[str] | None, typer.Option("--after", metavar="RUN", help="A repeat of AFTER.")]
Units = Annotated[
    str | None,
    typer.Option(
        "--units",
        metavar="N[,M]",
        help="Work (samples, tokens, iterations) in each recording, where nothing tells of steps; M of AFTER.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="terminal, json, markdown or html; else as the file of -o is called."),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
Force = Annotated[
    bool, typer.Option("--force", help="Give a verdict though they differ in what makes one worthless, as the GPU.")
]


def compare(
    before: Before,
    after: After,
    more_before: MoreBefore = None,
    more_after: MoreAfter = None,
    format: Format = None,  # noqa: A002
    output: Output = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let -o replace a file.")] = False,
    price: Price = None,
    gpus: Gpus = None,
    units: Units = None,
    operators: Annotated[
        bool, typer.Option("--operators", help="List the operators and kernels that differ, of two traces.")
    ] = False,
    force: Force = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 also where AFTER is worse.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Say whether a change made a job faster, by how much, and how sure that is.

    BEFORE and AFTER are what `whyidle diagnose` reads: folders of `whyidle run`, traces, a trainer's log. The first
    steps are left out, and the mean step of the rest is compared with a range of 95%: within one run of each, or, with
    repeats, between runs. What else differs (clocks, machine, versions, other programs) is said; what makes the two
    incomparable refuses the verdict.

    For example:

        whyidle compare runs/before/ runs/after/
        whyidle compare before.json.gz after.json.gz --operators
        whyidle compare a1/ b1/ --before a2/ --after b2/ --before a3/ --after b3/
        whyidle compare before.json.gz after.json.gz --units 512,1024
        whyidle compare runs/before/ runs/after/ -o change.html
        whyidle compare runs/before/ runs/after/ -f markdown -o change.md

    Exit code: 0 improved, or no detectable change; 1 regressed, or the model learns worse, or is not shown to learn the
    same where the precision or the batch size changed; 2 could not judge, or wrong usage.
    """
    chosen = format_of(output, format, FORMATS)
    if chosen not in FORMATS:
        raise WhyIdleError(f"no format is called {chosen!r}", f"formats: {', '.join(sorted(FORMATS))}")
    work = _units(units)
    check(price=price, gpus=gpus, units=work)
    sides = [before, *(more_before or ())], [after, *(more_after or ())]
    with destination(output, force=overwrite, color=not no_color, everything=operators, option="--overwrite") as out:
        with loading() as progress:
            usd, drawn = priced(price)[0], chosen == "html"
            found = compared(*sides, price=usd, gpus=gpus, units=work, force=force, picture=drawn, progress=progress)
        out.write(FORMATS[chosen](found, out.look))
    if output is not None:
        sys.stderr.write(f"{clean(found.message)} Report: {clean(str(output))}\n")
    return 0 if exit_zero and found.exit_code == 1 else found.exit_code


def _units(text: str | None) -> float | tuple[float, float] | None:
    """Return "512" or "512,1024" as work in each recording."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise WhyIdleError(f"{text!r} is not one number of units, or two", "--units 5000, or --units 512,1024")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
