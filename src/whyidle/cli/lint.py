"""`whyidle lint`: stalls that show in the source."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whyidle.cli._destination import Destination, destination, format_of
from whyidle.cli._linting import linting
from whyidle.errors import WhyIdleError
from whyidle.lint.batch import outcomes
from whyidle.lint.files import File, files_in, root_of
from whyidle.lint.report import report_of
from whyidle.lint.settings import Settings, codes_in, settings_for
from whyidle.lint.source import Unread
from whyidle.model.finding import Report
from whyidle.render import renderer
from whyidle.render.words import clean

STDIN = "-"

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files and folders of Python code and notebooks; or -.")
]
Fix = Annotated[bool, typer.Option("--fix", help="Make the changes that keep results as they are.")]
Diff = Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and change nothing.")]
UnsafeFixes = Annotated[
    bool, typer.Option("--unsafe-fixes", help="With --fix or --diff: changes that change results, too.")
]
Select = Annotated[
    list[str] | None, typer.Option("--select", metavar="RULE[,RULE...]", help="Rules or families to look for.")
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="RULE[,RULE...]", help="Rules or families to leave out.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="terminal, html, markdown, json, sarif, github, gitlab or junit; by -o's suffix, else terminal.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
Run = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="A recording of this code: what it confirms, and what it clears."),
]
StdinFilename = Annotated[
    Path | None, typer.Option("--stdin-filename", metavar="FILE", help="What to call standard input (-).")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes at most; else one per CPU.")
]


def lint(
    paths: Paths,
    fix: Fix = False,
    diff: Diff = False,
    unsafe_fixes: UnsafeFixes = False,
    select: Select = None,
    ignore: Ignore = None,
    format: Format = None,  # noqa: A002
    output: Output = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file.")] = False,
    run: Run = None,
    stdin_filename: StdinFilename = None,
    jobs: Jobs = None,
    everything: Annotated[bool, typer.Option("--all", "-v", help="All findings in full.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 even when there are findings.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Find lines of a training job that can stall the GPU, and mend what is safe to mend.

    Follows values from where they are made to where they are used: a line is a finding when it makes the host wait for
    the GPU, or the GPU for the host, and runs in each step. Your code is parsed, never imported or run. Of folders it
    takes all Python files and notebooks below, but no environments, and follows imports within the project.

    Settings lie in pyproject.toml under [tool.whyidle]; `# whyidle: ignore[RULE]` silences a line.

    For example:

        whyidle lint train.py
        whyidle lint src/ --select sync,input
        whyidle lint train.py --diff
        whyidle lint train.py --fix
        whyidle lint . --format sarif -o whyidle.sarif
        whyidle lint train.py --run whyidle-runs/LATEST
        git show HEAD:train.py | whyidle lint - --stdin-filename train.py

    Exit code: 0 judged, no finding at medium or above; 1 there is one, or --diff shows a change; 2 a file that is
    named could not be read, nothing could be judged, or wrong usage.
    """
    _check(fix=fix, diff=diff, unsafe_fixes=unsafe_fixes)
    renders = renderer(format_of(output, format))
    settings = settings_for(stdin_filename or _first(paths), codes_in(select or ()), codes_in(ignore or ()))
    files, locked = _files(paths, stdin_filename, settings)
    with destination(output, force=force, color=not no_color, everything=everything) as out:
        if diff:
            changes = _show(files, settings, out, unsafe=unsafe_fixes)
            return 2 if _any_unread(files) else int(changes and not exit_zero)
        if fix:
            files = _mend(files, settings, unsafe=unsafe_fixes)
        with linting() as progress:
            report = report_of(list(outcomes(files, settings, jobs or _cpus(), progress)), locked)
        report = _beside(report, files, run) if run else report
        unread = _warn_of_unread(report, files)
        if fix and paths == [STDIN] and files[0].given is not None:
            sys.stdout.buffer.write(files[0].given)  # the code, as other programs that mend a stream do
        else:
            out.write(renders.render(report, out.look))
    if output is not None:
        sys.stderr.write(f"{clean(report.summary.verdict)} Report: {clean(str(output))}\n")
    return 2 if unread else 0 if exit_zero and report.exit_code == 1 else report.exit_code


def _check(*, fix: bool, diff: bool, unsafe_fixes: bool) -> None:
    """Refuse options that do not go together."""
    if fix and diff:
        raise WhyIdleError("--fix makes the changes, and --diff only shows them", "give one of the two")
    if unsafe_fixes and not (fix or diff):
        raise WhyIdleError("--unsafe-fixes goes with --fix or --diff", "add --diff to see what would change")


def _show(files: Sequence[File], settings: Settings, out: Destination, *, unsafe: bool) -> bool:
    from whyidle.cli._mending import show  # noqa: PLC0415 - libcst takes longer to import than most lints

    return show(files, settings, out, unsafe=unsafe)


def _mend(files: list[File], settings: Settings, *, unsafe: bool) -> list[File]:
    from whyidle.cli._mending import mend  # noqa: PLC0415

    return mend(files, settings, unsafe=unsafe)


def _first(paths: Sequence[str]) -> Path:
    """Return the path whose project's settings count; that of standard input is where the user stands."""
    return Path() if paths[0] == STDIN else Path(paths[0])


def _cpus() -> int:
    """Return how many processes can run at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _files(paths: Sequence[str], stdin_filename: Path | None, settings: Settings) -> tuple[list[File], list[Unread]]:
    """Return the files that are meant; `-` is standard input."""
    if STDIN not in paths:
        if stdin_filename is not None:
            raise WhyIdleError("--stdin-filename names standard input, which is not read", "whyidle lint - < train.py")
        files, locked = files_in(map(Path, paths), settings.exclude, settings.base)
        if not files and not locked:
            raise WhyIdleError(f"no Python file and no notebook in {', '.join(paths)}", "whyidle lint train.py")
        return files, locked
    if len(paths) > 1:
        raise WhyIdleError("standard input (-) goes with no other path", "whyidle lint - < train.py")
    path = stdin_filename or Path("<stdin>")
    given = sys.stdin.buffer.read()
    return [File(path, path.as_posix(), root_of(path), named=True, given=given)], []


def _beside(report: Report, files: Sequence[File], run: Sequence[str]) -> Report:
    """Return what was found with what a recording of the code says of it."""
    from whyidle.cli._loading import loading  # noqa: PLC0415 - without --run nothing is loaded, and no numpy needed
    from whyidle.diagnosis import lint_beside  # noqa: PLC0415

    with loading() as progress:
        return lint_beside(report, files, run, progress=progress)


def _any_unread(files: Sequence[File]) -> bool:
    """Say whether a file that was named cannot be read, and which."""
    unread = [(file, read) for file in files if file.named and isinstance(read := file.read(), Unread)]
    for file, read in unread:
        _warn(file.name, read.why)
    return bool(unread)


def _warn_of_unread(report: Report, files: Sequence[File]) -> bool:
    """Say of each file that was named, before the report, if it could not be read; and whether there is one."""
    named = {file.name for file in files if file.named}
    unread = [file for file in report.run.ignored if file.path in named]
    for file in unread:
        _warn(file.path, file.why)
    return bool(unread)


def _warn(name: str, why: str) -> None:
    sys.stderr.write(f"whyidle: warning: {clean(f'{name}: {why}')}\n")
