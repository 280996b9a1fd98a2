"""`whyidle watch`: the GPUs of this machine, live, and an alarm when they idle."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from whyidle.cli import PIPE_CLOSED
from whyidle.cli import _numbers as numbers
from whyidle.cli._destination import SUFFIXES, abandon, destination, holds, look_of
from whyidle.cli._numbers import Price, priced
from whyidle.errors import WhyIdleError
from whyidle.project import FILE
from whyidle.render.base import Look
from whyidle.watch.asked import Asked


def _seconds(flag: str, shown: str, what: str) -> typer.models.OptionInfo:
    """Return an option that is a time; `shown` is its default as people write it."""
    return cast(
        "typer.models.OptionInfo",
        typer.Option(flag, parser=numbers.seconds, metavar="TIME", help=what, show_default=shown),
    )


LOOK_S = 5.0
FORMATS = ("html", "json")  # of render.watched_gpus, which is imported for --report only

Interval = Annotated[float, _seconds("--interval", "1s", "Between two samples.")]
Last = Annotated[float, _seconds("--last", "5m", "What the verdict is on: the last minutes.")]
Every = Annotated[
    float | None, _seconds("--every", "2s; 1m where it is no terminal", "Between two times that it is shown.")
]
Once = Annotated[bool, typer.Option("--once", help="Look for a few seconds, say what was seen, and end.")]
For = Annotated[float | None, _seconds("--for", "5s, with --pid 15s", "How long --once and --pid look.")]
Pid = Annotated[
    int | None, typer.Option("--pid", metavar="PID", help="Look at one running job instead, and say what it waits for.")
]
NoStacks = Annotated[bool, typer.Option("--no-stacks", help="With --pid: do not ask py-spy for stacks.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
Format = Annotated[str, typer.Option("--format", "-f", help="terminal or json.")]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="[HOST:]PORT", help="Let Prometheus scrape it; on loopback only.")
]
Alarm = Annotated[bool, typer.Option("--alarm", help="Say when a GPU idles, once per episode.")]
Floor = Annotated[
    float,
    typer.Option(
        "--floor",
        parser=numbers.share,
        metavar="SHARE",
        help="An idle GPU's mean is lower.",
        show_default="15%",
    ),
]
Window = Annotated[float, _seconds("--window", "15m", "For so long it has to idle.")]
Grace = Annotated[float, _seconds("--grace", "10m", "That a job may take until its first activity.")]
Exempt = Annotated[
    list[str] | None,
    typer.Option("--exempt", metavar="PATTERN", help="Jobs that may idle, by command, user or label; repeatable."),
]
HeldOnly = Annotated[bool, typer.Option("--held-only", help="No alarm for GPUs that nobody holds.")]
OnAlarm = Annotated[
    str | None, typer.Option("--on-alarm", metavar="CMD", help="Run this, with the evidence as JSON on its input.")
]
Webhook = Annotated[str | None, typer.Option("--webhook", metavar="URL", help="Post the evidence there, as JSON.")]
ExitOnAlarm = Annotated[bool, typer.Option("--exit-on-alarm", help="End with exit code 1 at an alarm.")]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="When it ends, write what was seen: a page as FILE.html, JSON as FILE.json."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Let --report replace a file.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")]


def watch(
    interval: Interval = 1.0,
    last: Last = 300.0,
    every: Every = None,
    once: Once = False,
    for_: For = None,
    pid: Pid = None,
    no_stacks: NoStacks = False,
    json: Json = False,
    format: Format = "terminal",  # noqa: A002
    price: Price = None,
    listen: Listen = None,
    alarm: Alarm = False,
    floor: Floor = 0.15,
    window: Window = 900.0,
    grace: Grace = 600.0,
    exempt: Exempt = None,
    held_only: HeldOnly = False,
    on_alarm: OnAlarm = None,
    webhook: Webhook = None,
    exit_on_alarm: ExitOnAlarm = False,
    report: Report = None,
    force: Force = False,
    no_color: NoColor = False,
) -> int:
    """Watch the GPUs of this machine: how busy, held by whom, and what the idle time has cost so far.

    On a terminal this is a live table, which `q` ends; elsewhere a line per GPU now and then, or JSON lines.

    For example:

        whyidle watch
        whyidle watch --once --json
        whyidle watch --alarm --window 15m --floor 15% --on-alarm 'mail -s idle me@example.org'
        whyidle watch --listen 9835
        whyidle watch --alarm --report gpus.html
        whyidle watch --pid 4711

    With --pid one job is looked at for some seconds from outside: its processes and GPUs, CPU, reads and, where
    py-spy is installed, stacks. It is neither stopped nor traced. --report tells of each GPU from the begin on.

    Exit code: 0; with --pid as of `whyidle diagnose`; with --once 1 when a GPU idles, is throttled or lags, and 2 when
    one could not be judged; 1 at an alarm with --exit-on-alarm.
    """
    usd = priced(price)[0]
    asked = Asked(
        interval_s=interval, last_s=last, every_s=every, once=once, look_s=LOOK_S if for_ is None else for_,
        format="json" if json else format, color=not no_color, price=usd,
        price_file=FILE if price is None and usd is not None else "", listen=listen, alarm=alarm, floor=floor,
        window_s=window, grace_s=grace, held_only=held_only, exempt=tuple(exempt or ()), command=on_alarm,
        webhook=webhook, exit_on_alarm=exit_on_alarm, keep=report is not None,
    )  # fmt: skip
    asked.check()
    look = look_of(sys.stdout, asked.color, everything=False)
    if pid is None:
        return _watched(asked, look, report, force=force)
    if report is not None:
        raise WhyIdleError("--report is of a watch of GPUs", f"whyidle watch --pid {pid} --json > verdict.json")
    return int(importlib.import_module("whyidle.cli._attaching").attach(pid, for_, asked, look, stacks=not no_stacks))


def _watched(asked: Asked, look: Look, report: Path | None, *, force: bool) -> int:
    """Watch until the end, or until nobody reads it; return the exit code."""
    try:
        return _reported(asked, look, report, force=force)
    except BrokenPipeError:  # typer would make 1 of it, which says that there was an alarm
        abandon(sys.stdout)
        raise typer.Exit(PIPE_CLOSED) from None


def _reported(asked: Asked, look: Look, report: Path | None, *, force: bool) -> int:
    """Watch, and write what was seen where that is wanted; return the exit code."""
    loop = importlib.import_module("whyidle.watch.loop")
    if report is None:
        return int(loop.watch(asked, look))
    chosen = SUFFIXES.get(report.suffix.lower(), "")
    if chosen not in FORMATS and not holds(report.is_dir):
        raise WhyIdleError(f"--report writes a page or JSON, and {report} is called like neither", "--report gpus.html")
    with destination(report, force=force, example="--report gpus.html") as out:
        shown = importlib.import_module("whyidle.render.watched_gpus").FORMATS[chosen]
        return int(loop.watch(asked, look, lambda seen: out.write(shown(seen, out.look))))
