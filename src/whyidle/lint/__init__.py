"""Stalls that show in the source: files in, findings out. User code is parsed, never imported or run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from whyidle.lint.batch import Progress, outcomes
from whyidle.lint.files import files_in
from whyidle.lint.report import report_of
from whyidle.lint.settings import codes_in, settings_for
from whyidle.model.finding import Report

__all__ = ["lint"]


def lint(
    paths: str | Path | Sequence[str | Path],
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Return what can stall the GPU, as far as the source shows it.

    Args:
        paths: files and folders of Python code and notebooks; of folders all below, but no environments.
        select: rules, checks or families of them, instead of those that the project's pyproject.toml selects.
        ignore: the same, besides those that it ignores.
        jobs: processes to use at most, where there are many files.
        progress: told (files done, files in all).

    Raises:
        WhyIdleError: for a path that is not there, or settings that cannot be.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    settings = settings_for(given[0] if given else Path(), codes_in(select), codes_in(ignore))
    files, locked = files_in(given, settings.exclude, settings.base)
    return report_of(list(outcomes(files, settings, jobs, progress)), locked)


class _Callable(ModuleType):
    """`whyidle.lint` is the public function and, once imported, this package: let both be called."""

    def __call__(self, *args: object, **options: object) -> Report:
        return lint(*args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Callable
