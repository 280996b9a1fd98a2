"""Where a report goes, and how it has to look there: a terminal, a pipe or a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import typer

from whyidle.cli import PIPE_CLOSED
from whyidle.errors import WhyIdleError
from whyidle.render.base import Colors, Look

# What the name of a file says about the format of the report in it.
SUFFIXES: Final = {
    ".json": "json", ".html": "html", ".htm": "html", ".md": "markdown", ".sarif": "sarif", ".xml": "junit",
}  # fmt: skip
PLAIN: Final = frozenset({"", ".txt", ".text", ".log", ".out"})  # suffixes of files of what a terminal shows
TO: Final = "--report report.html"  # of verbs whose -o is a folder

_DRAWN_WITH = "█▏·\N{EN DASH}→…µ"


@dataclass(slots=True)
class Destination:
    """An open place for one report."""

    stream: TextIO
    name: str
    look: Look
    is_written: bool = False

    def write(self, text: str) -> None:
        """Write the report and make sure that it is there."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            # Not passed on: typer would make 1 of it, which says that there are findings.
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            abandon(self.stream)
            raise WhyIdleError(f"cannot write the report to {self.name}: {error.strerror}") from None
        self.is_written = True


def format_of(path: Path | None, asked: str | None = None, among: Container[str] | None = None) -> str:
    """Return the format of a report: what was asked for, else what the suffix of its file says, else "terminal".

    Args:
        path: the file; None is standard output.
        asked: what --format says; whether there is such a format is not looked at.
        among: formats that the verb writes; None: all of `SUFFIXES`.

    Raises:
        WhyIdleError: the suffix is that of no format which the verb writes.
    """
    if asked is not None:
        return asked
    if path is None or (suffix := path.suffix.lower()) in PLAIN or holds(path.is_dir):  # which `destination` refuses
        return "terminal"
    known = [one for one, said in SUFFIXES.items() if among is None or said in among]
    if suffix not in known:
        hint = f"a name that ends in {', '.join(known)} or .txt; --format FORMAT writes to any"
        raise WhyIdleError(f"{path}: no format of a report here is called {suffix}", hint)
    return SUFFIXES[suffix]


def holds(claim: Callable[[], bool]) -> bool:
    """Return what a path says of itself, `path.is_dir`; False of a name that no file system takes."""
    try:
        return claim()
    except (OSError, ValueError):
        return False


def check_folder(path: Path | None) -> None:
    """Refuse for the folder of the evidence a name that is that of a report.

    Raises:
        WhyIdleError: it is one, and no such folder is there.
    """
    if path is not None and path.suffix.lower() in SUFFIXES and not holds(path.is_dir):
        raise WhyIdleError(f"-o is the folder of the evidence, and {path} is called like a report", f"--report {path}")


def abandon(stream: TextIO) -> None:
    """Let what is left in the buffer of a stream that failed go nowhere: it must not be flushed again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def destination(
    path: Path | None = None,
    *,
    force: bool = False,
    color: bool = True,
    everything: bool = False,
    option: str = "--force",
    example: str = "-o report.html",
) -> Iterator[Destination]:
    """Open where the report goes before the work begins, so that a bad path fails early.

    Args:
        path: file to create; None is standard output. It is removed again if no report comes.
        force: whether it may replace a file.
        color: False for no color even on a terminal.
        everything: passed on to the look.
        option: what the verb calls `force`.
        example: how the verb is told of a file.

    Raises:
        WhyIdleError: when the file is there already or cannot be created.
    """
    if path is None:
        yield Destination(sys.stdout, "standard output", look_of(sys.stdout, color, everything))
        return
    existed = os.path.lexists(path)
    if holds(path.is_dir):
        flag, _, name = example.partition(" ")
        raise WhyIdleError(f"{path} is a folder; the report is a file", f"{flag} {path / name}")
    try:
        # "a" shows whether an old file can be written without emptying it: it goes only when the new report is there.
        stream = path.open("a" if force else "x", encoding="utf-8", newline="\n")
    except FileExistsError:
        raise WhyIdleError(f"{path} exists already", f"{option} replaces it") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise WhyIdleError(f"cannot write the report to {path}: {why}") from None
    kind = _Replacing if path.is_file() else Destination  # a device or a pipe
    out = kind(stream, str(path), Look(everything=everything))
    done = False
    try:
        with stream:
            yield out
        done = True
    finally:
        if not (done or out.is_written or existed):
            path.unlink(missing_ok=True)


class _Replacing(Destination):
    """A file whose old content goes when the new is ready."""

    __slots__ = ()

    def write(self, text: str) -> None:
        self.stream.truncate(0)
        Destination.write(self, text)


def look_of(stream: TextIO, color: bool, everything: bool) -> Look:
    """Return what the stream can show (https://no-color.org for NO_COLOR)."""
    terminal = stream.isatty()
    dumb = os.environ.get("TERM") == "dumb" or (sys.platform == "win32" and "WT_SESSION" not in os.environ)
    try:
        _DRAWN_WITH.encode(stream.encoding or "utf-8")
        unicode = True
    except (UnicodeEncodeError, LookupError):
        unicode = False
    return Look(
        width=_width(stream),
        color=color and terminal and not dumb and not os.environ.get("NO_COLOR"),
        unicode=unicode,
        everything=everything,
        spaced=terminal,
        colors=_colors(),
    )


def _colors() -> Colors:
    """Return how many colors the terminal says that it has: COLORTERM, and the end of the name in TERM."""
    if os.environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"} or "WT_SESSION" in os.environ:
        return "truecolor"
    return "256" if os.environ.get("TERM", "").lower().endswith("256color") else "standard"


def _width(stream: TextIO) -> int:
    """Return COLUMNS, which counts in a pipe too since it was set on purpose; else what the terminal has."""
    if "COLUMNS" in os.environ or stream.isatty():
        return shutil.get_terminal_size((100, 24)).columns
    try:
        # A pager or `tee` shows the report in the terminal where errors go.
        return os.get_terminal_size(sys.stderr.fileno()).columns or 100
    except (OSError, ValueError, AttributeError):
        return 100
