"""Does lint find the stalls that people marked in code, and nothing else?

python bench/lint.py --scripts FOLDER --cases FOLDER --out lint.json

FOLDER of scripts (or WHYIDLE_SCRIPTS): the files of lint_scripts.json at <owner>__<name>/<path>. FOLDER of cases (or
WHYIDLE_CASES): lint_scripts.json and cases.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scoring.lines import CERTAINTIES, CLEAN, Judged, LineBoard, board, cases, scripts
from scoring.rates import Rate

ROOT = Path(__file__).parents[1]
FOUND, FLAGGED = 0.90, 0.05  # goals: of provable stalls at least, of decoys at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=Path, default=os.environ.get("WHYIDLE_SCRIPTS"))
    parser.add_argument("--cases", type=Path, default=os.environ.get("WHYIDLE_CASES", ROOT.parent / "shared" / "cases"))
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="every file: what was found, missed and flagged")
    parser.add_argument("--all", action="store_true", help="list stalls of every certainty that are not found")
    given = parser.parse_args()
    folder = Path(given.cases)
    boards: dict[str, LineBoard] = {}
    if given.scripts:
        boards["scripts"] = board(scripts(folder / "lint_scripts.json", Path(given.scripts)))
    with tempfile.TemporaryDirectory() as scratch:
        boards["cases"] = board(list(cases(folder / "cases.json", Path(scratch))))
    for name, made in boards.items():
        print(*lines(name, made, everything=given.all), sep="\n")
    if given.out:
        rows = {name: [_row(one) for one in made.judged] for name, made in boards.items()}
        given.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def lines(name: str, made: LineBoard, *, everything: bool = False) -> Iterator[str]:
    yield f"==== {name}: {len(made.judged)} files, {made.cpu_s:.1f} s of CPU ".ljust(100, "=")
    yield from (f"  not there: {one}" for one in made.missing)
    yield f"  {'certainty':14}{'at the line':>20}{'by its cause':>20}"
    for certainty in CERTAINTIES:
        found, named = made.found(certainty), made.found(certainty, named=True)
        goal = f"   goal >= {FOUND:.0%}: {_met(found, FOUND)}" if certainty == "provable" else ""
        if found.n:
            yield f"  {certainty:14}{_rate(found):>20}{_rate(named):>20}{goal}"
    flagged = made.decoys
    met = "met" if flagged.ratio is not None and flagged.ratio <= FLAGGED else "NOT MET"
    yield f"  {'decoys flagged':14}{_rate(flagged):>20}{'':20}   goal <= {FLAGGED:.0%}: {met}"
    if made.clean.n:
        yield f"  {'clean files':14}{_rate(made.clean):>20}{'':20}   goal: all, {_met(made.clean, 1.0)}"
    for one in made.judged:
        yield from _of_file(one, everything=everything)


def _of_file(one: Judged, *, everything: bool) -> Iterator[str]:
    for stall in one.marked.stalls:
        wanted = everything or stall.certainty == "provable"
        if wanted and not one.is_found(stall):
            yield f"  missed   {one.marked.name}:{stall.line}  {stall.cause} ({stall.certainty})"
        elif wanted and not one.is_named(stall):
            said = ", ".join(sorted({finding.rule for finding in one.at[stall.line]}))
            yield f"  renamed  {one.marked.name}:{stall.line}  {stall.cause} ({stall.certainty}): {said}"
    for line in one.flagged:
        said = ", ".join(f"{finding.rule} {finding.severity}" for finding in one.at[line])
        yield f"  decoy    {one.marked.name}:{line}  {said}"
    for line in one.elsewhere if everything or one.marked.verdict in CLEAN else ():
        said = ", ".join(f"{finding.rule} {finding.severity}" for finding in one.at[line])
        yield f"  unmarked {one.marked.name}:{line}  {said}"


def _rate(rate: Rate) -> str:
    return f"{rate.hits} of {rate.n}" + (f" ({rate.ratio:.0%})" if rate.ratio is not None else "")


def _met(rate: Rate, goal: float) -> str:
    return "met" if rate.ratio is not None and rate.ratio >= goal else "NOT MET"


def _row(one: Judged) -> dict[str, object]:
    return {
        "name": one.marked.name,
        "verdict": one.marked.verdict,
        "found": [stall.line for stall in one.marked.stalls if one.is_found(stall)],
        "named": [stall.line for stall in one.marked.stalls if one.is_named(stall)],
        "missed": [[stall.line, stall.certainty] for stall in one.marked.stalls if not one.is_found(stall)],
        "flagged": list(one.flagged),
        "unmarked": list(one.elsewhere),
    }


if __name__ == "__main__":
    main()
