"""`whyidle check`: does a run keep its limits."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from whyidle.cli import _numbers as numbers
from whyidle.cli._destination import destination, format_of
from whyidle.cli._loading import loading
from whyidle.cli.baseline import Repeats, starts_of
from whyidle.cli.diagnose import Paths
from whyidle.compare.baseline import baseline_from
from whyidle.compare.gate import gate
from whyidle.errors import WhyIdleError
from whyidle.model.gate import Gate, Limits
from whyidle.project import CHECK, project_of
from whyidle.read.baseline import read_baseline
from whyidle.render.gate import FORMATS, REFUSALS, headline, renders
from whyidle.render.words import clean

BASELINE: Final = "baseline"
NAMES: Final = {
    f"max-{one.name.replace('_', '-')}": one.name for one in dataclasses.fields(Limits)
}  # options and settings


def _limit(flag: str, what: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(flag, parser=numbers.share, metavar="SHARE", help=what)
    return found


File = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="What `whyidle baseline save` kept of an earlier run.")
]
StepTime = Annotated[
    float | None, _limit("--max-step-time-regression", "The median step may be so much longer than the baseline's: 5%.")
]
Throughput = Annotated[float | None, _limit("--max-throughput-loss", "The same of throughput, by mean steps.")]
Idle = Annotated[float | None, _limit("--max-idle", "The GPU may idle so much of the time.")]
DataWait = Annotated[float | None, _limit("--max-data-wait", "Training may wait for data so much of the time.")]
Memory = Annotated[
    float | None, _limit("--max-peak-memory-growth", "The GPU's peak memory may be so much more than the baseline's.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="terminal, json, junit or github; else as the file of -o is called."),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answer to a file.")]


def check(
    paths: Paths,
    repeat: Repeats = None,
    baseline: File = None,
    max_step_time_regression: StepTime = None,
    max_throughput_loss: Throughput = None,
    max_idle: Idle = None,
    max_data_wait: DataWait = None,
    max_peak_memory_growth: Memory = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare with a baseline of another GPU, world size or batch size.")
    ] = False,
    format: Format = None,  # noqa: A002
    output: Output = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let -o replace a file.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Hold a run to its limits, by itself and beside a baseline: the gate for CI.

    A regression fails only where it is larger than its limit and is there at all (the 95% interval excludes no change).
    Where the runs are too short or too noisy to judge a limit, and where its number was not measured, the answer is
    that nobody can tell: that is no pass.

    For example:

        whyidle check new/ --max-idle 20% --max-data-wait 10%
        whyidle check new/ --baseline baseline.json --max-throughput-loss 5%
        whyidle check a/ --repeat b/ --baseline base.json --max-throughput-loss 2%
        whyidle check new/ --max-idle 20% -o check.xml

    Limits may stand in pyproject.toml, under [tool.whyidle.check], and those that are given here come before them.

    Exit code: 0 all limits kept; 1 one is broken; 2 one cannot be judged, the baseline is of another setup, or wrong
    usage.
    """
    chosen = format_of(output, format, FORMATS)
    write = renders(chosen)
    given = dict(
        zip(
            NAMES.values(),
            (max_step_time_regression, max_throughput_loss, max_idle, max_data_wait, max_peak_memory_growth),
            strict=True,
        )
    )
    limits, file = _settled(given, baseline)
    with destination(output, force=overwrite, color=not no_color, option="--overwrite", example="-o check.xml") as out:
        answer = _answer(paths, repeat, limits, file, force=force)
        if isinstance(answer, Gate):
            out.write(write(answer, out.look))
        elif chosen in REFUSALS:
            out.write(REFUSALS[chosen](answer, out.look))
        else:
            raise answer
    if isinstance(answer, WhyIdleError):
        raise answer
    if output is not None:
        sys.stderr.write(f"{headline(answer)} Report: {clean(str(output))}\n")
    return answer.exit_code


def _answer(
    paths: list[str], repeat: list[str] | None, limits: Limits, file: Path | None, *, force: bool
) -> Gate | WhyIdleError:
    """Return whether the limits are kept, or why that is not judged: a CI server shows that, too."""
    try:
        kept = None if file is None else read_baseline(file)
        with loading() as progress:
            run, doubts = baseline_from(starts_of(paths, repeat), progress=progress)
        found = gate(run, limits, kept, force=force)
    except WhyIdleError as error:
        return error
    return dataclasses.replace(found, warnings=(*doubts, *found.warnings))


def _settled(given: Mapping[str, float | None], baseline: Path | None) -> tuple[Limits, Path | None]:
    """Return limits and baseline as the command line has them, else the project."""
    project = project_of(Path())
    said = {} if project is None else project.table(CHECK, (BASELINE, *NAMES))
    where = "" if project is None else f"{project.file}, [tool.whyidle.{CHECK}]"
    shares = {NAMES[key]: _share(value, f"{where}: {key}") for key, value in said.items() if key != BASELINE}
    shares |= {name: value for name, value in given.items() if value is not None}
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise WhyIdleError(
                f"the limit of {name.replace('_', ' ')} is a share, 0 to 1, not {value:g}", "5%, or 0.05"
            )
    if baseline is None and project is not None and BASELINE in said:
        named = said[BASELINE]
        if not isinstance(named, str):
            raise WhyIdleError(f"{where}: {BASELINE} is a file, and not {named!r}", 'baseline = "baseline.json"')
        baseline = project.file.parent / named
    return Limits(**shares), baseline


def _share(value: object, where: str) -> float:
    """Return a limit as TOML has it: "5%" or 0.05."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WhyIdleError(f"{where} is a share, and not {value!r}", '"5%", or 0.05')
    try:
        return numbers.share(value)
    except WhyIdleError:
        raise WhyIdleError(f"{where} is a share, and not {value!r}", '"5%", or 0.05') from None
