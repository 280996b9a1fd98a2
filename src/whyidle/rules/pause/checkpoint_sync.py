from __future__ import annotations

import math
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
    `whyidle run` sees every save of the run and how many bytes it writes, so that its share needs no division.

    Writing in the background hides no more than the time between two saves. Where a save takes half of that, or more,
    saving less often comes first; where there is one in every step or two, nothing else helps.

    ## When to ignore it
    The share is that of the recording. If it happened to catch one of a few saves per hour, divide:
    duration of a save over the time between two saves is what it costs.
    """

    needs = (("idle_checkpoint_share",), ("checkpoint_share",), ("lost_save_share",))
    uses = (
        "idle_checkpoint_share", "window_s", "steps", "watched_s", "watched_steps", "saves", "save_bytes_per_s",
        "saves_in_background",
    )  # fmt: skip
    explains = ("checkpoint",)

    confidence = Threshold(
        0.8, "probability", source="the range or function names it; its rate is that of the recording"
    )
    watched_confidence = Threshold(
        0.9, "probability", source="judgement, not calibrated yet: every call of the whole run was seen"
    )
    applies = Threshold(0.6, "probability", source="judgement: needs host memory for a copy of the state")
    rarer_applies = Threshold(0.6, "probability", source="judgement: someone chose the interval for a reason")
    residual = Threshold(0.1, "of the pause", source="judgement: the copy to host memory remains")
    each_step = Threshold(0.5, "saves per step", source="judgement: async_save at every step made a job slower")
    large = Threshold(
        0.5, "of the time between saves", source="judgement: writing beside it would hardly be done in time"
    )
    small = Threshold(0.05, "of the time between saves", source="low severity: what saves may take")
    most = Threshold(100, "times", source="judgement: more is another way to work")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        watched = "lost_save_share" in m
        names = ("lost_save_share", "idle_checkpoint_share", "checkpoint_share")  # the best that is there
        pause = m.one(next(name for name in names if name in m))
        lost = m.number(pause.name)
        yield from self.finding(
            f"Training stands still while checkpoints are written, {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.watched_confidence if watched else self.confidence,
            seen=self._saves(m) if watched else self._recorded(m, lost),
            locations=pause.locations,
            fixes=self._fixes(m, lost),
        )

    def _fixes(self, m: Measurements, lost: float) -> tuple[Fix, ...]:
        """Return what to change: writing in the background only where there is enough to do meanwhile."""
        steps = m.get("watched_steps", 0.0)
        if self._in_background(m) or (steps > 0 and m.get("saves", 0.0) >= self.each_step * steps):
            return (self._rarer(lost),)
        rarely = lost < self.large * (1 - lost)
        beside = self._beside(lost)
        return (beside, self._rarer(lost)) if rarely else (self._rarer(lost), beside)

    def _in_background(self, m: Measurements) -> bool:
        return "saves_in_background" in m and bool(m.one("saves_in_background").value)

    def _beside(self, lost: float) -> Fix:
        # what does not fit between two saves holds up the next
        hidden = min((1 - self.residual) * lost, 1 - lost)
        left = 1 - hidden / lost if lost else 0.0
        return Fix(
            "write in the background",
            "from torch.distributed.checkpoint import async_save\n"
            'pending = async_save({"model": model.state_dict()}, checkpoint_id=path)\n'
            "pending.result()  # before the next save",
            effort="code",
            applies=self.applies,
            risk="host memory for a second copy of the state; the steps after a save may be slower",
            edits=self._shorter({"factor": left, "prior": 1.0}),
        )

    def _rarer(self, lost: float) -> Fix:
        times = 2
        if lost >= self.large * (1 - lost):  # half of much is still much
            times = min(math.ceil(lost / (self.small * max(1 - lost, self.small))), int(self.most))
        return Fix(
            "save half as often" if times == 2 else f"save {times} times less often",
            f"save_every = {times} * save_every",
            effort="setting",
            applies=self.rarer_applies,
            risk=f"up to {'twice' if times == 2 else f'{times} times'} as much work is lost in a crash",
            edits=self._shorter({"factor": 1 / times, "fewer": times}),
        )

    def _shorter(self, coefficients: dict[str, float]) -> tuple[Edit, ...]:
        """Return what makes saves shorter: the host's part, and the copies that it waits for."""
        return (
            Edit("scale_host", {"cause": "checkpoint"}, coefficients),
            Edit("scale_device", {"range": "checkpoint"}, coefficients),
        )

    def _recorded(self, m: Measurements, lost: float) -> str:
        over = f" of {m.number('window_s'):.3g} s" if "window_s" in m else ""
        steps = f", {m.number('steps'):.0f} steps" if "steps" in m else ""
        return (
            f"in torch.save or a range named for it: {lost:.0%}{over}{steps}; "
            "over the whole job it depends on how often"
        )

    def _saves(self, m: Measurements) -> str:
        parts = [f"training waits {m.number('lost_save_share'):.1%} of the watched time for checkpoints"]
        if "saves" in m:
            steps = f" in {m.number('watched_steps'):.0f} steps" if "watched_steps" in m else ""
            parts.append(f"{m.number('saves'):.0f} write{'' if m.number('saves') == 1 else 's'}{steps}")
        if m.get("saves", 0.0) >= 1 and "watched_s" in m:
            each = m.number("lost_save_share") * m.number("watched_s") / m.number("saves")
            parts.append(f"{each:.2g} s each")
        if "save_bytes_per_s" in m:
            parts.append(f"{m.number('save_bytes_per_s') / 1e6:.3g} MB/s")
        if self._in_background(m):
            parts.append("written in the background already: this is the copy, or the wait for the save before")
        return ", ".join(parts)

    cases = (
        Fires(
            "watched: a checkpoint after every step",
            lost_save_share=0.4,
            saves=200,
            watched_s=100.0,
            watched_steps=200,
            save_bytes_per_s=9e8,
        ),
        Silent(
            "watched: one save in an hour, though the recording caught it",
            lost_save_share=0.003,
            saves=1,
            idle_checkpoint_share=0.5,
        ),
        Fires("a save every ten steps", idle_checkpoint_share=0.17, checkpoint_share=0.18, window_s=12.0, steps=40),
        Fires("a run without a GPU", checkpoint_share=0.2),
        Silent("written while the GPU works", idle_checkpoint_share=0.003, checkpoint_share=0.2),
        Silent("no save in the recording", idle_checkpoint_share=0.0),
    )
