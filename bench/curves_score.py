"""How right is whyidle about curves? Long jobs whose truth is known, sampled and written as tools do it.

python bench/curves_score.py --count 220 --seed 1
python bench/curves_score.py --keep runs/curves --out score.json

Shape: the class of curve.* in which most time is said to be lost, on jobs that lose 20% and more. The truth lists the
classes that samples of that interval and window can show (a step of 0.4 s cannot show as a period at 1 Hz).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scoring.curves import CURVE_CONFIDENCE, NOTHING, Outcome, Score, judge_job, score
from scoring.rates import Rate
from world import curves

WANTED = 0.9  # of the shapes, at severity 0.2 and more
LISTED = 15
MET = {True: "met", False: "NOT MET"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=220, help="jobs; default: 220, ten of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the jobs there, and use what is there")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch) / "curves"
        if not (folder / "truth.json").exists():
            curves.write(folder, given.count, given.seed)
        truths = json.loads((folder / "truth.json").read_text("utf-8"))["jobs"]
        outcomes = [judge_job(folder, truth) for truth in truths]
    board = score(outcomes)
    print(*lines(board), sep="\n")
    if given.out:
        rows = [{**asdict(one), "shape": one.shape, "right": one.is_right} for one in outcomes]
        given.out.write_text(json.dumps(rows, indent=1, default=str) + "\n", "utf-8")


def lines(board: Score) -> Iterator[str]:
    """Write the board."""
    yield f"{board.jobs} jobs, {board.cpu_s:.1f} s of CPU to judge them, {len(board.refused)} refused"
    yield from (f"  {name}: {why}" for name, why in board.refused[:LISTED])
    met = board.shape.ratio is not None and board.shape.ratio >= WANTED
    yield f"shape right, severity >= 0.2      {rate(board.shape)}   wanted >= {WANTED:.0%}: {MET[met]}"
    yield f"  said at all                     {rate(board.shape_among)}"
    yield from (f"  severity {severity:<4}                   {rate(r)}" for severity, r in board.by_severity.items())
    yield f"cause is finding or candidate     {rate(board.cause)}   its family {rate(board.family)}"
    sure = MET[board.confidence_max <= CURVE_CONFIDENCE]
    yield f"highest confidence of curve.*     {board.confidence_max:.2f}   wanted <= {CURVE_CONFIDENCE}: {sure}"
    yield f"healthy called healthy            {rate(board.healthy)}"
    yield f"false findings on healthy jobs    {len(board.false_on_healthy)}"
    yield from (f"  {one}" for one in board.false_on_healthy[:LISTED])
    yield f"wrong high findings on any job    {len(board.false_high)}"
    yield from (f"  {one}" for one in board.false_high[:LISTED])
    if board.busy_mean is not None and board.busy_max is not None:
        worst, name = board.busy_max
        yield f"busy share off by, points         mean {100 * board.busy_mean:.2f}, at most {100 * worst:.1f} ({name})"
    yield f"busy share not told               {board.busy_unknown}"
    yield "by kind, severity >= 0.2:"
    yield from (f"  {kind:20} {rate(right)}" for kind, right in board.shape_by_kind.items())
    yield "true (down), said (across):"
    yield from confusion(board)
    yield "confidence of shapes at medium and above:"
    for part in board.calibration:
        said = "" if part.said is None else f"said {part.said:.2f}"
        first = f"first candidate right {rate(part.first)}"
        yield f"  {part.low:.2f}-{part.high:.2f}  {said:10} shape there {rate(part.right):20} {first}"
    yield "cause not named:"
    yield from (f"  {one.truth['cause']:24} {wrong(one)}" for one in board.unnamed)
    yield "shape wrong:"
    yield from (f"  {wrong(one)}" for one in board.wrong)


def confusion(board: Score) -> Iterator[str]:
    columns = sorted({said for row in board.confusion.values() for said in row} | set(board.confusion))
    short = [name.removeprefix("curve.")[:10] for name in columns]
    yield f"  {'':18}" + "".join(f"{name:>12}" for name in short)
    for true, row in sorted(board.confusion.items()):
        yield f"  {true.removeprefix('curve.'):18}" + "".join(f"{row[name] or '.':>12}" for name in columns)


def wrong(one: Outcome) -> str:
    told = ", ".join(f"{f.rule} {f.lost_share or 0:.2f} ({f.confidence:.2f})" for f in one.findings) or NOTHING
    truth, sampling = one.truth, one.truth["sampling"]
    seen = f"{sampling['window_s']:.2f} s each {sampling['interval_s']:.0f} s"
    about = f"{truth['asked']}, period {truth['period_s'] or 0:.1f} s, {seen}"
    return f"{truth['name']} [{about}]: {one.error or told}"


def rate(one: Rate) -> str:
    if one.ratio is None:
        return "none"
    return f"{one.hits} of {one.n} ({one.ratio:.0%})"


if __name__ == "__main__":
    main()
