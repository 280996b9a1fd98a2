"""`whyidle baseline save`: what is kept of a run, for `whyidle check` to hold later ones against."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from whyidle.cli._destination import destination
from whyidle.cli._loading import loading
from whyidle.cli._verbs import missing
from whyidle.cli.diagnose import Paths
from whyidle.compare.baseline import baseline_from
from whyidle.errors import WhyIdleError
from whyidle.fetch import is_address
from whyidle.render.gate import baseline_json, baseline_text
from whyidle.render.words import clean

Repeats = Annotated[
    list[str] | None,
    typer.Option("--repeat", metavar="RUN", help="The same job, started once more; as often as you like."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
ONCE: Final = "it is of one start of the job: how much one differs from the next is not known. --repeat RUN adds more."


def starts_of(paths: list[str], repeats: list[str] | None) -> list[list[str]]:
    """Return the paths of each start of a job: those of the first may be several files, as of its ranks.

    Raises:
        WhyIdleError: one of them is not there, which is told before anything is read or written.
    """
    for path in (*paths, *(repeats or ())):
        if not (is_address(path) or path == "-" or os.path.lexists(path)):
            raise missing(path)
    return [paths, *([path] for path in repeats or ())]


def baseline(
    what: Annotated[Literal["save"], typer.Argument(metavar="save", help="Keep what a run was and how it did.")],
    paths: Paths,
    repeat: Repeats = None,
    output: Output = Path("baseline.json"),
    overwrite: Annotated[bool, typer.Option("--overwrite", "--force", help="Replace the file.")] = False,
    format: Annotated[  # noqa: A002
        Literal["terminal", "json"],
        typer.Option("--format", "-f", case_sensitive=False, help="Of what is shown: terminal or json."),
    ] = "terminal",
    no_color: Annotated[bool, typer.Option("--no-color", help="No color (as NO_COLOR=1).")] = False,
) -> int:
    """Keep what a run was and how it did, to hold later ones against.

    That is its GPUs, batch size, model and precision; its step times, idle time, waits and memory. Check the file
    in, or keep it where CI finds it: `whyidle check` holds later runs against it.

    For example:

        whyidle run -o runs/good -- python train.py --steps 500
        whyidle baseline save runs/good -o baseline.json
        whyidle baseline save good-1/ --repeat good-2/ --repeat good-3/
        whyidle check new/ --baseline baseline.json --max-throughput-loss 5%

    Exit code: 0 saved; 2 there is nothing to keep, or wrong usage.
    """
    assert what == "save"
    starts = starts_of(paths, repeat)
    with destination(output, force=overwrite, option="--overwrite", example="-o baseline.json") as file:
        with loading() as progress:
            kept, doubts = baseline_from(starts, datetime.now(UTC).isoformat(timespec="seconds"), progress)
        if not kept.step_seconds and kept.gpu_idle_share is None and kept.data_wait_share is None:
            raise WhyIdleError(
                "there is nothing to keep: neither steps nor idle time nor waits were measured",
                "whyidle run -- python train.py records them",
            )
        file.write(baseline_json(kept))
    for said in (*doubts, *([ONCE] if len(kept.step_seconds) == 1 else [])):
        sys.stderr.write(f"whyidle: warning: {clean(said)}\n")
    with destination(color=not no_color) as out:
        if format == "json":
            out.write(baseline_json(kept, ascii_only=not out.look.unicode))
        else:
            out.write(baseline_text(kept, str(output), out.look))
    return 0
