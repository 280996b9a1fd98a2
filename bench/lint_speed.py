"""How fast is lint? CPU time and memory of a large project and of one file, next to ruff on the same files.

python bench/lint_speed.py --files 1000 --lines 300000 --seed 1

The project is made in a temporary folder from templates: training scripts, models, data sets, tools that use torch and
modules that do not, in the mix of a real project, with imports between them. Every run is a fresh process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from scoring.projects import write

CPU_S, PEAK_MB, ONE_FILE_S = 25.0, 500.0, 0.6  # limits, for 300,000 lines and for one file with its start-up
TRIES = 5  # of one file: the best counts, since others use the machine, too
WHOLE = 300_000
MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
assert done.returncode in (0, 1), done.returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=WHOLE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the project there and leave it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        files, lines = write(folder, given.files, given.lines, random.Random(given.seed))
        print(f"{files:,} files, {lines:,} lines")
        print(f"{'':28}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}{'x ruff':>8}")
        ruff = _ruff(folder)
        cpu, wall, peak = run([sys.executable, "-m", "whyidle", "lint", "--jobs", "1", "--format", "json", str(folder)])
        limit = CPU_S * lines / WHOLE
        met = _met(cpu <= limit and peak <= PEAK_MB)
        show("whyidle lint --jobs 1", cpu, wall, peak, ruff, f"limits {limit:.0f} s, {PEAK_MB:.0f} MB: {met}")
        if ruff:
            show("ruff check, one thread", *ruff, ruff)
        script = next(path for path in sorted(folder.rglob("train_*.py")))
        length = len(script.read_text("utf-8").splitlines())
        tries = [run([sys.executable, "-m", "whyidle", "lint", str(script)]) for _ in range(TRIES)]
        cpu, wall, peak = (min(values) for values in zip(*tries, strict=True))
        show(
            f"one file of {length} lines",
            cpu,
            wall,
            peak,
            None,
            f"limit {ONE_FILE_S} s of wall: {_met(wall <= ONE_FILE_S)}",
        )


def show(
    what: str, cpu: float, wall: float, peak: float, ruff: tuple[float, float, float] | None, goal: str = ""
) -> None:
    ratio = f"{cpu / ruff[0]:8.0f}" if ruff else f"{'':8}"
    print(f"{what:28}{cpu:8.2f}{wall:8.2f}{peak:9.0f}{ratio}   {goal}".rstrip())


def _met(yes: bool) -> str:
    return "met" if yes else "NOT MET"


def _ruff(folder: Path) -> tuple[float, float, float] | None:
    if importlib.util.find_spec("ruff") is None:
        return None
    return run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--quiet", str(folder)],
        RAYON_NUM_THREADS="1",
    )


def run(command: list[str], **environ: str) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and peak memory in 10^6 bytes of a command.

    A process of its own starts it, since the peak of children is that of the largest one so far.
    """
    began = time.perf_counter()
    measured = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, *command],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began - bare()
    cpu, peak = json.loads(measured.stdout.splitlines()[-1])
    return cpu, wall, peak


@cache
def bare() -> float:
    """Return how long the process takes that starts a command, without one."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-S", "-c", "import json, resource, subprocess, sys"], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
