"""Runs a sweep for the command line: what is asked is checked before anything is begun, and progress is shown."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from whyidle import cost
from whyidle.cli import INTERRUPTED
from whyidle.cli._destination import TO, check_folder, destination, format_of, holds
from whyidle.cli._numbers import priced
from whyidle.cli._sweep_progress import Progress
from whyidle.cli.sweep import Asked, Show
from whyidle.errors import WhyIdleError
from whyidle.launch.program import NotStartedError, Program, find
from whyidle.launch.stopping import stoppable
from whyidle.model.trial import Params
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.sweep import FORMATS, named, sweep_json
from whyidle.render.words import clean, duration, money, plural
from whyidle.sweep.budget import Rate
from whyidle.sweep.cell import Trial, cells
from whyidle.sweep.command import ranks_in
from whyidle.sweep.executor import Local, watched
from whyidle.sweep.folder import SweepFolder, new
from whyidle.sweep.here import gpus_here, rate, this_machine
from whyidle.sweep.loop import Sweeping, planned, task_of, trials_in
from whyidle.sweep.parameters import Parameter, applied, parse
from whyidle.sweep.plan import Limits, Plan, going_on
from whyidle.sweep.processes import kill_all, left_behind
from whyidle.sweep.script import place
from whyidle.sweep.strategies import Search, Strategy, fitting, strategy, usual

MOST_LISTED = 100  # cells of --dry-run
LISTED = ("terminal", "json")  # formats of --dry-run


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A sweep that has been checked, and not begun."""

    plan: Plan
    name: str  # of the program
    parameters: tuple[Parameter, ...]
    strategy: Strategy
    executor: Local
    rate: Rate
    looks: tuple[str, ...]  # options of `whyidle run`


def sweep(asked: Asked) -> int:
    """Run a sweep, show what came of it, and return the exit code.

    Raises:
        WhyIdleError: what is asked cannot be.
    """
    _check(asked)
    plan = None if asked.resume is not None else _plan(asked)
    names = gpus_here()
    if asked.gpus and not names:
        sys.stderr.write("warning: no GPU was seen here: --gpus only runs that many cells at a time\n")
    prepared = None if plan is None else _prepared(plan, names)
    if asked.dry_run and prepared is not None and not (asked.output and os.path.lexists(asked.output)):
        return _list(prepared, [], asked)
    name = "" if prepared is None else prepared.name
    path = asked.resume or asked.output or new(name, datetime.now(UTC).astimezone())
    with closing(SweepFolder(path)) as folder:
        before = folder.plan()
        if before is None and plan is None:
            raise WhyIdleError(f"{path} holds no sweep", "whyidle sweep -p num_workers=0,4,8 -o DIR -- COMMAND")
        if before is not None:
            plan = _resumed(before, asked) if plan is None else going_on(before, plan)
            prepared = _prepared(plan, names)
        assert prepared is not None
        done = trials_in(folder)
        if asked.dry_run:
            return _list(prepared, done, asked)
        _ask(prepared, done, asked)
        kill_all(lambda: left_behind(path))
        folder.keep(prepared.plan)
        if not asked.show.quiet and planned(prepared.strategy, cells(done, prepared.rate)):
            sys.stderr.writelines(f"{line}\n" for line in _reached(prepared.parameters))
        return _run(prepared, folder, done, asked)


def _check(asked: Asked) -> None:
    """Refuse options that do not go together, or have no meaning."""
    if asked.show.format is not None and asked.show.format not in FORMATS:
        raise WhyIdleError(f"no format is called {asked.show.format!r}", f"formats: {', '.join(sorted(FORMATS))}")
    chosen = _format(asked.show)
    check_folder(asked.output)
    if asked.dry_run and chosen not in LISTED:
        raise WhyIdleError("--dry-run lists cells for a terminal or as JSON", "--format json")
    if asked.resume is not None and (asked.command or asked.parameters or asked.output):
        raise WhyIdleError(
            "--resume takes the command and its parameters from the folder",
            f"whyidle sweep --resume {asked.resume}; or -o {asked.resume} with the whole command",
        )
    if asked.resume is not None and not holds(asked.resume.is_dir):
        raise WhyIdleError(f"no such folder: {asked.resume}", "--resume is given the folder of a sweep")
    cost.check(usd_per_gpu_hour=asked.price)


