"""`whyidle watch`: the GPUs of this machine, live, and an alarm when they idle."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from whyidle.cli import _numbers as numbers
from whyidle.cli._numbers import Price
from whyidle.watch.asked import Asked


def _seconds(flag: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, parser=numbers.seconds, metavar="TIME", help=what)
    return option


def watch(
    interval: Annotated[float, _seconds("--interval", "Between two samples: 1, 0.5s.")] = 1.0,
    last: Annotated[float, _seconds("--last", "What the verdict is on: the last 5m.")] = 300.0,
    once: Annotated[bool, typer.Option("--once", help="Look for a few seconds, say what was seen, and end.")] = False,
    for_: Annotated[float, _seconds("--for", "How long --once looks.")] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    format: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",  # noqa: A002
    price: Price = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="[HOST:]PORT", help="Let Prometheus scrape it; on loopback only.")
    ] = None,
    alarm: Annotated[bool, typer.Option("--alarm", help="Say when a GPU idles, once per episode.")] = False,
    floor: Annotated[
        float, typer.Option("--floor", parser=numbers.share, metavar="SHARE", help="Idle is a mean utilization below.")
    ] = 0.15,
    window: Annotated[float, _seconds("--window", "Over so long.")] = 900.0,
    grace: Annotated[float, _seconds("--grace", "That a job may take until its first activity.")] = 600.0,
    exempt: Annotated[
        list[str] | None,
        typer.Option("--exempt", metavar="PATTERN", help="Jobs that may idle, by command, user or label; repeatable."),
    ] = None,
    held_only: Annotated[bool, typer.Option("--held-only", help="No alarm for GPUs that nobody holds.")] = False,
    on_alarm: Annotated[
        str | None, typer.Option("--on-alarm", metavar="CMD", help="Run this, with the evidence as JSON on its input.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="URL", help="Post the evidence there, as JSON.")
    ] = None,
    exit_on_alarm: Annotated[bool, typer.Option("--exit-on-alarm", help="End with exit code 1 at an alarm.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Watch the GPUs of this machine: how busy, held by whom, and what the idle time has cost so far.

    On a terminal this is a live table, which `q` ends; elsewhere a line per GPU now and then, or JSON lines.

    For example:

        whyidle watch
        whyidle watch --once --json
        whyidle watch --alarm --window 15m --floor 15% --on-alarm 'mail -s idle me@example.org'
        whyidle watch --listen 9835

    Exit code: 0; with --once 1 when a GPU idles, is throttled or lags, and 2 when one could not be judged; 1 at an
    alarm with --exit-on-alarm.
    """
    asked = Asked(
        interval_s=interval, last_s=last, once=once, look_s=for_, format="json" if json else format,
        color=not no_color, price=price, listen=listen, alarm=alarm, floor=floor, window_s=window, grace_s=grace,
        held_only=held_only, exempt=tuple(exempt or ()), command=on_alarm, webhook=webhook,
        exit_on_alarm=exit_on_alarm,
    )  # fmt: skip
    asked.check()
    code: int = importlib.import_module("whyidle.watch.loop").watch(asked)
    return code
