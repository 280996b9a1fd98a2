"""`python -m whyidle.sweep.child run …` is `whyidle run …` that is told to end when the sweep is killed."""

from __future__ import annotations

import ctypes
import runpy
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # prctl(2); survives until the process ends

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    runpy.run_module("whyidle", run_name="__main__", alter_sys=True)
