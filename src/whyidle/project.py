"""What a project has said to whyidle: the section [tool.whyidle] of the nearest pyproject.toml that has one."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whyidle.errors import WhyIdleError

FILE: Final = "pyproject.toml"
PRICE: Final = "usd-per-gpu-hour"
CHECK: Final = "check"  # the table of limits of `whyidle check`
SETTINGS: Final = ("select", "ignore", "exclude", "per-file-ignores", PRICE, CHECK)


@dataclass(frozen=True, slots=True)
class Project:
    """The settings of a project by name, as they stand in its file: who uses one says what it has to be."""

    file: Path
    settings: Mapping[str, object]

    @property
    def where(self) -> str:
        """Return where the settings stand, for a person."""
        return f"{self.file}, [tool.whyidle]"

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """Return what one GPU costs per hour, in US dollars; None where the project does not say.

        Raises:
            WhyIdleError: for what is no price.
        """
        if PRICE not in self.settings:
            return None
        usd = self.settings[PRICE]
        if isinstance(usd, bool) or not isinstance(usd, int | float) or not (math.isfinite(usd) and usd >= 0):
            raise WhyIdleError(f"{self.where}: {PRICE} is US dollars, 0 or more, and not {usd!r}", f"{PRICE} = 2.60")
        return float(usd)

    def table(self, name: str, known: Iterable[str]) -> Mapping[str, object]:
        """Return a table of the section, with no other keys than `known`; empty where there is none.

        Raises:
            WhyIdleError: for what is no table, and for a key that is not known.
        """
        found = self.settings.get(name, {})
        where = f"{self.file}, [tool.whyidle.{name}]"
        if not isinstance(found, dict):
            raise WhyIdleError(f"{where} is no table", f"[tool.whyidle.{name}]")
        _check_keys(found, tuple(known), where)
        return found


def project_of(path: Path) -> Project | None:
    """Return the project of a path: the nearest pyproject.toml at or above it that says anything to whyidle.

    Raises:
        WhyIdleError: for a file that cannot be read, and for settings that there are not.
    """
    start = path.absolute()
    for folder in (start, *start.parents):
        file = folder / FILE
        try:
            section = _section(file) if file.is_file() and b"whyidle" in file.read_bytes() else None
        except OSError:  # one that may not be read is not ours
            continue
        if section is not None:
            return _project(file, section)
    return None


def _section(file: Path) -> object:
    """Return what a pyproject.toml says under [tool.whyidle]; None if it has no such section."""
    try:
        tool = tomllib.loads(file.read_bytes().decode("utf-8-sig")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WhyIdleError(f"{file} cannot be read: {error}") from None
    except RecursionError:
        raise WhyIdleError(f"{file} cannot be read: it is nested too deeply") from None
    return tool.get("whyidle") if isinstance(tool, dict) else None


def _project(file: Path, section: object) -> Project:
    where = f"{file}, [tool.whyidle]"
    if not isinstance(section, dict):
        raise WhyIdleError(f"{where} is no table", 'select = ["sync"]')
    _check_keys(section, SETTINGS, where)
    return Project(file, section)


def _check_keys(found: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for key in found:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
            raise WhyIdleError(f"{where}: there is no setting {key!r}", hint)
