"""Keeps what Kineto says about itself off the job's stderr, and nothing else.

Kineto writes to file descriptor 2 when it starts and stops, and its log level can be set only once in a process, which
would also silence the user's own profiler. So for the length of one call descriptor 2 is a file in memory; what is not
Kineto's own goes on to where it was going.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

KINETO = re.compile(rb"^\s*(\w+:)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ \S+\.(cpp|h):\d+\] ")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Run a block without Kineto's lines on stderr."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
        real = os.dup(2)
    except Exception:  # the job closed it, or has put something else in its place
        yield
        return
    try:
        with _memory() as kept:
            os.dup2(kept.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(real, 2)
                kept.seek(0)
                others = [line for line in kept.read().splitlines(keepends=True) if not KINETO.match(line)]
                if others:
                    os.write(real, b"".join(others))
    finally:
        os.close(real)


def _memory() -> tempfile._TemporaryFileWrapper[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("whyidle"), "w+b")  # type: ignore[return-value]
    return tempfile.TemporaryFile()  # type: ignore[return-value]
