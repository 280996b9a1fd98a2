from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class LoggingMetrics(Rule):
    """The training thread logs or computes metrics in the step, and the GPU waits.

    ## Why it costs time
    Writing a log line, rendering a progress bar, filling a histogram or sending metrics takes the CPU from microseconds
    to many milliseconds. While it does that nothing is launched.

    ## How we know
    The GPU is idle while the training thread is in a frame of a logging or tracking library (logging, tensorboard,
    wandb, mlflow, tqdm) or in a range that is named for logging or metrics.

    ## When to ignore it
    The recording holds the one step in a hundred that logs: over the whole job the share is smaller.
    """

    needs = (("idle_logging_share",),)
    explains = ("logging",)

    confidence = Threshold(0.8, "probability", source="the frame or range names it; not calibrated yet")
    applies = Threshold(0.8, "probability", source="judgement: few curves need every step")
    residual = Threshold(0.05, "of the time", source="judgement: every 20th step still logs")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("idle_logging_share")
        yield from self.finding(
            f"Logging and metrics hold up the training thread while the GPU waits: {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"GPU idle {lost:.0%} of the time while the training thread logs",
            locations=m.one("idle_logging_share").locations,
            fixes=(
                Fix(
                    "log every 100 steps",
                    "if step % 100 == 0:\n    logger.log(...)  # keep values on the GPU in between",
                    effort="code",
                    applies=self.applies,
                    risk="curves have fewer points",
                    edits=(Edit("scale_host", {"cause": "logging"}, {"factor": self.residual, "prior": 1.0}),),
                ),
            ),
            candidates=("sync.scalar_read",),
        )

    cases = (
        Fires("a tracker is told of every step", idle_logging_share=0.4),
        Silent("a log line now and then", idle_logging_share=0.006),
    )
