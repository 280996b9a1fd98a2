"""What is a fix worth, and was that right? Replay against recordings of real jobs and simulated ones run again.

python bench/replay.py --quick
python bench/replay.py --faults 'sync.*' --severities 0.1,0.2 --keep runs --jobs 2 --out replay.json
python bench/replay.py --only recordings
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from score import asked, asked_jobs, counted, matrix_options
from scoring import show_predictions, show_replayed
from scoring.jobs import ROOT, LeftOut, simulator
from scoring.matrix import Asked, not_offered
from scoring.pairs import told
from scoring.predictions import Priced, score_predictions
from scoring.priced import run
from scoring.replayed import score_recordings
from scoring.show import left_out
from scoring.speed import score_speed

WATCHED = ROOT / "tests" / "runs" / "watched"  # what bench/pairs.py --fixtures left
PARTS = ("simulated", "recordings", "speed")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    matrix_options(parser)
    add = parser.add_argument
    add("--only", choices=PARTS, help="one part; default: all")
    add("--corpus", type=Path, help="default: $WHYIDLE_CORPUS, else ../shared/corpus")
    add("--out", type=Path, metavar="FILE.json", help="everything, with all that was predicted for each job")
    options = parser.parse_args(argv)
    if options.out and not options.out.resolve().parent.is_dir():
        parser.error(f"--out {options.out}: there is no such folder.")
    return options


def simulated(options: argparse.Namespace) -> dict[str, object]:
    """Price the fixes of the matrix, print how right that was, and return what goes into the JSON."""
    world = simulator()
    wanted: Asked = asked(options, world.FAMILIES)
    jobs = asked_jobs(world, wanted, options.keep)
    ended = list(counted(run(jobs, options.keep, options.jobs), len(jobs)))
    priced = sorted((p for p in ended if isinstance(p, Priced)), key=lambda job: job.name)
    missing = [p for p in ended if isinstance(p, LeftOut)]
    apart = {
        "matched": [job for job in priced if job.outcome.truth.misspecified is None],
        "mis-specified": [job for job in priced if job.outcome.truth.misspecified is not None],
    }
    scored = {name: score_predictions(some) for name, some in apart.items() if some}
    print(show_predictions.TERMS, *show_predictions.boards(scored), sep="\n")
    print(*left_out(missing, not_offered(world, wanted)), sep="\n")
    return {
        "asked": asdict(wanted),
        "worlds": {name: asdict(board) for name, board in scored.items()},
        "left_out": [asdict(job) for job in missing],
        "priced": [asdict(job) for job in priced],
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    parts = (options.only,) if options.only else PARTS
    result: dict[str, object] = {"schema_version": 1}
    corpus = options.corpus or Path(os.environ.get("WHYIDLE_CORPUS", ROOT.parent / "shared" / "corpus"))
    if "recordings" in parts and (corpus / "FACTS.json").exists():
        recordings = score_recordings(corpus)
        print(*show_replayed.recordings(recordings), sep="\n")
        result["recordings"] = asdict(recordings)
    elif "recordings" in parts:
        print("\nno recordings of real jobs here: set WHYIDLE_CORPUS")
    if "recordings" in parts:
        cured = list(told(WATCHED))
        print(*show_replayed.watched(cured), sep="\n")
        result["watched"] = [asdict(one) for one in cured]
    if "speed" in parts:
        speed = score_speed()
        print(*show_replayed.speed(speed), sep="\n")
        result["speed"] = asdict(speed)
    if "simulated" in parts:
        result["simulated"] = simulated(options)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
