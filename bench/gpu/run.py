"""Record labelled before/after pairs on a machine with a GPU, each through `whyidle run`. Not run on a GPU yet.

    python bench/gpu/run.py --out runs/gpu            # about 6 minutes; --only workers,item for some of them
    python bench/gpu/run.py --out runs/gpu --smoke    # on a CPU: does every script start? Its figures mean nothing

Each job's run directory stays in OUT/NAME-before and OUT/NAME-after, with its wall time, its report and what was
expected of it in OUT/pairs.json. The table at the end says for each pair whether the first finding of the faulty job is
the fault, whether the cured job is free of it, and what was gained beside what was promised.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LONGEST_S = 60  # one job; ten of them, and most take 20 s
SMOKE = ["--steps", "40", "--batch", "8", "--features", "64", "--width", "64", "--layers", "2", "--workers", "1"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A job with one fault, and the same job cured of it."""

    name: str
    expected: tuple[str, ...]  # rules that name the fault
    before: tuple[str, ...]  # options of train.py
    after: tuple[str, ...]


PAIRS = (
    Pair(
        "workers",
        ("input.workers_zero", "input.cpu_transform"),
        ("--pin", "--tf32", "--decode-ms", "1", "--workers", "0"),
        ("--pin", "--tf32", "--decode-ms", "1", "--workers", "8"),
    ),
    Pair(
        "pageable",
        ("transfer.pageable_h2d",),
        ("--tf32", "--features", "131072", "--width", "2048", "--batch", "128", "--steps", "120"),
        ("--tf32", "--features", "131072", "--width", "2048", "--batch", "128", "--steps", "120", "--pin"),
    ),
    Pair(
        "item",
        ("sync.scalar_read", "sync.logging_metrics", "sync.often"),
        ("--pin", "--tf32", "--width", "512", "--layers", "24", "--steps", "600", "--item"),
        ("--pin", "--tf32", "--width", "512", "--layers", "24", "--steps", "600"),
    ),
    Pair(
        "checkpoint",
        ("pause.checkpoint_sync",),
        ("--pin", "--tf32", "--steps", "60", "--width", "3072", "--save-every", "1"),
        ("--pin", "--tf32", "--steps", "60", "--width", "3072", "--save-every", "50"),
    ),
    Pair(
        "tf32",
        ("compute.fp32_no_tensorcore",),
        ("--pin", "--batch", "1024", "--width", "8192", "--steps", "100"),
        ("--pin", "--batch", "1024", "--width", "8192", "--steps", "100", "--tf32"),
    ),
)


def record(folder: Path, words: tuple[str, ...], smoke: bool) -> dict[str, Any]:
    """Run one job under `whyidle run`. Returns its wall time in s, its exit code and its report."""
    report = folder.with_suffix(".report.json")
    job = [sys.executable, str(HERE / "train.py"), *words, *(SMOKE if smoke else ())]
    command = [sys.executable, "-m", "whyidle", "run", "-o", str(folder), "--report", str(report), "--force", "--"]
    began = time.monotonic()
    try:
        done = subprocess.run([*command, *job], capture_output=True, text=True, timeout=LONGEST_S, check=False)
        code, said = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, said = -1, f"not done after {LONGEST_S} s"
    wall = time.monotonic() - began
    judged = json.loads(report.read_text("utf-8")) if report.exists() else None
    return {"wall_s": wall, "exit_code": code, "stderr": said[-4000:], "report": judged, "options": words}


def findings(run: dict[str, Any]) -> list[str]:
    """Return the rules of a report, in its order."""
    return [finding["rule"] for finding in (run["report"] or {}).get("findings", ())]


def step_s(run: dict[str, Any]) -> float | None:
    """Return the median step in s that a report says, None where it says none."""
    return ((run["report"] or {}).get("summary") or {}).get("step_time_s")


def line(pair: Pair, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return a pair's line of the table."""
    first = next(iter(findings(before)), "nothing")
    found = "right" if first in pair.expected else f"WRONG: {first}"
    cured = "gone" if not set(findings(after)) & set(pair.expected) else "STILL THERE"
    slow, fast = step_s(before), step_s(after)
    gain = f"{slow / fast:.2f}x" if slow and fast else "unknown"
    return f"{pair.name:12} first: {found:32} after: {cured:12} step time: {gain}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs", "gpu"))
    parser.add_argument("--only", default="")
    parser.add_argument("--smoke", action="store_true")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    wanted = set(chosen.only.split(",")) - {""}
    kept = []
    failed = 0
    for pair in (pair for pair in PAIRS if not wanted or pair.name in wanted):
        before = record(chosen.out / f"{pair.name}-before", pair.before, chosen.smoke)
        after = record(chosen.out / f"{pair.name}-after", pair.after, chosen.smoke)
        kept.append({**asdict(pair), "runs": {"before": before, "after": after}})
        (chosen.out / "pairs.json").write_text(json.dumps(kept, indent=1), "utf-8")
        print(line(pair, before, after), flush=True)
        for which, run in (("before", before), ("after", after)):
            if run["exit_code"]:
                failed += 1
                print(f"  {which}: exit code {run['exit_code']}: {run['stderr'][-500:]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
