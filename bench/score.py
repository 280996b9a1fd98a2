"""How right is whyidle? Simulated jobs whose truth is known, recordings of real jobs, and public cases; peers beside.

python bench/score.py --quick
python bench/score.py --faults 'sync.*' --severities 0.1,0.2 --seeds 0-4 --keep runs --jobs 2 --out score.json
python bench/score.py --keep runs --peer hta=HTA_PYTHON --peer tb=TB_PYTHON
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from scoring import show
from scoring.board import worlds
from scoring.cases import score_cases
from scoring.corpus import score_corpus
from scoring.jobs import ROOT, How, LeftOut, run, simulator
from scoring.matrix import Asked, Job, matrix, not_offered
from scoring.peers import PEERS
from scoring.records import Outcome

T = TypeVar("T")

DEFAULT = Asked()
QUICK = Asked(severities=(0.1, 0.2), pairs=8, misspecified=24)
QUICK_FAMILIES = 2


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    """Read `0-3,7` as 0, 1, 2, 3, 7."""
    ranges = (part.partition("-") for part in text.split(","))
    found = tuple(n for first, _, last in ranges for n in range(int(first), int(last or first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"{text} holds no number")
    return found


def shares(text: str) -> tuple[float, ...]:
    found = tuple(float(part) for part in text.split(","))
    if not all(0 < share <= 0.6 for share in found):
        raise argparse.ArgumentTypeError(f"{text}: shares of the step, above 0 and up to 0.6")
    return found


def peer(text: str) -> tuple[str, str]:
    name, _, python = text.partition("=")
    if name not in PEERS or not python:
        raise argparse.ArgumentTypeError(f"{text}: NAME=PYTHON, with a name of {', '.join(PEERS)}")
    return name, python


def matrix_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which jobs are simulated, and how."""
    add, switch = parser.add_argument, argparse.BooleanOptionalAction
    add("--families", type=words, help="names or patterns, with commas; default: all")
    add("--faults", type=words, help="ids or patterns such as sync.*; default: all")
    add("--severities", type=shares, help=f"shares of the step; default: {','.join(map(str, DEFAULT.severities))}")
    add("--seeds", type=numbers, help="such as 0-4,9; default: 0")
    add("--ranks", type=numbers, help="ranks of a job, more where a fault needs them; default: 1")
    add("--pairs", type=int, metavar="N", help=f"random pairs of faults; default: {DEFAULT.pairs}")
    add("--healthy", action=switch, default=None, help="jobs without any fault; default: yes")
    add("--controls", action=switch, default=None, help="jobs that only look ill; default: yes")
    add("--misspecified", type=int, metavar="N", help=f"faults in broken worlds; default: {DEFAULT.misspecified}")
    add("--quick", action="store_true", help=f"{QUICK_FAMILIES} families, {QUICK.severities}, {QUICK.pairs} pairs")
    add("--jobs", type=int, default=1, metavar="N", help="processes; default: 1")
    add("--keep", type=Path, metavar="DIR", help="keep simulated runs there and reuse them; empty it for a new world")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    matrix_options(parser)
    add = parser.add_argument
    add(
        "--simulate",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="default: yes; without, only the corpus and the cases",
    )
    add("--peer", type=peer, action="append", default=[], metavar="NAME=PYTHON", help=f"of {', '.join(PEERS)}")
    add("--corpus", type=Path, help="default: $WHYIDLE_CORPUS, else ../shared/corpus")
    add("--cases", type=Path, help="cases.json; default: beside the corpus")
    add("--out", type=Path, metavar="FILE.json", help="everything, with an outcome per job")
    options = parser.parse_args(argv)
    if options.out and not options.out.resolve().parent.is_dir():
        parser.error(f"--out {options.out}: there is no such folder.")
    if options.out and options.out.is_dir():
        parser.error(f"--out {options.out} is a folder. Name a file.")
    if options.jobs < 1:
        parser.error("--jobs is 1 or more.")
    return options


def asked(options: argparse.Namespace, families: Sequence[str]) -> Asked:
    """Return the matrix that was asked for: what is not said is as in the default or the quick one."""
    spread = families[:: max(len(families) // QUICK_FAMILIES, 1)][:QUICK_FAMILIES]
    base = replace(QUICK, families=tuple(spread)) if options.quick else DEFAULT
    names = ("families", "faults", "severities", "seeds", "ranks", "pairs", "healthy", "controls", "misspecified")
    said = {name: value for name in names if (value := getattr(options, name)) is not None}
    return replace(base, **said)


def asked_jobs(world: Any, wanted: Asked, keep: Path | None) -> list[Job]:
    """Return the jobs of the matrix that was asked for, and make the folder to keep them in."""
    try:
        jobs = matrix(world, wanted)
    except ValueError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
    return jobs


def counted(ended: Iterable[T], total: int) -> Iterator[T]:
    """Yield what comes of jobs and count it on the screen."""
    for done, one in enumerate(ended, 1):
        if sys.stderr.isatty():
            print(f"\r{done} of {total} jobs", end="" if done < total else "\n", file=sys.stderr, flush=True)
        yield one


def simulated(options: argparse.Namespace) -> dict[str, object]:
    """Score the matrix, print it, and return what goes into the JSON."""
    world = simulator()
    wanted = asked(options, world.FAMILIES)
    jobs = asked_jobs(world, wanted, options.keep)
    ended = list(counted(run(jobs, How(options.keep, dict(options.peer)), options.jobs), len(jobs)))
    outcomes = sorted((o for o in ended if isinstance(o, Outcome)), key=lambda outcome: outcome.truth.name)
    left_out = [o for o in ended if isinstance(o, LeftOut)]
    scored = worlds(outcomes)
    missing = not_offered(world, wanted)
    lines = (show.TERMS, *show.boards(scored), *show.left_out(left_out, missing))
    print(*lines, sep="\n")
    return {
        "asked": asdict(wanted),
        "worlds": {name: asdict(board) for name, board in scored.items()},
        "not_simulated": {"not_offered": missing, "jobs": [asdict(job) for job in left_out]},
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    result: dict[str, object] = {"schema_version": 1}
    if options.simulate:
        result |= simulated(options)
    corpus = options.corpus or Path(os.environ.get("WHYIDLE_CORPUS", ROOT.parent / "shared" / "corpus"))
    if (corpus / "FACTS.json").exists():
        score = score_corpus(corpus)
        print(*show.corpus(score), sep="\n")
        result["corpus"] = asdict(score)
    else:
        print("\nno recordings of real jobs here: set WHYIDLE_CORPUS")
    cases = options.cases or corpus.parent / "cases" / "cases.json"
    if cases.exists():
        kinds = score_cases(cases)
        print(*show.cases(kinds), sep="\n")
        result["cases"] = [asdict(kind) for kind in kinds]
    else:
        print("\nno public cases here: --cases FILE")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
