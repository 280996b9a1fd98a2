"""Read what can be read of a run of events that is not valid JSON.

Seen: no comma between two events, comments, NaN, bytes that are no UTF-8, control characters in names, single
backslashes, an end in the middle of an event. Slow, and only asked where the fast way failed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

EVENT: Final = re.compile(r'\}\s*(?:,\s*)?(?=\{[^{}"]*"(?:ph|name|cat|pid|tid|ts|dur|args)"\s*:)')
BETWEEN: Final = re.compile(r"\s*(?:,\s*)?")
END: Final = re.compile(r'\}\s*(?:,\s*)?(?=\]\s*(?:,\s*"[^"\\]*"\s*:|\}?\s*$))')
BACKSLASH: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')

# Floats stay text so that no nanosecond is lost; NaN and Infinity become null, which is no time.
DECODER: Final = json.JSONDecoder(strict=False, parse_float=str, parse_constant=lambda _: None)


MOST_OPEN: Final = 1 << 22  # text of one event to wait for the end of


@dataclass(slots=True)
class Salvage:
    """What was saved."""

    events: list[bytes] = field(default_factory=list)  # valid JSON, one event each
    broken: int = 0  # events that could not be read
    rest: bytes = b""  # from the start of an event whose end is missing
    trailer: bytes | None = None  # from the bracket that ends the list of events; None if that is not here


def salvage(run: bytes, *, more: bool) -> Salvage:
    """Take the events out of `run` one by one; `more` text may follow, with the end of the last of them."""
    text = run.decode("utf-8", "replace")
    saved = Salvage()
    position = _skip(text, 0)
    while position < len(text):
        if text[position] == "]":
            saved.trailer = text[position:].encode()
            break
        try:
            event, end = _event(text, position)
            saved.events.append(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            end = 0 if more and _is_unfinished(error, text, position) else _resume(text, position)
            if not end:
                saved.rest = text[position:].encode()
                break
            saved.broken += 1
        position = _skip(text, end)
    return saved


def _skip(text: str, position: int) -> int:
    found = BETWEEN.match(text, position)
    return found.end() if found else position


def _event(text: str, position: int) -> tuple[object, int]:
    """Return the event at `position` and where it ends; ValueError or RecursionError if it is broken."""
    try:
        return DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Invalid \\"):
            raise
    end = _resume(text, position) or len(text)
    repaired = BACKSLASH.sub(lambda match: match[0] if match[1] else r"\\", text[position:end])
    event, used = DECODER.raw_decode(repaired)
    if repaired[used:].strip(" \t\r\n,"):
        raise ValueError
    return event, end


def _is_unfinished(error: Exception, text: str, position: int) -> bool:
    """Say whether what is wrong is only that the text ends."""
    if not isinstance(error, json.JSONDecodeError) or len(text) - position > MOST_OPEN:
        return False
    return error.pos >= len(text.rstrip(" \t\r\n,")) or error.msg.startswith("Unterminated string")


def _resume(text: str, position: int) -> int:
    """Return where to go on after a broken event: behind the brace before the next one, or before the end; else 0."""
    found = EVENT.search(text, position) or END.search(text, position)
    return found.start() + 1 if found else 0
