"""Grow a real trace in time, as text, so that big traces keep the layout and the names of recorded ones.

Each copy of the events follows the one before. Times move by whole microseconds, so that their decimals stay what
they were; ids that join events (flows, correlations, external ids) move so that no copy shares one with another;
ProfilerStep numbers go on counting. What is said of a grown trace is not what is said of the recorded one: use it to
measure speed only.

    python bench/grow.py trace.json.gz big.json --mb 250 [--gz]
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAUSE_US = 50  # between two copies
IDS = (
    "id", "correlation", "External id", "external id", "Ev Idx", "Sequence number", "Record function id",
    "wait_on_cuda_event_record_corr_id", "Fwd thread id",
)  # fmt: skip
NUMBER = re.compile(
    r'(?P<ts>"ts"\s*:\s*"?)(?P<us>\d+)'
    r"|(?P<id>\"(?:" + "|".join(IDS) + r')"\s*:\s*)(?P<number>\d+)(?=\s*[,}])'
    r"|(?P<step>ProfilerStep#)(?P<index>\d+)"
)
JOINING_BELOW = 2**40  # larger ids are sentinels or hashes


def split(text: str) -> tuple[str, str, str]:
    """Return what stands before the events, the events without their brackets, and what follows."""
    start = 0 if text.lstrip().startswith("[") else text.index('"traceEvents"')
    start = text.index("[", start)
    _, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    return text[: start + 1], text[start + 1 : end - 1].rstrip(), text[end - 1 :]


def copies(events: str, count: int) -> Iterator[str]:
    """Yield the events `count` times, each time later and with ids of its own."""
    found = list(NUMBER.finditer(events))
    times = [int(match["us"]) for match in found if match["us"] and int(match["us"])]
    ids = [int(match["number"]) for match in found if match["number"] and int(match["number"]) < JOINING_BELOW]
    steps = [int(match["index"]) for match in found if match["index"]]
    span = max(times) - min(times) + 1 + _longest(events) + PAUSE_US
    step_span = max(steps) - min(steps) + 1 if steps else 0
    id_span = max(ids, default=0) + 1
    for copy in range(count):

        def moved(match: re.Match[str], copy: int = copy) -> str:
            if match["ts"]:  # metadata has time 0 and stays there
                return match["ts"] + str(int(match["us"]) + copy * span if int(match["us"]) else 0)
            if match["id"]:
                number = int(match["number"])
                return match["id"] + str(number + copy * id_span if number < JOINING_BELOW else number)
            return match["step"] + str(int(match["index"]) + copy * step_span)

        yield NUMBER.sub(moved, events)


def _longest(events: str) -> int:
    """Return the longest duration of the last events in us, so that no slice reaches into the next copy."""
    return max((int(us) for us in re.findall(r'"dur"\s*:\s*"?(\d+)', events)), default=0)


def grow(source: Path, target: Path, megabytes: float, *, packed: bool = False) -> int:
    """Write `source` grown to about `megabytes` (10^6 bytes, unpacked) to `target`; return the number of copies."""
    data = source.read_bytes()
    before, events, after = split((gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode())
    count = max(1, round(megabytes * 1e6 / len(events.encode())))
    with gzip.open(target, "wb") if packed else target.open("wb") as file:
        file.write(before.encode())
        for number, copy in enumerate(copies(events, count)):
            if sys.stderr.isatty():
                print(f"\rcopy {number + 1} of {count}", end="", file=sys.stderr)
            file.write((("," if number else "") + copy).encode())
        file.write(after.encode())
        if sys.stderr.isatty():
            print(file=sys.stderr)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--mb", type=float, required=True, help="size to grow to, in 10^6 bytes, unpacked")
    parser.add_argument("--gz", action="store_true", help="pack it as torch.profiler does")
    asked = parser.parse_args()
    count = grow(asked.source, asked.target, asked.mb, packed=asked.gz)
    print(f"{asked.target}: {count} copies, {asked.target.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
