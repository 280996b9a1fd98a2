"""What a trainer wrote of its steps as JSON, an object a line: {"step": 10, "step_time": 0.35, "data_time": 0.02}."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from whyidle.read.trainer_log import TrainerLog, looks_like_steps

LINES: Final = re.compile(rb'\s*\{"[^\n]*\}\s*\n\s*\{"')
OF_A_TRACE: Final = re.compile(rb'"(?:ph|traceEvents)"\s*:')


class TrainerJson(TrainerLog):
    """Steps as lines of JSON; asked before what reads any JSON as a trace."""

    kind = "trainer log (JSON)"
    greedy = False

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return LINES.match(head) is not None and OF_A_TRACE.search(head) is None and looks_like_steps(head)
