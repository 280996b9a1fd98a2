"""How fast tables of GPU counters become curves and a verdict, next to pandas and numpy where they are installed.

Inputs are made in a temporary folder: a day of 1 Hz samples of 8 GPUs as nvidia-smi writes them (691,200 rows of 8
metrics), and a month of 1-minute points of 512 GPUs (22 million rows). Every run is a fresh process; CPU seconds and
peak memory are those of the process from imports done to data ready; of a verdict, `whyidle FILE`, also of the imports.

    python bench/curves_speed.py [--scale 0.05] [--only day]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

MEASURE = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
path = sys.argv[1]
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
{imports}
before = cpu()
{load}
print(json.dumps([cpu() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6]))
"""
OURS = ("whyidle", "from whyidle.read import load", "run = load([path]); assert run.curves")
WHOLE = """
import contextlib, io
from whyidle.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    main([path])
assert "idle" in out.getvalue()
"""
VERDICT = ("whyidle, a verdict", "", WHOLE)
# what is still to do on a table of text: times, numbers without their units, a table per GPU
TO_CURVES = """
run = pandas.read_csv(path, skipinitialspace=True)
run["time"] = pandas.to_datetime(run["timestamp"])
for name in run.columns[1:-1]:
    if name != "host" and not pandas.api.types.is_numeric_dtype(run[name]):
        run[name] = pandas.to_numeric(run[name].str.split(" ").str[0], errors="coerce")
run = dict(list(run.groupby([name for name in run.columns if name in ("host", "gpu", "index")])))
"""
OTHERS = (
    ("pandas.read_csv", "pandas", "import pandas", "run = pandas.read_csv(path)"),
    ("pandas, to curves", "pandas", "import pandas", TO_CURVES),
    (
        "numpy.genfromtxt",
        "numpy",
        "import numpy",
        "run = numpy.genfromtxt(path, delimiter=',', dtype=None, names=True)",
    ),
)
SLOW = 2_000_000  # rows: numpy.genfromtxt holds a Python object per cell
DAY_ROWS, MONTH_ROWS = 86_400, 43_200


def clock(second: int) -> tuple[str, str]:
    day, rest = divmod(second, 86_400)
    return f"{day % 28 + 1:02d}", f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def day(units: bool) -> Callable[[float], Iterator[str]]:
    """Return a writer of nvidia-smi's query at 1 Hz, with units in cells or without."""
    p, m, w, h = (" %", " MiB", " W", " MHz") if units else ("", "", "", "")

    def write(scale: float) -> Iterator[str]:
        yield (
            "timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], "
            "power.draw [W], clocks.current.sm [MHz], temperature.gpu, clocks_event_reasons.active\n"
        )
        for second in range(int(DAY_ROWS * scale)):
            date, time = clock(second)
            for gpu in range(8):
                busy = (second * 7 + gpu * 13) % 101
                yield (
                    f"2026/01/{date} {time}.{(second * 3 + gpu) % 1000:03d}, {gpu}, {busy}{p}, {busy // 2}{p}, "
                    f"{40000 + busy}{m}, 81559{m}, {100 + busy * 4}.{second % 100:02d}{w}, 1980{h}, {40 + busy // 4}, "
                    "0x0000000000000001\n"
                )

    return write


def month(hosts: bool) -> Callable[[float], Iterator[str]]:
    """Return a writer of 1-minute points of 512 GPUs, on 64 hosts or numbered through."""

    def write(scale: float) -> Iterator[str]:
        yield "timestamp,host,gpu,utilization\n" if hosts else "timestamp,gpu,utilization\n"
        who = [f"node{gpu // 8:03d},{gpu % 8}" if hosts else f"{gpu}" for gpu in range(512)]
        for minute in range(int(MONTH_ROWS * scale)):
            date, time = clock(minute * 60)
            yield "".join(f"2026-01-{date}T{time}Z,{gpu},{(minute * 7 + n * 3) % 101}\n" for n, gpu in enumerate(who))

    return write


CASES = {
    "day": ("a day, units in cells", day(True)),
    "bare": ("a day, nounits", day(False)),
    "month": ("a month, 64 hosts x 8", month(True)),
    "flat": ("a month, 512 GPUs", month(False)),
}


def once(imports: str, load: str, path: Path) -> tuple[float, float] | None:
    """Return CPU seconds and peak memory in 10^6 bytes; None if it fails."""
    script = MEASURE.format(imports=imports, load=load)
    run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    return tuple(json.loads(run.stdout.splitlines()[-1])) if run.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=0.05, help="share of the day and of the month")
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--alone", action="store_true", help="without the others")
    asked = parser.parse_args()
    print(f"{'':24} {'':18} {'rows':>11} {'MB':>7} {'CPU s':>8} {'ns/row':>8} {'peak MB':>8} {'x ours':>7}")
    for case in asked.only or CASES:
        label, write = CASES[case]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "gpus.csv")
            with path.open("w", buffering=1 << 20) as file:
                file.writelines(write(asked.scale))
            rows = int(DAY_ROWS * asked.scale) * 8 if case in {"day", "bare"} else int(MONTH_ROWS * asked.scale) * 512
            ours: float | None = None
            for name, imports, load in (OURS, VERDICT, *([] if asked.alone else others(rows))):
                figures = once(imports, load, path)
                if figures is None:
                    print(f"{label:24} {name:18} failed")
                    continue
                ours = ours or figures[0]
                size = path.stat().st_size / 1e6
                print(
                    f"{label:24} {name:18} {rows:11,} {size:7.0f} {figures[0]:8.2f} {figures[0] / rows * 1e9:8.0f} "
                    f"{figures[1]:8.0f} {figures[0] / ours:7.1f}"
                )


def others(rows: int) -> Iterator[tuple[str, str, str]]:
    for name, module, imports, load in OTHERS:
        if importlib.util.find_spec(module) is not None and (module != "numpy" or rows <= SLOW):
            yield name, imports, load


if __name__ == "__main__":
    main()
