"""Takes counters beside a process that records itself, until its standard input ends: that process is done, or dead.

`whyidle.launch.inside` starts it as `python -m whyidle.launch.beside JSON`.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from whyidle.collect.collector import Collector


def main(arguments: Sequence[str]) -> None:
    """Record until nobody holds the other end of standard input."""
    told = json.loads(arguments[0])
    command = [str(word) for word in told["command"]]
    collector = Collector(Path(told["node"]), Path(told["capture"]), int(told["root"]), command=command)
    collector.start()
    while not select.select([sys.stdin], [], [], collector.remaining_s())[0]:
        collector.tick()
    collector.close()


if __name__ == "__main__":
    main(sys.argv[1:])
