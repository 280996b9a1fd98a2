"""Whether what was watched is one job: runs that lie side by side are never judged as one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from whyidle.errors import SeveralRunsError, WhyIdleError
from whyidle.model.evidence import Node
from whyidle.read.base import Part

SWEEP: Final = "sweep.json"  # in the folder of a sweep
NAMED: Final = 10  # runs that a message lists
LONGEST: Final = 80  # characters of a command in it
# What the commands of one job differ in from machine to machine.
OF_MACHINE: Final = re.compile(r"--?(?:node|machine)[-_]rank|--local[-_]addr|--nodeid|--host")
NS: Final = 1_000_000_000


def one_job(parts: Sequence[Part]) -> None:
    """Do nothing if node folders are those of one job.

    Those in one folder are. Those in several are where they ran the same command at the same time on different
    machines, and no rank of it twice; copies of one recording are one.

    Raises:
        SeveralRunsError: they are of several runs, which it lists.
    """
    by_folder: dict[Path, list[Part]] = {}
    for part in parts:
        by_folder.setdefault(Path(part.node.path).parent.resolve(), []).append(part)
    runs: list[list[Part]] = []
    for own in sorted(by_folder.values(), key=lambda own: -_began(own)):
        known = next((run for run in runs if all(_together(one, other) for one in run for other in own)), None)
        if known is None:
            runs.append(list(own))
        else:
            known += own
    if len(runs) > 1:
        _no_sweep(runs)
        newest = Path(runs[0][0].node.path).parent
        lines = [_line(run) for run in runs[:NAMED]]
        more = [f"  and {len(runs) - NAMED:,} more"] if len(runs) > NAMED else []
        raise SeveralRunsError(
            "\n".join([f"{len(runs):,} runs lie there, and whyidle judges one at a time:", *lines, *more]),
            f"whyidle {newest}   # the newest",
        )


def _no_sweep(runs: Sequence[Sequence[Part]]) -> None:
    """Do nothing if runs are not the cells of one sweep.

    Raises:
        WhyIdleError: they are, which says how to see their table.
    """
    folders = sorted({Path(part.node.path).parent for run in runs for part in run})
    sweeps = {folder.parent for folder in folders}
    if len(sweeps) > 1 or not (folders[0].parent / SWEEP).is_file():
        return
    sweep = sweeps.pop()
    more = [f"  and {len(folders) - NAMED:,} more"] if len(folders) > NAMED else []
    raise WhyIdleError(
        "\n".join(
            [f"{sweep} is the folder of a sweep, with a run in each cell:", *map("  {}".format, folders[:NAMED]), *more]
        ),
        f"whyidle sweep --resume {shlex.quote(str(sweep))}   # its table again, once what is left of it has run",
    )


def _together(a: Part, b: Part) -> bool:
    """Say whether two recordings are of one job."""
    one, other = a.node, b.node
    if (one.host, one.started, one.wall) == (other.host, other.started, other.wall) and one.wall:
        return True
    if (one.host, Path(one.path).name) == (other.host, Path(other.path).name) or _ranks(a) & _ranks(b):
        return False
    return _same(one.command) == _same(other.command) and _at_once(one, other)


def _ranks(part: Part) -> set[int | None]:
    return {log.process.rank for log in part.logs if len(log)}


def _at_once(one: Node, other: Node) -> bool:
    if not one.wall or not other.wall:
        return True
    return max(one.wall, other.wall) < min(_ended(one), _ended(other))


def _ended(node: Node) -> int:
    """Return when a job ended, ns since 1970; far in the future where it runs, or nobody knows."""
    return node.wall + node.ended - node.started if node.ended else 1 << 63


def _same(command: Sequence[str]) -> list[str]:
    """Return a command without what differs from machine to machine."""
    kept: list[str] = []
    skip = False
    for word in command:
        name, equals, _ = word.partition("=")
        its_own = OF_MACHINE.fullmatch(name) is not None
        if not skip and not its_own:
            kept.append(word)
        skip = its_own and not equals
    return kept


def _began(run: Sequence[Part]) -> int:
    return max(part.node.wall for part in run)


def _line(run: Sequence[Part]) -> str:
    node = run[0].node
    command = " ".join(" ".join(node.command).split())
    short = command if len(command) <= LONGEST else command[: LONGEST - 1] + "…"
    wall = _began(run)
    began = f", started {datetime.fromtimestamp(wall // NS, UTC):%Y-%m-%d %H:%M:%S} UTC" if wall else ""
    return f"  {Path(node.path).parent}: {short or 'command not known'}{began}"
