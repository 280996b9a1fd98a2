"""What lint says of code whose stalls somebody marked by line: which are found, and which decoys are taken for one.

Two sets: public training scripts at a commit (`lint_scripts.json`), and small cases made after what people reported
(`cases.json`, kind source). The code is parsed, never run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring.rates import Rate
from whyidle.lint import lint
from whyidle.model.finding import Finding, Location

# The kinds of certainty that a script's stalls are marked with; those of cases are all provable.
CERTAINTIES = ("provable", "minor", "conditional", "eval", "inherent")
CLEAN = {"clean", "clean_in_train"}  # verdicts of scripts in which nothing grave may be found
GRAVE = {"high", "medium"}


@dataclass(frozen=True, slots=True)
class Stall:
    """A line that stalls, by the judgement of whoever marked it."""

    line: int
    cause: str
    certainty: str = "provable"


@dataclass(frozen=True, slots=True)
class Marked:
    """A file whose stalls and decoys are marked."""

    name: str
    path: Path
    stalls: tuple[Stall, ...]
    decoys: tuple[int, ...]
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A marked file, and the findings in it by line."""

    marked: Marked
    at: Mapping[int, tuple[Finding, ...]]
    cpu_s: float

    def is_found(self, stall: Stall) -> bool:
        return stall.line in self.at

    def is_named(self, stall: Stall) -> bool:
        return any(finding.rule == stall.cause for finding in self.at.get(stall.line, ()))

    @property
    def flagged(self) -> tuple[int, ...]:
        """Return the decoys that a finding stands at."""
        return tuple(line for line in self.marked.decoys if line in self.at)

    @property
    def grave(self) -> tuple[int, ...]:
        """Return the lines of findings at medium or above."""
        return tuple(line for line, found in sorted(self.at.items()) if any(one.severity in GRAVE for one in found))

    @property
    def elsewhere(self) -> tuple[int, ...]:
        """Return the lines of findings at medium or above that nobody marked, either way: to be read by a person.

        Calls that lead to a finding elsewhere are not counted.
        """
        marked = {stall.line for stall in self.marked.stalls} | set(self.marked.decoys)
        return tuple(
            line
            for line, found in sorted(self.at.items())
            if line not in marked
            and any(one.severity in GRAVE and _is_at(one.locations[0], self.marked.path, line) for one in found)
        )


@dataclass(frozen=True, slots=True)
class LineBoard:
    """The files of a set, judged."""

    judged: tuple[Judged, ...]
    missing: tuple[str, ...] = ()  # files that are listed and are not there

    def found(self, certainty: str, *, named: bool = False) -> Rate:
        """Return how many stalls of a certainty are found at their line; `named`: by their cause, too."""
        stalls = [(one, stall) for one in self.judged for stall in one.marked.stalls if stall.certainty == certainty]
        return Rate.among([one.is_named(stall) if named else one.is_found(stall) for one, stall in stalls])

    @property
    def decoys(self) -> Rate:
        return Rate.among([line in one.flagged for one in self.judged for line in one.marked.decoys])

    @property
    def clean(self) -> Rate:
        """Return how many clean files have no finding at medium or above."""
        return Rate.among([not one.grave for one in self.judged if one.marked.verdict in CLEAN])

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.judged)


def judge(marked: Marked) -> Judged:
    """Lint one file by itself, with the modules of its project that lie beside it."""
    began = time.process_time()
    report = lint([marked.path])
    took = time.process_time() - began
    at: dict[int, tuple[Finding, ...]] = {}
    for finding in report.findings:
        for place in finding.locations:
            if place.line is not None and _is_at(place, marked.path, place.line):
                at[place.line] = (*at.get(place.line, ()), finding)
    return Judged(marked, at, took)


def _is_at(place: Location, path: Path, line: int) -> bool:
    return place.line == line and Path(place.file or "").resolve() == path.resolve()


def board(files: Sequence[Marked]) -> LineBoard:
    there = [one for one in files if one.path.is_file()]
    missing = tuple(one.name for one in files if not one.path.is_file())
    return LineBoard(tuple(judge(one) for one in there), missing)


def scripts(listing: Path, folder: Path) -> list[Marked]:
    """Return the public scripts of a list, which lie at `<owner>__<name>/<path>` below a folder."""
    return [_script(entry, folder) for entry in json.loads(listing.read_text("utf-8"))["scripts"]]


def _script(entry: Mapping[str, Any], folder: Path) -> Marked:
    stalls = [
        Stall(int(one["line"]), str(one["cause"]), str(one["certainty"]))
        for one in (*entry["real_stalls"], *entry["loader_findings"])
    ]
    decoys = tuple(int(one["line"]) for one in entry["looks_like_stall_but_is_not"])
    path = folder / str(entry["repo"]).replace("/", "__") / str(entry["path"])
    return Marked(f"{entry['repo']}: {entry['path']}", path, tuple(stalls), decoys, str(entry["verdict"]))


def cases(listing: Path, scratch: Path) -> Iterator[Marked]:
    """Write the cases of kind source as files and yield them."""
    for case in json.loads(listing.read_text("utf-8")):
        given = case["minimal_input"] or {}
        if given.get("kind") == "source":
            path = scratch / f"{case['id']}.py"
            path.write_text(given["code"], "utf-8")
            stalls = tuple(Stall(line, case["expected_cause"]) for line in given["fault_lines"])
            yield Marked(case["id"], path, stalls, tuple(given["decoy_lines"]))
