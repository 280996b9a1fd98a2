"""How fast a trace becomes columns, next to the tools that people use for it today.

Every run is a fresh process. CPU seconds (user + system, children included) are the main number: wall time depends
on what else the machine does. `load` is the time from imports done to data ready, `process` the whole process.

    python bench/ingest.py TRACE [--mb 250] [--hta-python PYTHON] [--tracelens-python PYTHON]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

# A case prints the CPU seconds that its last line took.
MEASURE = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
path = sys.argv[1]
def cpu():
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
{imports}
before = cpu()
{load}
print("\\n" + json.dumps(cpu() - before))
"""


@dataclass(frozen=True)
class Case:
    """Something to measure: what it imports, and the line that is measured."""

    name: str
    imports: str
    load: str
    python: str


@dataclass(frozen=True)
class Figures:
    """What one case took: medians over its runs, except the largest peak."""

    load_s: float
    process_s: float
    peak_mb: float


def cases(hta: str, tracelens: str) -> Iterator[Case]:
    yield Case("whyidle load", "from whyidle.read import load", "run = load([path])", sys.executable)
    yield Case("whyidle load, packed", "from whyidle.read import load", "run = load([path + '.gz'])", sys.executable)
    yield Case(
        "HTA TraceAnalysis",
        "import logging; logging.disable(); from hta.trace_analysis import TraceAnalysis",
        "run = TraceAnalysis(trace_files={0: path}, trace_dir='/')",
        hta,
    )
    yield Case(
        "TraceLens TreePerfAnalyzer",
        "from TraceLens import TreePerfAnalyzer",
        "run = TreePerfAnalyzer.from_file(path)",
        tracelens,
    )


def once(command: list[str]) -> tuple[float, float, str]:
    """Run a command; return its CPU seconds, its peak memory in 10^6 bytes, and what it printed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6, printed.read()


def measure(case: Case, path: Path, runs: int) -> Figures | None:
    """Measure a case; None if its tool is not there or fails."""
    results = []
    if shutil.which(case.python) is None:
        return None
    for _ in range(runs):
        script = MEASURE.format(imports=case.imports, load=case.load)
        process_s, peak_mb, printed = once([case.python, "-c", script, str(path)])
        if not printed.strip():
            return None
        results.append((float(json.loads(printed.strip().splitlines()[-1])), process_s, peak_mb))
    loads, processes, peaks = zip(*results, strict=True)
    return Figures(median(loads), median(processes), max(peaks))


def diagnose(path: Path, runs: int) -> Figures | None:
    """Measure the whole command line."""
    command = [sys.executable, "-m", "whyidle", "diagnose", str(path), "--format", "json", "--exit-zero"]
    results = [once(command) for _ in range(runs)]
    if any(not printed.strip() for _, _, printed in results):
        return None
    process_s = median(seconds for seconds, _, _ in results)
    return Figures(process_s, process_s, max(peak for _, peak, _ in results))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("trace", type=Path, help="a real trace, to be grown")
    parser.add_argument("--mb", type=float, default=250)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta-python", default=sys.executable, help="an interpreter that can import hta")
    parser.add_argument("--tracelens-python", default=sys.executable, help="an interpreter that can import TraceLens")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        # by another process: this one lends its peak memory to those that it starts
        for target, packed in ((path, []), (Path(f"{path}.gz"), ["--gz"])):
            command = [sys.executable, str(Path(__file__).with_name("grow.py")), str(asked.trace), str(target)]
            subprocess.run([*command, "--mb", str(asked.mb), *packed], check=True, stdout=subprocess.DEVNULL)
        size = path.stat().st_size / 1e6
        print(f"{size:.0f} MB, packed {Path(f'{path}.gz').stat().st_size / 1e6:.0f} MB; median of {asked.runs} runs\n")
        print(f"{'':28} {'load CPU s':>10} {'MB/s':>6} {'process CPU s':>13} {'peak MB':>8} {'x ours':>7}")
        ours: Figures | None = None
        for case in cases(asked.hta_python, asked.tracelens_python):
            ours = report(case.name, measure(case, path, asked.runs), size, ours)
        whole = diagnose(path, asked.runs)
        report("whyidle diagnose", whole, size, ours)
        if whole and ours:
            print(f"\nwhyidle diagnose takes {whole.process_s / ours.process_s:.2f} times the process that only loads.")


def report(name: str, figures: Figures | None, size: float, ours: Figures | None) -> Figures | None:
    """Print a row; return what the others are compared with, which is the first."""
    if figures is None:
        print(f"{name:28} not measured: not installed in that interpreter, or it failed")
        return ours
    ours = ours or figures
    print(
        f"{name:28} {figures.load_s:10.2f} {size / figures.load_s:6.0f} {figures.process_s:13.2f} "
        f"{figures.peak_mb:8.0f} {figures.load_s / ours.load_s:7.1f}"
    )
    return ours


if __name__ == "__main__":
    main()
