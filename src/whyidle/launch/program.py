"""Which file a command starts, found before anything is recorded: a command that is not there makes no recording."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells report it


class NotStartedError(Exception):
    """The command cannot be started.

    Args:
        message: what is wrong with it.
        code: what a shell would return, 127 or 126.
        hint: what to type instead; empty when there is nothing to add.
    """

    def __init__(self, message: str, code: int, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Program:
    """A command and the file that it starts."""

    path: str
    arguments: tuple[str, ...]  # with the name as it was typed in front

    @property
    def name(self) -> str:
        """Return what people call such a job: its script or module, else its program."""
        return _name(self.arguments)


def find(command: Sequence[str]) -> Program:
    """Return what a shell would start for a command.

    Raises:
        NotStartedError: with the shell's own exit code, when there is no such file or it cannot be executed.
    """
    typed = command[0]
    path = typed if "/" in typed else shutil.which(typed)
    if path is None:
        raise _not_on_path(command)
    if not os.path.lexists(path):
        raise NotStartedError(f"{typed}: no such file", NOT_FOUND, _with_python(command))
    if Path(path).is_dir():
        raise NotStartedError(f"{typed} is a folder", NOT_EXECUTABLE)
    if not os.access(path, os.X_OK):
        raise NotStartedError(f"{typed}: it is not executable", NOT_EXECUTABLE, _with_python(command))
    return Program(path, tuple(command))


def refused(program: Program, error: OSError) -> NotStartedError:
    """Return why the system did not execute a file that is there."""
    why = error.strerror or str(error)
    if error.errno == errno.ENOENT:  # of a file that is there: what its first line names is not
        why = "its interpreter does not exist"
    return NotStartedError(f"{program.arguments[0]}: {why}", NOT_EXECUTABLE)


def _not_on_path(command: Sequence[str]) -> NotStartedError:
    typed = command[0]
    folders = [Path(folder) for folder in os.get_exec_path() if folder]
    if any(_is_file(folder / typed) for folder in folders):
        return NotStartedError(f"{typed}: it is not executable", NOT_EXECUTABLE)
    return NotStartedError(f"{typed or repr(typed)}: command not found", NOT_FOUND, _with_python(command))


def _with_python(command: Sequence[str]) -> str:
    """Return a hint where somebody left out `python`."""
    script = command[0]
    if not script.endswith(".py"):
        return ""
    python = next((name for name in ("python", "python3") if shutil.which(name)), "python")
    typed = " ".join(["whyidle run --", python, *command])
    return typed if _is_file(script) else f"a script needs {python} in front, and {script} is not here: {typed}"


def _name(arguments: Sequence[str]) -> str:
    for position, word in enumerate(arguments):
        if word.endswith(".py"):
            return Path(word).stem
        if (
            word == "-m"
            and position + 1 < len(arguments)
            and not arguments[position + 1].startswith("torch.distributed")
        ):
            return arguments[position + 1].removesuffix(".__main__").rpartition(".")[2]
    script = next((word for word in arguments[1:] if word.endswith((".sh", ".bash"))), arguments[0])
    return Path(script).stem


def _is_file(path: str | Path) -> bool:
    """Say whether a file is there; a name that no file can have is that of none."""
    return os.path.isfile(path)  # noqa: PTH113 - which raises for such a name
