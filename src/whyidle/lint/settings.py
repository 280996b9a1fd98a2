"""What a project has said in its pyproject.toml, and which checks are asked in the end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whyidle.errors import WhyIdleError
from whyidle.lint.checks import all_checks
from whyidle.lint.files import is_matched
from whyidle.lint.source import Source, cell_words
from whyidle.lint.suppressed import EVERYTHING
from whyidle.project import Project, project_of


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices, each as the command line or else the project made it. A code is a rule, a check, a family or "all"."""

    select: tuple[str, ...] = (EVERYTHING,)
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()  # patterns of files and folders
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # pattern: codes
    base: Path | None = None  # the folder below which patterns are meant; None: where the user stands

    def asks(self, names: tuple[str, str]) -> bool:
        """Say whether a check is asked: the closest of the codes that mean it decides."""
        return _closeness(self.select, names) > _closeness(self.ignore, names)

    def silences(self, names: tuple[str, str], path: Path, named: bool = False) -> bool:
        """Say whether what a check finds in this file is not wanted; `exclude` leaves out no file that is named."""
        base = self.base or Path.cwd()
        return bool(self.exclude and not named and is_matched(path, self.exclude, base)) or any(
            _closeness(codes, names) and is_matched(path, (pattern,), base)
            for pattern, codes in self.per_file_ignores.items()
        )


def _closeness(codes: Iterable[str], names: tuple[str, str]) -> int:
    """Return how closely one of the codes means a check of these names: 3 by name, 2 by family, 1 with all, 0 not."""
    families = {name.partition(".")[0] for name in names}
    return max(
        (3 if code in names else 2 if code in families else int(code == EVERYTHING) for code in codes), default=0
    )


def codes_in(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the codes that somebody gives, each once; commas separate them."""
    texts = [given] if isinstance(given, str) else given
    return tuple(dict.fromkeys(code.strip() for text in texts for code in text.split(",") if code.strip()))


def settings_for(path: Path, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Settings:
    """Return the settings for a path: those of the nearest pyproject.toml that has any, and what a person adds.

    Args:
        path: the first file or folder to lint.
        select: instead of what the project selects; what the project ignores counts no more.
        ignore: besides what the project ignores.

    Raises:
        WhyIdleError: for settings that there are not or that cannot be, and for codes that mean no check.
    """
    found = project_of(path)
    project = Settings() if found is None else _read(found)
    check_codes(select, "--select")
    check_codes(ignore, "--ignore")
    return Settings(
        select=tuple(select) or project.select,
        ignore=(*(() if select else project.ignore), *ignore),
        exclude=project.exclude,
        per_file_ignores=project.per_file_ignores,
        base=project.base,
    )


def check_codes(codes: Iterable[str], where: str) -> None:
    """Refuse codes that mean no check.

    Raises:
        WhyIdleError: for the first of them.
    """
    for wrong, hint in unknown(codes):
        raise WhyIdleError(f"{where}: no check is called {wrong!r}", hint)


def unknown(codes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the codes that mean no check, each with what may have been meant."""
    names = {name for check in all_checks() for name in (check.name, check.rule)}
    known = {EVERYTHING, *names, *(name.partition(".")[0] for name in names)}
    for code in codes:
        if code not in known:
            ends = {name.partition(".")[2]: name for name in sorted(known) if "." in name}
            close = difflib.get_close_matches(code, sorted(known), n=1) or [
                ends[end] for end in difflib.get_close_matches(code, sorted(ends), n=1)
            ]
            families = sorted(name for name in known if "." not in name)
            yield code, f"did you mean {close[0]}?" if close else f"a rule, or a family of rules: {', '.join(families)}"


def warnings_of(source: Source) -> tuple[str, ...]:
    """Return what is wrong with the comments of a file that silence: one that names no check silences nothing."""
    told = []
    for line, codes in sorted(source.ignored.items()):
        cell = source.cell(line)
        place = f"{source.name}, {cell_words(cell)}" if cell else f"{source.name}:{line}" if line else source.name
        told += [
            f"{place}: `whyidle: ignore`: no check is called {code!r}; {hint}" for code, hint in unknown(sorted(codes))
        ]
    return tuple(told)


def _read(project: Project) -> Settings:
    where, section = project.where, project.settings
    found = {key: _texts(section[key], f"{where}: {key}") for key in ("select", "ignore", "exclude") if key in section}
    per_file = section.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise WhyIdleError(f"{where}: per-file-ignores is no table", '"tests/**" = ["sync"]')
    ignores = {pattern: _texts(codes, f"{where}: per-file-ignores") for pattern, codes in per_file.items()}
    for key in ("select", "ignore"):
        check_codes(found.get(key, ()), f"{where}: {key}")
    for codes in ignores.values():
        check_codes(codes, f"{where}: per-file-ignores")
    return Settings(
        select=found.get("select", (EVERYTHING,)),
        ignore=found.get("ignore", ()),
        exclude=found.get("exclude", ()),
        per_file_ignores=ignores,
        base=project.file.parent,
    )


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WhyIdleError(f"{where} has to be a list of texts, and is {value!r}", '["sync.scalar_read", "input"]')
    return tuple(value)
