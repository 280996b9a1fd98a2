"""Run the tests that need a GPU on a machine that has one; fails where one of them is skipped. Not run on a GPU yet.

python bench/gpu/survive.py            # about a minute
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", "tests/capture/test_cuda.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ran.stdout + ran.stderr)
    return ran.returncode or int("skipped" in ran.stdout)


if __name__ == "__main__":
    sys.exit(main())
