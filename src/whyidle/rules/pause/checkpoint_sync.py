from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class CheckpointSync(Rule):
    """Training stands still while a checkpoint is written.

    ## Why it costs time
    `torch.save` copies every tensor from the GPU, serializes it and writes it, all in the training
    thread. With several ranks the others wait at the next collective.

    ## How we know
    The GPU is idle while the launching thread is in `torch.save` or in a range named for a checkpoint.

    ## When to ignore it
    The share is that of the recording. If it happened to catch one of a few saves per hour, divide:
    duration of a save over the time between two saves is what it costs.
    """

    needs = (("idle_checkpoint_share",), ("checkpoint_share",))
    uses = ("idle_checkpoint_share", "window_s", "steps")
    explains = ("checkpoint",)

    confidence = Threshold(
        0.8, "probability", source="the range or function names it; its rate is that of the recording"
    )
    applies = Threshold(0.6, "probability", source="judgement: needs host memory for a copy of the state")
    rarer_applies = Threshold(0.6, "probability", source="judgement: someone chose the interval for a reason")
    residual = Threshold(0.1, "of the pause", source="judgement: the copy to host memory remains")
    rarer = Threshold(0.5, "of the pauses", source="arithmetic: half as many saves")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        pause = m.one("idle_checkpoint_share" if "idle_checkpoint_share" in m else "checkpoint_share")
        lost = m.number(pause.name)
        over = f" of {m.number('window_s'):.3g} s" if "window_s" in m else ""
        steps = f", {m.number('steps'):.0f} steps" if "steps" in m else ""
        yield from self.finding(
            f"Training stands still while checkpoints are written, {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"in torch.save or a range named for it: {lost:.0%}{over}{steps}; "
                "over the whole job it depends on how often"
            ),
            locations=pause.locations,
            fixes=(
                Fix(
                    "write in the background",
                    "from torch.distributed.checkpoint import async_save\n"
                    'pending = async_save({"model": model.state_dict()}, checkpoint_id=path)\n'
                    "pending.result()  # before the next save",
                    effort="code",
                    applies=self.applies,
                    risk="host memory for a second copy of the state; the steps after a save may be slower",
                    edits=(Edit("scale_host", {"cause": "checkpoint"}, {"factor": self.residual}),),
                ),
                Fix(
                    "save half as often",
                    "save_every = 2 * save_every",
                    effort="setting",
                    applies=self.rarer_applies,
                    risk="up to twice as much work is lost in a crash",
                    edits=(Edit("scale_host", {"cause": "checkpoint"}, {"factor": self.rarer}),),
                ),
            ),
        )

    cases = (
        Fires("a save every ten steps", idle_checkpoint_share=0.17, checkpoint_share=0.18, window_s=12.0, steps=40),
        Fires("a run without a GPU", checkpoint_share=0.2),
        Silent("written while the GPU works", idle_checkpoint_share=0.003, checkpoint_share=0.2),
        Silent("no save in the recording", idle_checkpoint_share=0.0),
    )
