"""`python -m whyidle.sweep.child PARENT run …` is `whyidle run …` that is told to end when the sweep is killed."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # prctl(2); survives until the process ends

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv.pop(1)):  # it was killed before it could be watched
        sys.exit(128 + signal.SIGTERM)
    runpy.run_module("whyidle", run_name="__main__", alter_sys=True)
