"""Read what can be read of a run of events that is not valid JSON.

Seen: no comma between two events, comments, NaN, bytes that are no UTF-8, control characters in names, single
backslashes, an end in the middle of an event. Slow, and only asked where the fast way failed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

EVENT: Final = re.compile(r'\}\s*,?\s*(?=\{[^{}"]*"(?:ph|name|cat|pid|tid|ts|dur|args)"\s*:)')
NEXT: Final = re.compile(r"\s*,?\s*")
END: Final = re.compile(r'\}\s*,?\s*(?=\]\s*(?:,\s*"[^"\\]*"\s*:|\}?\s*$))')
BACKSLASH: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')

# Floats stay text so that no nanosecond is lost; NaN and Infinity become null, which is no time.
DECODER: Final = json.JSONDecoder(strict=False, parse_float=str, parse_constant=lambda _: None)


@dataclass(slots=True)
class Salvage:
    """What was saved."""

    events: list[bytes] = field(default_factory=list)  # valid JSON, one event each
    broken: int = 0  # events that could not be read
    rest: bytes = b""  # text of an event whose end is missing
    trailer: bytes | None = None  # from the bracket that ends the list of events; None if that is not here


def salvage(run: bytes) -> Salvage:
    """Take the events out of `run` one by one."""
    text = run.decode("utf-8", "replace")
    saved = Salvage()
    position = NEXT.match(text, 0).end()  # type: ignore[union-attr]
    while position < len(text):
        if text[position] == "]":
            saved.trailer = text[position:].encode()
            break
        event, end = _one(text, position)
        if end:
            saved.events.append(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
        else:
            end = _resume(text, position)
            if not end:
                saved.rest = text[position:].encode()
                break
            saved.broken += 1
        position = NEXT.match(text, end).end()  # type: ignore[union-attr]
    return saved


def _one(text: str, position: int) -> tuple[object, int]:
    """Return the event at `position` and where it ends; 0 if it is broken."""
    try:
        return DECODER.raw_decode(text, position)
    except (ValueError, RecursionError) as error:
        if not str(error).startswith("Invalid \\"):
            return None, 0
    end = _resume(text, position) or len(text)
    try:
        repaired = BACKSLASH.sub(lambda match: match[0] if match[1] else r"\\", text[position:end])
        event, used = DECODER.raw_decode(repaired)
    except (ValueError, RecursionError):
        return None, 0
    return event, end if not repaired[used:].strip(" \t\r\n,") else 0


def _resume(text: str, position: int) -> int:
    """Return where to go on after a broken event: behind the brace before the next one, or before the end; else 0."""
    found = EVENT.search(text, position) or END.search(text, position)
    return found.start() + 1 if found else 0
