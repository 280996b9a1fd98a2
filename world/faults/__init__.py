"""The faults that can be put into a job, a file per family of causes; ids are those that whyidle's rules share.

To add one: write a function in the file of its family under `@fault(id, title, guess)`; base.py says what it gets.
"""

from __future__ import annotations

from world.faults import compute, dist, host, input, memory, pause, sync, transfer
from world.faults.base import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "compute", "dist", "host", "input", "memory", "pause", "sync", "transfer"]