def _plan(asked: Asked) -> Plan:
    """Return what the command line asks for."""
    limits = Limits(**asked.limits)  # type: ignore[arg-type]
    named = asked.strategy or fitting(asked.parameters)
    plan = Plan(
        asked.command, asked.parameters or usual(named), limits, named, asked.repeats, asked.gpus or (), asked.budget,
        asked.price,
    )  # fmt: skip
    plan.check()
    return plan


def _resumed(before: Plan, asked: Asked) -> Plan:
    """Return the plan that lies in a folder; more repeats, another budget and another price may be asked of it."""
    if asked.strategy not in (None, before.strategy):
        raise WhyIdleError(
            "--resume goes on with the strategy of the folder", "-o DIR with the whole command changes it"
        )
    if asked.limits or asked.gpus is not None:
        raise WhyIdleError("cells that are done were ended by other limits", "--resume DIR goes on with the old ones")
    given = {name: value for name, value in asdict(asked.budget).items() if value is not None}
    return replace(
        before,
        repeats=max(before.repeats, asked.repeats),
        budget=replace(before.budget, **given),
        usd_per_gpu_hour=before.usd_per_gpu_hour if asked.price is None else asked.price,
    )


def _program(plan: Plan, parameters: Sequence[Parameter]) -> Program:
    """Return what the first cell would start.

    Raises:
        WhyIdleError: there is no such command.
    """
    varied = [parameter for parameter in parameters if parameter.values]
    first = {parameter.name: parameter.values[0] for parameter in varied}
    try:
        return find(applied(varied, first, plan.command).command)
    except NotStartedError as error:
        typed = error.hint.replace("whyidle run", f"whyidle sweep -p {plan.parameters[0]}")
        raise WhyIdleError(error.message, typed or "the command of the job follows --: -- python train.py") from None


def _prepared(plan: Plan, names: list[str]) -> _Prepared:
    """Return the sweep, ready to begin; `names` are those of the GPUs here.

    Raises:
        WhyIdleError: something of it cannot be.
    """
    plan.check()
    parameters = parse(plan.parameters, plan.command)
    program = _program(plan, parameters)
    costs = rate(*priced(plan.usd_per_gpu_hour), names, 1 if plan.gpus else None)
    plan.budget.check(costs)
    looks = () if names else ("--no-trace",)  # a trace tells of the GPU what nothing else does
    here = replace(this_machine(), ranks=ranks_in(plan.command, place(plan.command)[0]))
    chosen = strategy(plan.strategy, parameters, here)
    return _Prepared(plan, program.name, parameters, chosen, Local(plan.gpus), costs, looks)


def _most(prepared: _Prepared, done: Sequence[Trial]) -> tuple[int, float | None]:
    """Return how many jobs are still to be run at most, and what they can cost."""
    plan = prepared.plan
    there = cells(done, prepared.rate)
    times = [
        sum(dict(one.outcome.params) == dict(cell.params) for one in done) for cell in there if cell.status == "ok"
    ]
    left = prepared.strategy.most_cells - len(there) if planned(prepared.strategy, there) else 0
    jobs = left * plan.repeats + sum(max(plan.repeats - count, 0) for count in times)
    slots = prepared.executor.slots
    return jobs, prepared.plan.budget.most_usd(prepared.rate, jobs, plan.limits.cell_time_s, slots)


def _ask(prepared: _Prepared, done: Sequence[Trial], asked: Asked) -> None:
    """Ask before money is spent, where nobody said how much it may be.

    Raises:
        WhyIdleError: nobody says yes.
    """
    jobs, most = _most(prepared, done)
    if asked.yes or not most or not jobs or prepared.plan.budget.max_usd is not None:
        return
    said = f"{plural(jobs, 'job')} of {duration(prepared.plan.limits.cell_time_s)} at most: up to {money(most)}"
    said += f" ({prepared.rate.source})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WhyIdleError(f"{said}, and nobody to ask", "--yes goes on without asking; --max-cost USD is a limit")
    if not typer.confirm(f"{clean(said)}. Begin?", err=True):
        raise WhyIdleError("nothing was run", "--dry-run lists the cells; --max-cost USD is a limit")


