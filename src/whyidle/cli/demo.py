"""`whyidle demo`: the whole story on a job that ships with the package; needs no GPU and no PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from whyidle import cost
from whyidle.cli._destination import destination, format_of
from whyidle.judge import judge, measured_of
from whyidle.model.finding import Report
from whyidle.read import load
from whyidle.render import renderer
from whyidle.render.base import Look
from whyidle.render.lines import hang
from whyidle.render.terminal import write

Recording = Literal["before", "after"]

WHAT = (
    "A demo on a simulated job that ships with whyidle: a convolutional network on a simulated A100, its batches "
    "loaded in the training process. This is what whyidle says of it:"
)
YOURS = "To record your own job: whyidle demo --record"

# The one recipe: the README and the docs show it, every hint leads here.
RECORD = """\
from torch.profiler import profile, schedule, tensorboard_trace_handler

# Records 6 steps after 7, so the loop needs 13; for a shorter one take a
# smaller wait. Then: whyidle runs/one
with profile(schedule=schedule(wait=5, warmup=2, active=6, repeat=1),
             on_trace_ready=tensorboard_trace_handler("runs/one")) as prof:
    for batch in loader:
        ...  # the training step, as it is
        prof.step()
"""


@cache
def report(recording: Recording, *, drawn: bool = False) -> Report:
    """Judge a recording that ships with the package, as `diagnose` would; `drawn`: with what a page draws of it."""
    name = f"demo/{recording}.json.gz"
    with as_file(files("whyidle") / "demo" / f"{recording}.json.gz") as path:
        run = load([path])
    run = replace(run, traces=tuple(replace(trace, path=name) for trace in run.traces))
    measured = measured_of(run)
    found = cost.price(judge(run, measured=measured))
    if not drawn:
        return found
    from whyidle.picture import picture_of  # noqa: PLC0415 - few ask for it

    return replace(found, picture=picture_of(run, measured, found))


def story(look: Look) -> str:
    """Return what this is, the verdict, and what the change brought."""
    around = [write(_filled(said, look), look) for said in ((WHAT,), change())]
    left = look.lines - sum(len(text.splitlines()) for text in around)  # so that the story is one screen, too
    verdict = renderer("terminal").render(report("before"), replace(look, spaced=False, lines=left))
    parts = (around[0], verdict, around[1])
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _filled(paragraphs: Iterable[str], look: Look) -> Iterator[Text]:
    for paragraph in paragraphs:
        yield from hang(Text("  "), Text(paragraph), min(look.width, 100))


def change() -> tuple[str, ...]:
    """Say what the change brought: the recording from after it beside the one from before."""
    before, after = report("before").summary, report("after").summary
    assert before.step_time_s is not None
    assert after.step_time_s is not None
    following = [finding.rule for finding in report("after").findings[:1]] or ["nothing"]
    brought = (
        f"With that change, simulated too: {before.step_time_s * 1e3:.0f} → {after.step_time_s * 1e3:.0f} ms/step, "
        f"{before.step_time_s / after.step_time_s:.1f}x as fast; idle {after.gpu_idle_share:.0%} of the time, not "
        f"{before.gpu_idle_share:.0%}. The next limit: {following[0]}."
    )
    return brought, YOURS


def demo(
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option("--format", "-f", help="terminal, html, json, …, as of diagnose; by -o's suffix, else terminal."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All findings in full, and the tables behind the numbers.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
    record: Annotated[bool, typer.Option("--record", help="Print instead how to record a job of your own.")] = False,
) -> int:
    """Show the whole story on a simulated job.

    Two recordings ship with whyidle, and say that they are simulated: a convolutional network whose batches are
    loaded in the training process, and the same with four workers. Needs no GPU and no PyTorch.

    With --format or -o report.html the report is that of the first one.
    """
    chosen = format_of(output, format)
    renders = renderer(chosen)
    with destination(output, force=force, color=not no_color, everything=everything) as out:
        if record:
            out.write(RECORD)
        elif chosen == "terminal":
            text = story(out.look)
            out.write(f"\n{text}\n" if out.look.spaced else text)
        else:
            out.write(renders.render(report("before", drawn=renders.draws), out.look))
    return 0
