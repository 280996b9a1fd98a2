"""The command line. One file per verb; a new verb is a new file with a function of the same name.

`main` is the only place where errors become text and an exit code: 0 judged, nothing at medium or above;
1 findings there; 2 could not judge, or wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from whyidle._version import __version__
from whyidle.errors import WhyIdleError

INTERRUPTED = 128 + 2  # as a shell reports SIGINT
PIPE_CLOSED = 128 + 13  # and SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: arguments without the program's name; None takes them from the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    runs = arguments[:1] == ["run"]  # which shows nothing of its own on standard output
    if not _has_streams(runs):
        return 2
    if arguments in (["--version"], ["-V"], ["version"]):
        # Before anything heavy is imported: scripts and prompts ask this often.
        sys.stdout.write(f"whyidle {__version__}\n")
        return 0
    try:
        code: int = importlib.import_module("whyidle.cli._verbs").run(arguments)
        sys.stdout.flush()
        if code == INTERRUPTED and not runs:  # typer makes this of it; there it is the job's own
            raise KeyboardInterrupt
    except WhyIdleError as error:
        told = importlib.import_module("whyidle.render.words").told
        for head, text in (("whyidle: ", error.message), ("hint: ", error.hint)):
            if text:
                sys.stderr.write(head + "\n".join(map(told, text.splitlines())) + "\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`).
        importlib.import_module("whyidle.cli._destination").abandon(sys.stdout)
        return PIPE_CLOSED
    return code


def _has_streams(runs: bool) -> bool:
    """Replace streams that the caller closed (`2>&-`), where we can do without them."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as the process
    if sys.stdout is None and runs:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - so does this
    if sys.stdout is None:
        sys.stderr.write("whyidle: standard output is closed, so nothing can be shown\nhint: -o FILE writes a report\n")
    return sys.stdout is not None


def __getattr__(name: str) -> object:
    if name == "app":  # every verb, for who documents or completes them; typer is imported only now
        return importlib.import_module("whyidle.cli._verbs").application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
