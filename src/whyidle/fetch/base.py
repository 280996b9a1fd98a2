"""What a source is: the one who knows how to bring what lies behind an address. One subclass, one file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from whyidle.errors import WhyIdleError

ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Greedy, up to the parameters: a password may hold an @, and a / that should have been written otherwise.
_USER: Final = re.compile(r"(://)(?:(?!\?\w+=)\S)*@")
ENCODED: Final = "in a password / is written %2F, ? %3F and # %23"


class Progress(Protocol):
    """Told how far it has come: bytes that are here, and about how many there will be."""

    def __call__(self, path: Path, bytes_done: int, bytes_total: int) -> None: ...


class Source:
    """Brings the evidence behind an address. `whyidle.fetch` finds every subclass by its schemes.

    An address is asked only where a person named it, with no credentials but those that its own tools would find.
    """

    schemes: ClassVar[tuple[str, ...]]
    example: ClassVar[str]  # an address, for a person who got one wrong

    def fetch(self, address: str, folder: Path, progress: Progress | None = None) -> list[Path]:
        """Write what lies behind the address into `folder`, and return the files.

        Raises:
            WhyIdleError: the address is wrong, who is asked does not answer, or there is nothing to judge.
        """
        raise NotImplementedError


def shown(address: str) -> str:
    """Return an address as it may be shown and kept: without user and password."""
    return _USER.sub(r"\1", address)


def parameters(address: str, allowed: tuple[str, ...], example: str) -> dict[str, str]:
    """Return what follows the question mark, by name. A plus is a plus: people write patterns and time zones by hand.

    Raises:
        WhyIdleError: a name is not one of those allowed, or comes twice.
    """
    parts = urlsplit(address)
    if "@" in parts.path or "@" in parts.fragment or "@" in parts.query.partition("=")[0]:
        raise WhyIdleError(f"{shown(address)}: an @ behind the host", ENCODED)
    given: dict[str, str] = {}
    for name, value in parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True):
        if name not in allowed or name in given:
            what = "comes twice" if name in given else f"is not one of {', '.join(allowed)}"
            raise WhyIdleError(f"{shown(address)}: {name!r} {what}", example)
        given[name] = value
    return given
