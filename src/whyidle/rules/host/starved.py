"""What it costs that the training thread is ready to run and gets no CPU, apart from what its workers suffer."""

from __future__ import annotations

from whyidle.model.measurement import Measurements
from whyidle.rules import waits

READ = waits.READ_LEFT


def training_thread(m: Measurements) -> float:
    """Return the share of watched time lost by it; 0 where nobody knows whether the GPU waited for it.

    A thread that makes its batches itself is delayed in that, too: that part is the wait for data, and left out.
    """
    if not waits.known(m):
        return 0.0
    return waits.timed(m, "main_run_delay_share") * max(1 - m.get("lost_data_zero_share", 0.0), 0.0)
