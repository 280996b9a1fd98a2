"""JSON from a job that was watched, as typed values. What is missing has its default; what is wrong is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from whyidle.read.base import UnreadableError
from whyidle.read.blocks import content_of

MOST_JSON: Final = 4 << 20  # bytes; the format bounds its JSON files far below
VERSION: Final = 1  # of the run directory, the newest that is known

# Numbers beyond these are damage, and arithmetic with them would fail.
LARGEST: Final = 1 << 62
Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Float: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
# What msgspec raises for text that is no JSON, has other types, or is nested too deeply.
WRONG: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def file_as(path: Path, kind: type[S], warnings: list[str]) -> S:
    """Return a JSON file as an object of `kind`; UnreadableError if it is none."""
    try:
        content, size = content_of(path, MOST_JSON)
    except OSError as error:
        raise UnreadableError(path, f"cannot be read: {error.strerror or error}.", damaged=True) from error
    if size > MOST_JSON:
        raise UnreadableError(path, f"larger than {MOST_JSON >> 20} MiB, which is not read.", damaged=True)
    try:
        return text_as(content, kind, path, warnings)
    except WRONG as error:
        raise UnreadableError(path, f"damaged, left out ({_why(error)}).", damaged=True) from error


def text_as(content: bytes, kind: type[S], path: Path, warnings: list[str]) -> S:
    """Return JSON text as an object of `kind`: fields of a wrong type are left out, with a warning; raises WRONG."""
    try:
        value = msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError:
        value, wrong = _field_by_field(content, kind)
        warnings.append(f"{path}: {', '.join(wrong)}: not of the type that was expected, left out.")
    version = getattr(value, "version", VERSION)
    if version > VERSION:
        warnings.append(
            f"{path}: written by a newer whyidle (version {version}); what this one knows of it is read. "
            "To read all of it: pip install -U whyidle"
        )
    return value


def each(items: Sequence[msgspec.Raw] | None, kind: type[T], path: Path, warnings: list[str]) -> Iterator[T]:
    """Yield the entries of a list that are of `kind`; tell how many are not."""
    wrong = 0
    for item in items or ():
        try:
            yield msgspec.json.decode(item, type=kind)
        except WRONG:
            wrong += 1
    if wrong:
        warnings.append(f"{path}: {wrong:,} of {len(items or ()):,} entries are damaged and left out.")


def _field_by_field(content: bytes, kind: type[S]) -> tuple[S, list[str]]:
    given = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    good: dict[str, object] = {}
    wrong: list[str] = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name in given:
            try:
                good[field.name] = msgspec.json.decode(given[field.encode_name], type=field.type)
            except WRONG:
                wrong.append(field.encode_name)
    return kind(**good), wrong


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
