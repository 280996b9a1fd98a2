"""A sweep's folder: the plan, a run directory per cell, and how each cell ended. docs/sweep.md describes it.

A cell that was interrupted is kept under another name when it is run again: nothing is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from whyidle._version import __version__
from whyidle.errors import WhyIdleError
from whyidle.model.trial import Params, Status
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.words import size
from whyidle.sweep.plan import Plan

HOME: Final = "whyidle-sweeps"
PLAN: Final = "sweep.json"
OUTCOME: Final = "cell.json"
OUTPUT: Final = "output.txt"
REPORT: Final = "report.json"
LOCK: Final = ".lock"
_PARTIAL: Final = re.compile(r"\.partial-\d+$")
LEAST_FREE_BYTES: Final = 64 << 20  # for a cell: what it records of each process, and prints
LONGEST_NAME: Final = 100  # characters of a cell's folder that tell its values

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one job of a sweep ended: what its run directory does not tell."""

    params: dict[str, str]
    repeat: int = 1
    status: Status = "interrupted"
    why: str = ""
    settled: bool = False
    seconds: float = 0.0  # wall, from start to end
    gpus: int | None = None  # that it was given, and is charged for


class _Written(msgspec.Struct):
    """sweep.json."""

    sweep: Plan


class SweepFolder:
    """A folder that one sweep at a time writes to.

    Raises:
        WhyIdleError: it cannot be written, or another sweep writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise WhyIdleError(f"{path} is a file; a sweep is a folder", "-o another folder") from None
        except OSError as error:
            raise WhyIdleError(f"cannot write to {path}: {error.strerror}", "-o another folder") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however that ends
        except OSError:
            os.close(self._lock)
            raise WhyIdleError(f"{path}: another sweep is at work there", "-o another folder") from None

    def close(self) -> None:
        """Let another sweep write there; a folder in which nothing was begun goes."""
        with contextlib.suppress(OSError):  # something came meanwhile, or somebody removed it
            if [entry.name for entry in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()
                if self.path.parent.name == HOME:
                    self.path.parent.rmdir()
        os.close(self._lock)

    def plan(self) -> Plan | None:
        """Return the plan of the sweep that lies there; None in a folder that is new or empty."""
        if not (self.path / PLAN).exists():
            others = [entry.name for entry in self.path.iterdir() if entry.name != LOCK]
            if others:
                raise WhyIdleError(f"{self.path} holds other things, and no sweep", "-o another folder")
            return None
        return _read(self.path / PLAN, _Written).sweep

    def keep(self, plan: Plan) -> None:
        """Write the plan down."""
        _write(self.path / PLAN, {"schema_version": SCHEMA_VERSION, "whyidle": __version__, "sweep": plan})

    def outcomes(self) -> dict[str, Outcome]:
        """Return by the name of its folder each cell that was begun, in the order of their numbers."""
        written = sorted(self.path.glob(f"cell-*/{OUTCOME}"), key=lambda path: _numbers(path.parent.name))
        return {path.parent.name: _read(path, Outcome) for path in written if not _PARTIAL.search(path.parent.name)}

    def set_aside(self) -> list[Outcome]:
        """Return the cells that were interrupted and run again since."""
        written = self.path.glob(f"cell-*/{OUTCOME}")
        return [_read(path, Outcome) for path in written if _PARTIAL.search(path.parent.name)]

    def begin(self, params: Params, repeat: int) -> str:
        """Make the folder of a cell and return its name; what lies there unfinished is renamed."""
        there = self.outcomes()
        same = (name for name, told in there.items() if told.params == dict(params) and told.repeat == repeat)
        name = next(same, None) or _name(_number_of(params, there), params, repeat)
        free = self._free_bytes()
        if free < LEAST_FREE_BYTES:
            raise WhyIdleError(f"{size(free)} are free at {self.path}: too little to record a job", "-o another folder")
        try:
            if (self.path / name).exists():  # it was interrupted, perhaps before it said what it is
                self._set_aside(name)
            (self.path / name).mkdir()
        except OSError as error:
            raise WhyIdleError(f"cannot write to {self.path}: {error.strerror}", "is the disk full?") from None
        self.end(name, Outcome(dict(params), repeat, "interrupted", "it was not finished"))
        return name

    def end(self, name: str, outcome: Outcome) -> None:
        """Write down how a cell ended."""
        _write(self.path / name / OUTCOME, outcome)

    def report(self, text: str) -> None:
        """Write the report beside its evidence."""
        _replace(self.path / REPORT, text)

    def _free_bytes(self) -> int:
        """Return how much can be written there."""
        try:
            return shutil.disk_usage(self.path).free
        except OSError as error:
            raise WhyIdleError(f"cannot write to {self.path}: {error.strerror}", "-o another folder") from None

    def _set_aside(self, name: str) -> None:
        number = 1
        while (self.path / f"{name}.partial-{number}").exists():
            number += 1
        (self.path / name).rename(self.path / f"{name}.partial-{number}")


def new(name: str, now: datetime) -> Path:
    """Return a folder that is not there yet, for a sweep of a job of that name; `now` is local time."""
    base = Path(HOME) / f"{_plain(name)[:64] or 'job'}-{now:%Y%m%d-%H%M%S}"
    number, path = 1, base
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def _number_of(params: Params, there: dict[str, Outcome]) -> int:
    """Return the number of a cell, which its repeats share."""
    same = (name for name, outcome in there.items() if outcome.params == dict(params))
    number = next((_numbers(name)[0] for name in same), 0)
    return number or max((_numbers(name)[0] for name in there), default=0) + 1


def _name(number: int, params: Params, repeat: int) -> str:
    values = ",".join(f"{_plain(name)}={_plain(value)}" for name, value in params.items())[:LONGEST_NAME]
    return f"cell-{number:02d}-{values}" + (f"-r{repeat}" if repeat > 1 else "")


def _numbers(name: str) -> tuple[int, int, str]:
    """Return what cells are sorted by: their number, the repeat, and the name."""
    found = re.match(r"cell-(\d+)-(?:.*-r(\d+)$)?", name)
    return (int(found[1]), int(found[2] or 1), name) if found else (0, 0, name)


def _plain(text: str) -> str:
    """Return text that suits the name of a file everywhere."""
    return re.sub(r"[^\w.+=-]+", "-", text, flags=re.ASCII).strip("-.")


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise WhyIdleError(f"{path} cannot be read: {error.strerror}", "-o another folder") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise WhyIdleError(f"{path} is damaged: {error}", "-o another folder begins anew") from None


def _write(path: Path, value: object) -> None:
    _replace(path, dumps(value))


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: it is never half there."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise WhyIdleError(f"cannot write {path}: {error.strerror}", "is the disk full?") from None
