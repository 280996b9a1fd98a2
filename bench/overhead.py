"""What watching costs the job that is watched, in its own process, next to a step of 10 ms.

    python bench/overhead.py                # CPU time, bare and watched in turns; a few minutes
    python bench/overhead.py --callgrind    # and instructions, which noise does not touch (needs valgrind; +10 minutes)

`bench/jobs/tiny.py` has a step of all that is hooked (a batch, a forward and a backward pass, an optimizer step) and
hardly any work. What a watched step takes longer than a bare one is what watching adds to any step of that kind,
however long: the goal is under 1% of 10 ms. The window of the profiler is another matter: it happens once, and costs
the time for which the job stands still while it starts and stops.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

JOB = Path(__file__).parent / "jobs" / "tiny.py"
STEP_US = 10_000.0  # the step that the goal speaks of
GOAL = 0.01  # of it
STALL_MS = 150.0  # for which the profiler's window may hold the job up, in all
PROFILE = 8  # docs/run-directory.md: kind of the records of that


def watched(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "whyidle", "run", "-o", str(folder), "--quiet", *options, "--"]


def run(command: Sequence[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
    return ran.stdout + ran.stderr


def cpu_time(folder: Path, rounds: int) -> None:
    """Print what a step costs bare and watched, in turns, so that a slow hour of the machine meets both."""
    job = [sys.executable, str(JOB)]
    pairs = []
    for number in range(rounds):
        bare = statistics.median(json.loads(run(job).splitlines()[-1]))
        place = folder / f"cpu{number}"
        log = run([*watched(place, "--no-trace", "--no-syncs"), *job])
        pairs.append((bare, statistics.median(json.loads(log.splitlines()[-1]))))
    added = [after - before for before, after in pairs]
    low, high = min(added), max(added)
    typical = statistics.median(added)
    print(
        f"CPU time    bare {statistics.median(bare for bare, _ in pairs):.1f} us/step, "
        f"added {typical:.1f} us ({low:.1f} to {high:.1f} in {rounds} pairs): "
        f"{typical / STEP_US:.2%} of a 10 ms step; goal {GOAL:.0%} {verdict(typical < GOAL * STEP_US)}"
    )


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def instructions(folder: Path) -> None:
    """Print the instructions that watching adds to a step: what more steps cost, with and without."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("instructions: valgrind is not installed")
        return
    counts: dict[str, list[int]] = {}
    for name, prefix in (("bare", []), ("watched", watched(folder / "callgrind", "--no-trace", "--no-syncs"))):
        for steps in (50, 250):
            if name == "watched":
                prefix[5] = str(folder / f"callgrind{steps}")
            job = [sys.executable, str(JOB), "--blocks", "0", "--steps", str(steps)]
            tool = [valgrind, "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
            said = run([*prefix, *tool, *job])
            found = re.search(r"Collected : (\d+)", said)
            if found is None:
                print("instructions: callgrind said nothing")
                return
            counts.setdefault(name, []).append(int(found[1]))
    per_step = {name: (many - few) / 200 for name, (few, many) in counts.items()}
    added = per_step["watched"] - per_step["bare"]
    print(
        f"instructions bare {per_step['bare']:10,.0f} per step   added {added:9,.0f}"
        f"   {added / per_step['bare']:.1%} of a step that does nothing"
    )


def profiler(folder: Path) -> None:
    """Print for how long the profiler's window held the job up."""
    place = folder / "profiler"
    run([*watched(place, "--trace-after", "50"), sys.executable, str(JOB), "--blocks", "2"])
    records = b"".join(events.read_bytes()[4096:] for events in place.rglob("*.events"))
    at = [offset for offset in range(0, len(records) - 31, 32) if records[offset] == PROFILE]
    held = [int.from_bytes(records[offset + 16 : offset + 24], "little") / 1e6 for offset in at]
    total, said = sum(held), ", ".join(f"{ms:.1f}" for ms in held)
    print(
        f"profiler    held the job up {total:.1f} ms ({said}); "
        f"goal {STALL_MS:.0f} ms {verdict(bool(held) and total < STALL_MS)}"
    )


def beside(folder: Path) -> None:
    """Print what the process beside the job takes of one CPU."""
    began, before = time.perf_counter(), os.times()
    run([*watched(folder / "beside", "--no-trace"), sys.executable, "-c", "import time; time.sleep(20)"])
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"beside it   {used:.2f} s of CPU in {time.perf_counter() - began:.0f} s, its start and verdict included")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--callgrind", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cpu_time(folder, options.rounds)
        profiler(folder)
        beside(folder)
        if options.callgrind:
            instructions(folder)


if __name__ == "__main__":
    main()
