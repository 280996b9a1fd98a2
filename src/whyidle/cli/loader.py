"""`whyidle loader`: the training's own DataLoader measured alone, and the most that fixing it can give."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whyidle.cli import _numbers as numbers
from whyidle.cli._destination import TO, check_folder, destination, format_of, holds
from whyidle.errors import WhyIdleError

# From the first word of the command on, everything is the command's.
CONTEXT = {"allow_interspersed_args": False}
MOST_WORKERS = 1024
FORMATS = ("html", "json", "markdown", "terminal")  # of render.loader, which is imported when the job has ended

Command = Annotated[
    list[str], typer.Argument(metavar="SCRIPT [ARGS...]", help="The training, as it is started without whyidle.")
]
Workers = Annotated[
    str | None, typer.Option("--workers", metavar="N,N,...", help="Numbers to try; else 0, 1, 2, 4 ... up to the CPUs.")
]
Seconds = Annotated[
    float, typer.Option("--seconds", parser=numbers.seconds, metavar="S", help="To measure each number for.")
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="Steps of the training, with and without loading.")]
Loader = Annotated[
    int | None, typer.Option("--loader", metavar="N", help="Which DataLoader, in order of first iteration, from 0.")
]
Cold = Annotated[
    bool, typer.Option("--cold", help="Also measure with the data set's files out of the page cache, once.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the evidence goes; else in whyidle-runs.")
]
Report = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file instead.")]
Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="terminal, json, markdown or html; else as the file of --report is called."),
]


def loader(
    command: Command,
    workers: Workers = None,
    seconds: Seconds = 5.0,
    steps: Steps = 30,
    loader: Loader = None,
    cold: Cold = False,
    no_train: Annotated[bool, typer.Option("--no-train", help="Measure the loader alone.")] = False,
    output: Output = None,
    report: Report = None,
    format: Format = None,  # noqa: A002
    force: Annotated[bool, typer.Option("--force", help="Let --report replace a file.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Measure a training's own DataLoader alone, and the training without it.

    The script is started as it is. When its training's DataLoader is first iterated, loaders like it are measured in
    forked processes with more and fewer workers. Then the training makes some steps as it is and some with batches
    that it had: what a step takes then is the most that fixing the loader can give. Then the script is ended. What it
    does before and in these steps it does: it may write files.

    For example:

        whyidle loader train.py --epochs 1
        whyidle loader -- python -m package.train
        whyidle loader --workers 4,8,16 --cold train.py
        whyidle loader --no-train --report loader.json train.py
        whyidle loader --report loader.html train.py

    Exit code: 0 when the loader was measured, 2 when it could not be, 128 and its number where a signal ended the job
    before (130 after Ctrl-C): what was measured up to there is shown.
    """
    if sys.platform != "linux":
        raise WhyIdleError("`whyidle loader` measures on Linux only")
    chosen = _workers(workers)
    shown = format_of(report, format, FORMATS)
    check_folder(output)
    _check(seconds, steps, loader, shown)
    with destination(report, force=force, color=not no_color, example=TO) as out:
        with importlib.import_module("whyidle.launch.process").Mask() as mask:
            job = importlib.import_module("whyidle.sweep.loader.job")
            asked = job.Asked(chosen, seconds, 0 if no_train else steps, loader=loader, cold=cold)
            tried, code = job.tried(_started(command), output, asked, mask, _say)
        out.write(importlib.import_module("whyidle.render.loader").FORMATS[shown](tried, out.look))
    return int(code)


def _say(text: str) -> None:
    sys.stderr.write(f"whyidle: {text}\n")
    sys.stderr.flush()


def _workers(text: str | None) -> tuple[int, ...]:
    """Return "0,2,4" as numbers, each once, in order."""
    if text is None:
        return ()
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise WhyIdleError(f"{text!r} is not a list of numbers of workers", "--workers 0,2,4,8") from None
    if not 0 <= found[0] <= found[-1] <= MOST_WORKERS:
        raise WhyIdleError(f"a number of workers is 0 to {MOST_WORKERS:,}, not {text}", "--workers 0,2,4,8")
    return tuple(found)


def _check(seconds: float, steps: int, number: int | None, format: str) -> None:  # noqa: A002
    if format not in FORMATS:
        raise WhyIdleError(f"no format is called {format!r}", f"formats: {', '.join(FORMATS)}")
    if not 0.1 <= seconds <= 3600:
        raise WhyIdleError(f"--seconds is 0.1 to 3600, not {seconds:g}", "--seconds 5")
    if steps < 1:
        raise WhyIdleError("--steps is 1 or more", "--no-train does not try the training")
    if number is not None and number < 0:
        raise WhyIdleError("--loader is a number in order of first iteration, from 0", "--loader 0")


def _started(command: Sequence[str]) -> list[str]:
    """Return the command; a Python script is started with the Python that the shell would find."""
    first, *rest = command
    if not first.endswith(".py"):
        return list(command)
    if not holds(Path(first).is_file):
        raise WhyIdleError(f"{first}: no such file", "whyidle loader train.py, or whyidle loader -- python -m package")
    python = next((name for name in ("python", "python3") if shutil.which(name)), sys.executable)
    return [python, first, *rest]
