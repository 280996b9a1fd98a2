"""An address in, evidence files out. Nothing is fetched that nobody named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import whyidle.fetch as package
from whyidle.discover import discover
from whyidle.errors import WhyIdleError
from whyidle.fetch.base import ADDRESS, Progress, Source, shown
from whyidle.model.evidence import Curve, Run

__all__ = ["Brought", "Source", "brought", "is_address", "source_of"]


@dataclass(frozen=True, slots=True)
class Brought:
    """Paths of this machine, and the addresses that some of them come from."""

    paths: list[Path]
    names: Mapping[str, str]  # path: address

    def named(self, run: Run) -> Run:
        """Return a run that speaks of addresses where its files lie only for the moment."""
        if not self.names:
            return run
        return replace(
            run,
            curves=tuple(self._curve(curve) for curve in run.curves),
            traces=tuple(replace(trace, path=self.said(trace.path)) for trace in run.traces),
            ignored=tuple(replace(file, path=self.said(file.path), why=self.said(file.why)) for file in run.ignored),
            warnings=tuple(map(self.said, run.warnings)),
        )

    def said(self, text: str) -> str:
        """Return a text with addresses for paths."""
        for path, address in self.names.items():
            text = text.replace(path, address)
        return text

    def _curve(self, curve: Curve) -> Curve:
        facts = tuple(replace(fact, where=self.said(fact.where)) for fact in curve.facts)
        warnings = tuple(map(self.said, curve.warnings))
        return replace(curve, path=self.said(curve.path), facts=facts, warnings=warnings)


@contextmanager
def brought(paths: str | Path | Sequence[str | Path], progress: Progress | None = None) -> Iterator[Brought]:
    """Fetch the addresses among `paths` into a folder that is gone afterwards; paths stay as they are.

    Raises:
        WhyIdleError: an address cannot be fetched. What is raised inside speaks of addresses, too.
    """
    given = [paths] if isinstance(paths, str | Path) else paths
    sources = [source_of(str(path)) if is_address(path) else None for path in given]  # before any is asked
    if not any(sources):
        yield Brought([Path(path) for path in given], {})
        return
    with tempfile.TemporaryDirectory(prefix="whyidle-") as folder:
        files: list[Path] = []
        names: dict[str, str] = {}
        for number, (path, source) in enumerate(zip(given, sources, strict=True)):
            if source is None:
                files.append(Path(path))
                continue
            address = str(path)
            place = Path(folder, str(number))
            place.mkdir()
            fetched = source().fetch(address, place, progress)
            files += fetched
            names |= {str(file): shown(address) for file in fetched}
        here = Brought(files, names)
        try:
            yield here
        except WhyIdleError as error:
            raise WhyIdleError(here.said(error.message), here.said(error.hint)) from error


@cache
def all_sources() -> tuple[type[Source], ...]:
    """Return every source, by module name."""
    return tuple(discover(package, Source))


def source_of(address: str) -> type[Source]:
    """Return the source that knows an address.

    Raises:
        WhyIdleError: none does.
    """
    scheme = address.partition("://")[0].lower()
    found = next((source for source in all_sources() if scheme in source.schemes), None)
    if found is None:
        known = ", ".join(f"{name}://" for source in all_sources() for name in source.schemes)
        raise WhyIdleError(
            f"{shown(address)}: whyidle fetches nothing from {scheme}://; it knows {known}",
            "copy it to this machine first",
        )
    return found


def is_address(path: str | Path) -> bool:
    """Say whether this is an address, not a path: `scheme://`, and no file of that name."""
    return isinstance(path, str) and ADDRESS.match(path) is not None and not Path(path).exists()
