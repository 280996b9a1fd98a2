"""What to paste once it is known which cell to take: the command or the argument, and what proves it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from whyidle.model.trial import Cell, Params
from whyidle.sweep.parameters import Parameter, applied


def take(parameters: Sequence[Parameter], params: Params, command: Sequence[str]) -> str:
    """Return the command with the values of a cell; what is set inside the job stands in front, for the script."""
    job = applied(parameters, params, command)
    loader, torch = (
        [(name.partition(":")[2], value) for name, value in job.settings.items() if name.startswith(kind)]
        for kind in ("loader:", "torch:")
    )
    changes = [f"DataLoader(..., {', '.join(f'{name}={_python(value)}' for name, value in loader)})"] if loader else []
    if torch:
        run = ["whyidle", "run", *(word for name, value in torch for word in ("--set", f"torch:{name}={value}"))]
        changes.append(shlex.join([*run, "--", *job.command]))
    if job.environment or tuple(job.command) != tuple(command):
        variables = [f"{name}={shlex.quote(value)}" for name, value in job.environment.items()]
        changes += [] if torch else [" ".join([*variables, shlex.join(job.command)])]
    return " and ".join(changes) or shlex.join(job.command)


def proof(folder: Path, cells: Sequence[Cell], params: Params) -> str:
    """Return the command that compares the one to take with another, the first that worked if it can be."""
    ok = [cell for cell in cells if cell.status == "ok" and cell.throughput is not None and cell.folder]
    chosen = next((cell for cell in ok if dict(cell.params) == dict(params)), None)
    if chosen is None:
        return ""
    other = ok[0] if ok[0] is not chosen else next((cell for cell in ok if cell is not chosen), None)
    if other is None:
        return ""
    return shlex.join(["whyidle", "compare", str(folder / other.folder), str(folder / chosen.folder)])


def _python(value: str) -> str:
    return {"on": "True", "off": "False"}.get(value, value if value.isdecimal() else repr(value))
