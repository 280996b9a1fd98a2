"""`whyidle demo`: the whole story on a job that ships with the package; needs no GPU and no PyTorch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from textwrap import indent
from typing import Annotated, Literal

import typer

from whyidle import cost
from whyidle.cli._destination import destination
from whyidle.judge import judge
from whyidle.model.finding import Report
from whyidle.read import load
from whyidle.render import renderer
from whyidle.render.base import Look

Recording = Literal["before", "after"]

WHAT = """
  A demo on a simulated recording that ships with whyidle: ResNet-18, batch 128, on a simulated A100, its
  batches loaded in the training process. No GPU is needed. This is what whyidle says of such a job:
"""

RECORD = """\
from torch.profiler import ProfilerActivity, profile, schedule
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
             schedule=schedule(wait=5, warmup=2, active=6, repeat=1),
             on_trace_ready=lambda prof: prof.export_chrome_trace("trace.json.gz")) as prof:
    for batch in loader:
        ...  # the training step, as it is
        prof.step()
"""
YOURS = "  To see your own job, record a few steps of it and run `whyidle trace.json.gz`:\n\n"


@cache
def report(recording: Recording) -> Report:
    """Judge a recording that ships with the package, as `diagnose` would."""
    name = f"demo/{recording}.json.gz"
    with as_file(files("whyidle") / "demo" / f"{recording}.json.gz") as path:
        run = load([path])
    run = replace(run, traces=tuple(replace(trace, path=name) for trace in run.traces))
    return cost.price(judge(run))


def story(look: Look) -> str:
    """Return what this is, the verdict, and what the change brought."""
    verdict = renderer("terminal").render(report("before"), look)
    text = "\n".join(part.strip("\n") + "\n" for part in (WHAT, verdict, change()))
    return text if look.unicode else text.replace("→", ">")


def change() -> str:
    """Say what the change brought: the recording from after it beside the one from before."""
    before, after = report("before").summary, report("after").summary
    assert before.step_time_s is not None
    assert after.step_time_s is not None
    following = [finding.rule for finding in report("after").findings[:1]] or ["nothing"]
    return f"""\
  With DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True), simulated as well:
  {before.step_time_s * 1e3:.0f} → {after.step_time_s * 1e3:.0f} ms/step, \
{before.step_time_s / after.step_time_s:.1f}x as fast; \
the GPU is idle {after.gpu_idle_share:.0%} of the time instead of {before.gpu_idle_share:.0%}.
  What is worth a look after that: {following[0]}.
"""


def demo(
    format: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",  # noqa: A002
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Show the whole story on a simulated job.

    Two recordings ship with whyidle, and say that they are simulated: ResNet-18 with its batches loaded in the
    training process, and the same with four workers. Needs no GPU and no PyTorch.

    With --format json the report is that of the first one.
    """
    renders = renderer(format)
    with destination(color=not no_color) as out:
        told = format == "terminal"
        out.write(
            "\n".join((story(out.look), YOURS + indent(RECORD, "    "), ""))
            if told
            else renders.render(report("before"), out.look)
        )
    return 0
