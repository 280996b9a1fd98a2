"""Real before/after pairs on this machine's CPUs: is the first finding the right one, and is it worth what it says?

    python bench/pairs.py --out pairs                  # every pair, a run directory for each cell
    python bench/pairs.py --out pairs --only storage
    python bench/pairs.py --out pairs --fixtures tests/runs/watched

Each cell is a job (`bench/jobs/train.py`) that `whyidle run` watches as its user would. What was changed between the
cells of a pair is known, so the finding that has to come first is, too. The last cell of a pair is the cure: what it
saves is set against the share that the first finding said is lost. Cells run one after the other; a busy machine spoils
them, so the table shows how much of the CPUs others took.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
JOB = HERE / "jobs" / "train.py"


@dataclass(frozen=True)
class Cell:
    """One job: its arguments, and which finding has to come first (None: none at medium or above)."""

    name: str
    arguments: str
    first: str | None
    also: tuple[str, ...] = ()  # would be as right


PAIRS: dict[str, tuple[Cell, ...]] = {
    "loader": (
        Cell("workers-0", "--workers 0 --transform-ms 20 --compute-ms 25", "input.workers_zero"),
        Cell("workers-1", "--workers 1 --persistent --transform-ms 20 --compute-ms 25", None),
        Cell("workers-2", "--workers 2 --persistent --transform-ms 20 --compute-ms 25", None),
    ),
    "workers": (
        Cell("one", "--workers 1 --persistent --transform-ms 40 --compute-ms 10", "input.workers_too_few"),
        Cell("two", "--workers 2 --persistent --transform-ms 40 --compute-ms 10", "input.cpu_transform"),
    ),
    "transform": (
        Cell("slow", "--workers 2 --persistent --transform-ms 90 --compute-ms 20", "input.cpu_transform"),
        Cell("cached", "--workers 2 --persistent --transform-ms 3 --compute-ms 20", None),
    ),
    "storage": (
        Cell("far", "--workers 2 --persistent --fetch-ms 120 --compute-ms 20", "input.storage"),
        Cell("near", "--workers 2 --persistent --fetch-ms 4 --compute-ms 20", None),
    ),
    "checkpoint": (
        Cell("every-step", "--workers 1 --persistent --compute-ms 20 --save-every 1", "pause.checkpoint_sync"),
        Cell("every-50", "--workers 1 --persistent --compute-ms 20 --save-every 50", None),
    ),
    "threads": (
        Cell(
            "eight-each",
            "--workers 2 --persistent --products --threads 8 --transform-ms 16 --compute-ms 40",
            "host.cpu_oversubscription",
        ),
        Cell("one-each", "--workers 2 --persistent --products --threads 1 --transform-ms 16 --compute-ms 40", None),
    ),
    "epochs": (
        Cell("again", "--workers 2 --epoch 20 --start-ms 300 --compute-ms 20", "input.worker_startup"),
        Cell("persistent", "--workers 2 --epoch 20 --start-ms 300 --persistent --compute-ms 20", None),
    ),
}


@dataclass(frozen=True)
class Seen:
    """What whyidle said of a cell."""

    step_s: float | None  # mean
    first: str | None
    confidence: float | None
    lost: float | None
    verdict: str
    others: float | None  # of this machine's CPUs, taken by other processes while it ran


def watch(cell: Cell, folder: Path, steps: int) -> Seen:
    """Run a cell under `whyidle run` and read its report."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, JOB.name, "--steps", str(steps), *cell.arguments.split()]
    shutil.copy(JOB, folder.parent / JOB.name)  # beside it, so that what is recorded names no path of this machine
    before = cpu_seconds()
    ran = subprocess.run(
        [sys.executable, "-m", "whyidle", "run", "-o", folder.name, "--no-trace", "--no-color", "--", *command],
        cwd=folder.parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    after = cpu_seconds()
    (folder.parent / "last.pt").unlink(missing_ok=True)
    (folder.parent / f"{folder.name}.txt").write_text(ran.stdout + ran.stderr, "utf-8")
    if ran.returncode:
        raise SystemExit(f"{folder}: the job ended with {ran.returncode}\n{ran.stderr[-2000:]}")
    report = json.loads((folder / "report.json").read_text("utf-8"))
    grave = [finding for finding in report["findings"] if finding["severity"] != "low"]
    first = grave[0] if grave else None
    return Seen(
        report["summary"]["step_time_mean_s"],
        first and first["rule"],
        first and first["confidence"],
        first and first["lost_share"],
        report["summary"]["verdict"],
        max(after[0] - before[0] - (after[1] - before[1]), 0.0) / max(after[2] - before[2], 1e-9),
    )


def cpu_seconds() -> tuple[float, float, float]:
    """Return the CPU time of the machine, of our finished children, and the CPU time that there was."""
    fields = [float(field) for field in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    times = os.times()
    busy = sum(fields) - fields[3] - fields[4]
    return busy / tick, times.children_user + times.children_system, sum(fields) / tick


def right(cell: Cell, seen: Seen) -> bool:
    return seen.first in (cell.first, *cell.also)


def line(name: str, cell: Cell, seen: Seen, saved: float | None) -> str:
    shares = f"{percent(seen.confidence):>6}{percent(seen.lost):>6}{percent(saved):>7}{percent(seen.others):>8}"
    step = float("nan") if seen.step_s is None else seen.step_s
    return (
        f"{name:26}{step:9.4f}  {seen.first or '-':28}{shares}  {'yes' if right(cell, seen) else f'NO: {cell.first}'}"
    )


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def scrub(folder: Path, target: Path) -> None:
    """Copy a run directory to where fixtures live, without what belongs to this machine: its name, paths, kernel."""
    shutil.rmtree(target, ignore_errors=True)
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.suffix == ".ring" or file.name == "report.json":
            continue
        name = re.sub(r"node-[^/]+", "node-host", str(file.relative_to(folder)))
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix in {".json", ".txt"}:
            place.write_text(clean(file.read_text("utf-8"), folder), "utf-8")
        elif file.suffix == ".events":
            place.write_bytes(clean_header(file.read_bytes(), folder))
        elif file.suffix == ".csv":
            place.write_bytes(file.read_bytes())


def clean(text: str, folder: Path) -> str:
    """Replace what names this machine in JSON text."""
    for path, word in ((folder.parent, "."), (Path(sys.executable).parent.parent, "venv"), (HERE.parent, "whyidle")):
        text = text.replace(f"{path.resolve()}/", f"{word}/").replace(str(path.resolve()), word)
    for word, name in ((os.uname().nodename, "host"), (os.uname().release, "6.1")):
        text = re.sub(rf"\b{re.escape(word)}\b", name, text)
    return re.sub(r'"/(?:work|root|tmp|home)[^"]*"', '"elsewhere"', text)


def clean_header(data: bytes, folder: Path) -> bytes:
    """Replace what names this machine in the header of a file of records."""
    length = int.from_bytes(data[24:28], "little")
    text = clean(data[32 : 32 + length].decode(), folder).encode()
    return data[:24] + len(text).to_bytes(4, "little") + data[28:32] + text.ljust(4096 - 32, b"\0") + data[4096:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the run directories")
    parser.add_argument("--only", help="names of pairs, with commas")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--fixtures", type=Path, help="copy the run directories there, without what names this machine")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(PAIRS)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    print(f"{'cell':26}{'s/step':>9}  {'first finding':28}{'conf.':>6}{'lost':>6}{'saved':>7}{'others':>8}  right")
    results, wrong = [], 0
    for pair in wanted:
        cells = [(cell, watch(cell, out / f"{pair}-{cell.name}", options.steps)) for cell in PAIRS[pair]]
        cured = cells[-1][1].step_s
        for cell, seen in cells:
            saved = 1 - cured / seen.step_s if cured and seen.step_s and cell is not cells[-1][0] else None
            wrong += not right(cell, seen)
            print(line(f"{pair} {cell.name}", cell, seen, saved), flush=True)
            results.append({"pair": pair, "cell": cell.name, "expected": cell.first, "saved": saved, **asdict(seen)})
            if options.fixtures:
                scrub(out / f"{pair}-{cell.name}", options.fixtures / f"{pair}-{cell.name}")
    (out / "pairs.json").write_text(json.dumps(results, indent=1), "utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
