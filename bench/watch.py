"""What `whyidle watch` costs the machine: CPU time per second, 8 GPUs at 1 Hz, and a simulated day.

`python bench/watch.py` runs the verb itself for a minute, with a table's worth of verdicts, an exporter that is
scraped every 5 s and alarms, next to a bare loop that asks NVML the same questions. The GPUs are played by the stand-in
of tests/doubles/nvml, so what NVML itself costs is in neither. `--day` simulates 24 h x 8 GPUs at 1 Hz, no NVML,
and prints resident memory by the hour (Linux only).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.doubles.nvml import build, environment  # noqa: E402
from tests.watch.conftest import FakeClock, FakeSource, reading  # noqa: E402
from whyidle.render.base import Look  # noqa: E402
from whyidle.watch.asked import Asked  # noqa: E402
from whyidle.watch.loop import Watch  # noqa: E402
from whyidle.watch.screen import Screen  # noqa: E402

GPUS = 8
BARE = """
import time, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for handle in handles:
        pynvml.nvmlDeviceGetUtilizationRates(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        pynvml.nvmlDeviceGetPowerUsage(handle)
        pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
        pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    time.sleep(1)
"""


def used(pid: int) -> float:
    """Return the CPU time of a process, in s."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cost(command: list[str], environ: dict[str, str], settle_s: float, seconds: float, scrape: bool) -> float:
    """Return the CPU time per second of a command, once it has started up, as a share of a core."""
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        found = re.search(r"http://\S+", run.stderr.readline()) if scrape else None
        time.sleep(settle_s)
        before, began = used(run.pid), time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 5.0))
            if found:
                urllib.request.urlopen(found[0]).read()
        share = (used(run.pid) - before) / (time.monotonic() - began)
        run.send_signal(signal.SIGINT)
        run.communicate()
    return share


def minute(seconds: float) -> None:
    """Compare the verb with a bare loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"gpus {GPUS}"]
        for gpu in range(GPUS):
            lines += [f"row {s} {gpu} {(s * 37 + gpu * 11) % 100} 40 60000 600 1700 60 0 5000 900" for s in range(200)]
            lines.append(f"process 0 {gpu} {os.getpid()} 50000")
        scenario = folder / "scenario.txt"
        scenario.write_text("\n".join(lines) + "\n")
        environ = {**os.environ, **environment(build(folder), scenario), "PYTHONPATH": str(ROOT / "src")}
        verb = [sys.executable, "-m", "whyidle", "watch", "--alarm", "--listen", "0", "--every", "2"]
        watch = cost(verb, environ, 10.0, seconds, scrape=True)
        bare = cost([sys.executable, "-c", BARE.format(seconds=seconds + 20)], environ, 2.0, seconds, scrape=False)
    print(f"{GPUS} GPUs at 1 Hz over {seconds:g} s: whyidle watch {watch:.2%} of a core, a bare loop {bare:.2%}")


def day() -> None:
    """Simulate a day and print what is kept in memory."""

    def play(second: float) -> list:
        busy = 0.0 if second % 20_000 > 15_000 else 95.0
        return [reading(busy, os.getpid()) for _ in range(GPUS)]

    class Nowhere:
        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return False

    asked = Asked(alarm=True)
    clock = FakeClock(0.0)
    watch = Watch(asked, FakeSource(play, GPUS), clock, Screen(Nowhere(), asked, Look()), lambda _: None)
    for hour in (1, 2, 6, 12, 24):
        clock.end_s = 1000.0 + hour * 3600
        watch.run()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(f"after {hour:2} h: {pages * resource.getpagesize() / 2**20:.1f} MiB resident", flush=True)
    print(f"CPU: {time.process_time() / 86_400:.3%} of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--day", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    if asked.day:
        day()
    else:
        minute(asked.seconds)


if __name__ == "__main__":
    main()