def _reached(parameters: Sequence[Parameter]) -> Iterator[str]:
    """Yield how values reach the job, and what to do where they hardly do: before an hour goes into it."""
    for one in parameters:
        yield clean(f"{'warning: ' if one.is_doubted else ''}-p {one.name}: {one.said}")
        if one.is_doubted and one.advice:
            yield clean(f"hint: {one.advice}")


def _list(prepared: _Prepared, done: Sequence[Trial], asked: Asked) -> int:
    """Say what would be run."""
    plan, lines = prepared.plan, []
    left = planned(prepared.strategy, cells(done, prepared.rate))
    commands = [_typed(prepared, params, number) for number, params in enumerate(left[:MOST_LISTED])]
    for params, command in zip(left, commands, strict=False):
        lines += [f"  {named(params)}", f"    {command}"]
    lines += ["  and so on."] if len(left) > MOST_LISTED else []
    jobs, most = _most(prepared, done)
    repeats = f", each cell {plan.repeats} times" if plan.repeats > 1 else ""
    searches = bool(left) and isinstance(prepared.strategy, Search)
    later = "; which comes next depends on what this one gives" if searches else ""
    lines.append(f"  {plural(jobs, 'job')} at most{repeats}{later}.")
    lines += [f"  {parameter.name}: {parameter.said}." for parameter in prepared.parameters if parameter.said]
    limit = duration(plan.limits.cell_time_s)
    lines.append(f"  Each ends after {limit} at the latest" + (f": {money(most)} at most." if most else "."))
    listed = [{"params": dict(params), "command": command} for params, command in zip(left, commands, strict=False)]
    told = {"schema_version": SCHEMA_VERSION, "cells": listed, "most_jobs": jobs, "most_usd": most}
    text = dumps(told) if _format(asked.show) == "json" else "\n".join(map(clean, lines)) + "\n"
    with destination(asked.show.report, force=asked.show.force, example=TO) as out:
        out.write(text)
    return 0


def _typed(prepared: _Prepared, params: Params, number: int) -> str:
    """Return the command of a cell as a person types it; cells take turns on the GPUs of --gpus."""
    plan = prepared.plan
    task = task_of(applied(prepared.parameters, params, plan.command), Path("CELL"), prepared.looks)
    gpu = {"CUDA_VISIBLE_DEVICES": plan.gpus[number % len(plan.gpus)]} if plan.gpus else {}
    variables = [f"{name}={shlex.quote(value)}" for name, value in {**task.environment, **gpu}.items()]
    command = watched(task)
    return " ".join([*variables, shlex.join(["whyidle", *command[command.index("run") :]])])


def _format(show: Show) -> str:
    """Return the format of what --report writes, or of --dry-run."""
    return format_of(show.report, show.format, FORMATS)


def _run(prepared: _Prepared, folder: SweepFolder, done: list[Trial], asked: Asked) -> int:
    """Run the cells, and show what came of them."""
    show = asked.show
    sweeping = Sweeping(
        prepared.plan, folder, prepared.parameters, prepared.strategy, prepared.executor, prepared.rate,
        trials=done, looks=prepared.looks,
    )  # fmt: skip
    chosen = _format(show)
    with nullcontext() if show.report is None else destination(show.report, force=show.force, example=TO) as file:
        try:
            jobs = _most(prepared, done)[0]
            most = prepared.plan.budget.max_cells
            jobs = jobs if most is None else max(min(jobs, most - len(done)), 0)
            progress = Progress(prepared.plan.limits, jobs, is_quiet=show.quiet)
            with stoppable(), progress:
                sweeping.begins, sweeping.seen, sweeping.told = progress.begins, progress.seen, progress.told
                found = sweeping.run()
        except KeyboardInterrupt:
            count = plural(len(sweeping.cells()), "cell")
            sys.stderr.write(f"whyidle: {count} done and kept in {clean(str(folder.path))}\n")
            sys.stderr.write(f"hint: to go on: whyidle sweep --resume {shlex.quote(str(folder.path))}\n")
            raise typer.Exit(INTERRUPTED) from None
        folder.report(sweep_json(found))
        if file is not None:
            file.write(FORMATS[chosen](found, file.look))
    is_page = show.format == "html" and show.report is not None  # which nobody reads on a screen, too
    with destination(color=show.color) as out:
        out.write(FORMATS["terminal" if is_page else show.format or "terminal"](found, out.look))
    return found.exit_code
