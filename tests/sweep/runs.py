"""Sweeps without jobs: an executor whose jobs leave a run directory at once and end when their time has come."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.recorded import Process, run_directory
from whyidle.launch.process import Ended
from whyidle.sweep.budget import Budget, Rate
from whyidle.sweep.executor import Task
from whyidle.sweep.folder import SweepFolder
from whyidle.sweep.loop import Sweeping, trials_in
from whyidle.sweep.parameters import parse
from whyidle.sweep.plan import Limits, Plan
from whyidle.sweep.strategies import Machine, strategy

FINE = Ended(exit_code=0)


@dataclass(frozen=True)
class Acts:
    """What a job does: how long its steps are, and how it ends."""

    step_ms: float = 100.0
    steps: int = 200
    lasts_s: float = 20.0
    ended: Ended = FINE
    prints: str = ""
    samples: int = 32


@dataclass
class Clock:
    """Time that goes on only while somebody rests."""

    now: float = 1000.0

    def now_s(self) -> float:
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Actor:
    """A job of the stage."""

    acts: Acts
    clock: Clock
    until: float
    was_ended: bool = False
    was_asked: bool = False

    def ended(self) -> Ended | None:
        if self.was_ended or self.was_asked:
            return Ended(signal=signal.SIGTERM)
        return self.acts.ended if self.clock.now >= self.until else None

    def ask_to_end(self) -> None:
        self.was_asked = True

    def end(self) -> None:
        self.was_ended = True

    def tail(self) -> str:
        return self.acts.prints


@dataclass
class Stage:
    """Jobs that act as their command says: `job VALUE` acts as `plays[VALUE]`."""

    clock: Clock
    plays: Mapping[str, Acts]
    slots: int = 1
    started: list[str] = field(default_factory=list)
    on_stage: list[Actor] = field(default_factory=list)

    def start(self, task: Task) -> Actor:
        value = task.command[-1]
        acts = self.plays[value]
        self.started.append(value)
        assert sum(not one.was_ended and self.clock.now < one.until for one in self.on_stage) < self.slots
        if acts.steps:
            process = Process(world_size=1).train(
                acts.steps, data=acts.step_ms * 0.4, prepare=0, forward=acts.step_ms * 0.2,
                backward=acts.step_ms * 0.2, optimizer=acts.step_ms * 0.1, other=acts.step_ms * 0.1,
                samples=acts.samples,
            )  # fmt: skip
            run_directory(task.folder, process)
        actor = Actor(acts, self.clock, self.clock.now + acts.lasts_s)
        self.on_stage.append(actor)
        return actor


def sweeping(
    path: Path,
    plays: Mapping[str, Acts],
    *,
    slots: int = 1,
    limits: Limits | None = None,
    budget: Budget | None = None,
    price: float | None = None,
    repeats: int = 1,
    rest: Callable[[float], None] | None = None,
) -> tuple[Sweeping, Stage]:
    """Return a sweep over the values of `plays`, which has not begun, and its stage."""
    command = ("python3", "{x}")
    plan = Plan(command, (f"x={','.join(plays)}",), limits or Limits(), repeats=repeats, budget=budget or Budget())
    parameters = parse(plan.parameters, command)
    clock = Clock()
    stage = Stage(clock, plays, slots)
    folder = SweepFolder(path)
    made = Sweeping(
        plan, folder, parameters, strategy("grid", parameters, Machine()), stage,
        Rate(price, "your price", 1 if price else None), trials_in(folder), now_s=clock.now_s, rest=rest or clock.rest,
    )  # fmt: skip
    return made, stage
