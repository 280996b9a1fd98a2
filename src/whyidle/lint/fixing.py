"""Findings mended in the file: repairs made, the result linted again, until nothing is left that can be mended."""

from __future__ import annotations

import codecs
import difflib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.errors import WhyIdleError
from whyidle.lint.batch import Library
from whyidle.lint.files import File
from whyidle.lint.findings import Linted, asked, linted, once
from whyidle.lint.parsing import parsed
from whyidle.lint.rewrite import Rewritten, rewrite
from whyidle.lint.rewrite.notebooks import cells_spliced
from whyidle.lint.rewrite.places import Refused
from whyidle.lint.settings import Settings
from whyidle.lint.source import Source, Unread

ROUNDS = 10  # as ruff; a fix that never ends is a bug of ours


@dataclass(frozen=True, slots=True)
class Fixed:
    """A file with what could be mended."""

    source: Source  # as it is now
    before: bytes
    data: bytes
    applied: tuple[Linted, ...] = ()
    skipped: tuple[tuple[Linted, str], ...] = ()  # and why

    @property
    def changed(self) -> bool:
        """Say whether anything was mended."""
        return self.data != self.before

    @property
    def diff(self) -> str:
        """Return what changes, for `patch` to make or a person to read."""
        encoding = self.source.encoding
        return diff(self.before.decode(encoding), self.data.decode(encoding), self.source.name)


def fixes(files: Sequence[File], settings: Settings, *, unsafe: bool = False) -> Iterator[Fixed]:
    """Yield each of the files that has something to mend, mended; nothing is written.

    Args:
        files: what to lint; of the modules that they import only those that are among them are mended.
        settings: which checks are asked.
        unsafe: make changes that may change results, too.
    """
    library = Library(tuple(dict.fromkeys(file.root for file in files)))
    checks = asked(settings)
    asked_for = {file.path.resolve(): file for file in files}
    found: dict[Path, list[Linted]] = {}

    def found_in(source: Source | Unread) -> list[Linted]:
        try:
            return [] if isinstance(source, Unread) else linted(source, library.project, checks, settings)
        except RecursionError:  # nests deeper than we follow
            return []

    for file in files:
        for one in found_in(library.read(file)):
            path = one.source.path.resolve()
            if path in asked_for and one.hit.repair is not None:
                found.setdefault(path, []).append(one)
    for path, ones in found.items():
        file = asked_for[path]
        data = path.read_bytes() if file.given is None else file.given
        yield fixed(ones[0].source, data, once(ones), found_in, unsafe=unsafe)


def fixed(
    source: Source,
    data: bytes,
    found: Iterable[Linted],
    again: Callable[[Source], Iterable[Linted]],
    *,
    unsafe: bool = False,
) -> Fixed:
    """Return a file with its findings mended, as far as that can be done.

    Args:
        source: the file as it was linted.
        data: the same as bytes.
        found: what was found in it.
        again: lints the file once it has changed.
        unsafe: make repairs that may change results, too.
    """
    before, first = data, source
    applied: list[Linted] = []
    skipped: list[tuple[Linted, str]] = []
    for _ in range(ROUNDS):
        offered = [one for one in found if one.hit.repair is not None and (unsafe or one.hit.repair.safe)]
        by_repair = {id(one.hit.repair): one for one in offered}
        made = rewrite(source.text, [one.hit.repair for one in offered if one.hit.repair is not None])
        skipped = [(by_repair[id(repair)], reason) for repair, reason in made.skipped]
        if not made.applied:
            break
        try:
            data = _bytes(source, data, made)
        except Refused as refused:
            skipped += [(by_repair[id(repair)], str(refused)) for repair in made.applied]
            break
        applied += [by_repair[id(repair)] for repair in made.applied]
        new = parsed(data, source.path, source.name)
        assert isinstance(new, Source), new  # `rewrite` gives Python
        source = new
        found = [one for one in again(source) if one.source is source]
    return Fixed(source if applied else first, before, data, tuple(applied), tuple(skipped))


def _bytes(source: Source, data: bytes, made: Rewritten) -> bytes:
    """Return the file with a rewritten text.

    Raises:
        Refused: where more would change than that.
    """
    bom = codecs.BOM_UTF8 if source.bom else b""
    if source.path.suffix.lower() == ".ipynb":
        content = data[len(bom) :].decode("utf-8")
        return bom + cells_spliced(content, source.text, source.cells, made.splices).encode("utf-8")
    if bom + source.text.encode(source.encoding) != data:
        raise Refused("the file has changed meanwhile, or is encoded in a way that would not be kept")
    return bom + made.text.encode(source.encoding)


def diff(before: str, after: str, name: str) -> str:
    """Return a unified diff of two texts of a file; "" where they are the same."""
    old, new = (_lines(text) for text in (before, after))
    parts = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)


def _lines(text: str) -> list[str]:
    """Return lines with their ends, which are line feeds alone, as for `patch`."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def write(path: Path, data: bytes) -> None:
    """Put new content into a file at once, so that nobody ever sees half of it; its mode stays.

    Raises:
        WhyIdleError: where that is not allowed.
    """
    place = Path(os.path.realpath(path))  # a link stays one
    try:
        if not os.access(place, os.W_OK):  # which a new file in its place would not respect
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        number, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            Path(name).chmod(place.stat().st_mode)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise WhyIdleError(f"cannot write {path}: {why}", f"whyidle lint {path} --diff shows the changes") from error
