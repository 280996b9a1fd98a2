"""Find the verb that is meant and run it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperCommand

import whyidle.cli as package
from whyidle.cli._destination import holds
from whyidle.errors import WhyIdleError

# Typer now carries its own copy of click, before it used click's: what both raise at a wrong command line
# is the second base of BadParameter.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])

# What plain `whyidle PATH` means.
DEFAULT = "diagnose"
ALIKE = 0.65  # of two words (difflib's ratio): "rnu" is "run", "learn" is not "alarm" (judgement)
_HELP = """Tells you why your GPU is idle, what to change, and what that is worth.

`whyidle PATH` is short for `whyidle diagnose PATH`.

    whyidle runs/resnet50/
    whyidle trace.json.gz --price 2.60

To measure your job as it is: whyidle run -- python train.py

Exit code: 0 judged, no finding of 5% of the time or more; 1 there is one; 2 could not judge, the recording
does not show what to change, or wrong usage.
"""


def verbs() -> tuple[str, ...]:
    """Return the names of all verbs: the modules of this package without an underscore."""
    return tuple(info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))


def application(names: Iterable[str] | None = None) -> typer.Typer:
    """Return the command line with these verbs, or with all; only their modules are imported."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # plain help: the same at every width and in every pipe
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )

    @app.callback(help=_paragraphs(_HELP))
    def root(
        version: bool = typer.Option(False, "--version", "-V", help="Print the version."),
    ) -> None: ...

    for name in verbs() if names is None else names:
        module = importlib.import_module(f"{package.__name__}.{name}")
        verb = getattr(module, name)
        settings = getattr(module, "CONTEXT", None)
        about = _paragraphs(inspect.getdoc(verb) or "")
        app.command(name, cls=_Verb, help=about, context_settings=settings)(verb)
    return app


class _Verb(TyperCommand):
    """A verb whose help names what is given as its page does, and not by types of Python."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a format in capital letters, too."""
        rest = super().parse_args(ctx, args)
        if isinstance(asked := ctx.params.get("format"), str):
            ctx.params["format"] = asked.lower()
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        write = formatter.write_dl
        formatter.write_dl = lambda rows, **how: write([_plain(*row) for row in rows], **how)
        super().format_options(ctx, formatter)


def _plain(name: str, about: str) -> tuple[str, str]:
    """Return "--kind KIND" for "--kind <str>", "PATH" for "PATH <list[str]>", and a default without brackets."""
    head, _, kind = name.removesuffix(">").rpartition(" <")
    if name.endswith(">") and head:
        given = kind if "|" in kind else head.rpartition("--")[2].upper().replace("-", "_")
        name = f"{head} {given}" if head.startswith("-") else head
    return name, re.sub(r"\[default: \(([^()]*)\)", r"[default: \1", about)


def run(arguments: Sequence[str]) -> int:
    """Run the verb that the arguments name; without one, `diagnose`.

    Raises:
        WhyIdleError: for a wrong command line, and whatever the verb raises.
    """
    known = verbs()
    if not arguments:
        run(["--help"])
        return 2
    first, *rest = arguments = list(arguments)
    if first == "help":
        return run([*rest[:1], "--help"])
    if first not in known and first not in {"-h", "--help"}:
        if not first.startswith("-"):
            _check_path(first, known)
        arguments.insert(0, DEFAULT)
    app = application((arguments[0],) if arguments[0] in known else known)
    try:
        code = app(arguments, prog_name="whyidle", standalone_mode=False)
    except UsageError as error:
        verb = arguments[0] if arguments[0] in known else ""
        raise _usage(error.format_message().rstrip("."), verb) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _usage(message: str, verb: str) -> WhyIdleError:
    """Return what is wrong with a command line; options with a close name are asked for in the hint."""
    message, _, possible = message.partition(" (Possible options: ")
    message = message.partition(". Choose from:")[0]  # of a missing word, which says the same in lines of its own
    close = [option for option in possible.rstrip(")").split(", ") if option not in {"", "--help"}]
    if message.lower().endswith("no such option: --json"):
        close = ["--format json"]
    asked = f"did you mean {' or '.join(close)}? " if close else ""
    see = f"see `whyidle {verb} --help`" if verb else "see `whyidle --help`"
    return WhyIdleError(message[:1].lower() + message[1:], asked + see)


def _check_path(first: str, known: Sequence[str]) -> None:
    """Refuse a first argument that is neither a verb nor a path that is there."""
    if holds(Path(first).exists):
        return
    if "://" in first:
        importlib.import_module("whyidle.fetch").source_of(first)
        return
    if re.search(r"[/\\.*]", first):
        raise missing(first)
    close = difflib.get_close_matches(first, known, n=1, cutoff=ALIKE)
    hint = f"did you mean `whyidle {close[0]}`?" if close else f"verbs: {', '.join(known)}"
    raise WhyIdleError(f"{first!r} is neither a verb nor an existing path", hint)


def missing(path: str) -> WhyIdleError:
    """Return what is said of a path that is not there."""
    near = _near(Path(path))
    hint = f"did you mean {near}?" if near else "PATH holds a recording of your job: whyidle run -- python train.py"
    return WhyIdleError(f"no such file or folder: {path}", hint)


def _near(path: Path) -> Path | None:
    """Return what lies beside a path that is not there and has a close name."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), 10_000)]
    except (OSError, ValueError):
        return None
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return path.with_name(close[0]) if close else None


def _paragraphs(text: str) -> str:
    """Return help text in which indented lines keep their breaks (click's mark for that is a backspace)."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(f"\b\n{part}" if part.startswith("  ") else part for part in parts)
