"""How often a line runs, and in what work: what decides whether a wait at that line costs anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

# "maybe": nothing in the code that we see calls this function; a training step may.
Phase: TypeAlias = Literal["once", "epoch", "step", "maybe"]
# "rollout": an environment is stepped; "infer": tokens or frames are made one after the other, without a loader.
Work: TypeAlias = Literal["train", "eval", "infer", "rollout", ""]
# What has to hold for the line to run: "": nothing; "flag": a setting of unknown default; "data": a value of this step;
# "rare": a counter, a clock, the first step, a setting that is off; "error": something went wrong.
Guard: TypeAlias = Literal["", "flag", "data", "rare", "error"]
_STRONGER: tuple[Guard, ...] = ("", "flag", "data", "rare", "error")


@dataclass(frozen=True, slots=True)
class Where:
    """The circumstances in which a line runs."""

    phase: Phase = "once"
    work: Work = ""
    inner: bool = False  # in a loop within the step: several times per step
    micro: bool = False  # in one of several micro-steps between which gradients accumulate
    update: bool = False  # once per optimizer step, after several micro-steps
    guard: Guard = ""
    every: int = 1  # steps from one run to the next, as far as counters tell; 0: a number that nobody knows, over 1
    no_grad: bool = False
    autocast: bool = False
    compiled: bool = False  # torch.compile traces this code
    environment: bool = False  # the training loop steps an environment, too: actions have to reach it
    function: str = ""  # qualified name of the function that it stands in

    @property
    def hot(self) -> bool:
        """Say whether it runs in every step of training or of generation, by all that can be seen."""
        return self.phase == "step" and self.work in {"train", "infer"} and self.often

    @property
    def often(self) -> bool:
        """Say whether it runs each time that its loop comes round: no counter, clock or error stands before it."""
        return self.guard not in {"rare", "error"} and self.every == 1

    @property
    def reachable(self) -> bool:
        """Say whether it may run every step: hot, or in evaluation, or in a function of which no caller is seen."""
        return self.often and (self.phase == "maybe" or (self.phase == "step" and self.work != "rollout"))

    def guarded(self, guard: Guard, every: int = 1) -> Where:
        """Return this place behind one more condition; the rarer of two counts."""
        strongest = max(self.guard, guard, key=_STRONGER.index)
        rarest = 0 if 0 in (self.every, every) else self.every * every
        return replace(self, guard=strongest, every=rarest)
