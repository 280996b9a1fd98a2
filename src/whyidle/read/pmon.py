"""nvidia-smi pmon: what each process took of a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import UnreadableError
from whyidle.read.smi_monitor import Monitor, instance_column, time_columns
from whyidle.read.table.gather import Layout
from whyidle.read.table.names import Meaning

HEADER: Final = re.compile(
    rb"^[ \t]*#[ \t]*(?:(?:Date|Time)[ \t,]+)*gpu[ \t,]+(?:\S+[ \t,]+)?pid\b[^\n]*", re.MULTILINE
)
RECORD_PMON: Final = "nvidia-smi pmon -s u -o DT > pmon.txt"


class Pmon(Monitor):
    """Reads what `nvidia-smi pmon` prints or writes (-f)."""

    kind = "nvidia-smi pmon"
    header = HEADER
    last = frozenset({"command", "name"})

    @classmethod
    def layout(cls, names: list[str], units: list[str], path: Path) -> Layout:  # noqa: ARG003
        """See Monitor."""
        if "sm" not in names:
            raise UnreadableError(path, f"{cls.kind} without utilization (-s m).", RECORD_PMON)
        keys = {"device": names.index("gpu"), "pid": names.index("pid")} | instance_column(names)
        busy = {names.index("sm"): Meaning("process_utilization_percent", share=False)}
        return Layout(busy, *time_columns(names), keys=keys)

    @classmethod
    def printed(cls, blocks: Iterable[bytes], path: Path) -> Curve | None:
        """See Monitor. UnreadableError also where it saw nobody."""
        curve = super().printed(blocks, path)
        if curve is not None and not curve.series:
            raise UnreadableError(path, f"{cls.kind} saw no process on any GPU.", RECORD_PMON)
        return curve
