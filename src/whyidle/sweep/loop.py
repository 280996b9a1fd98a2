"""The sweep itself: cells are begun, looked at while they run, ended, and what they gave decides what is next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whyidle.launch.process import Ended
from whyidle.model.trial import FINISHED, Cell, Params, Status, Sweep
from whyidle.render.words import duration
from whyidle.sweep.budget import Rate
from whyidle.sweep.cell import Trial, cells, trial
from whyidle.sweep.doubts import doubts
from whyidle.sweep.ending import Reason, by_itself, by_us
from whyidle.sweep.executor import Executor, Running, Task
from whyidle.sweep.folder import Outcome, SweepFolder
from whyidle.sweep.parameters import Job, Parameter, applied
from whyidle.sweep.plan import Plan
from whyidle.sweep.reached import missed, remarks
from whyidle.sweep.recommend import recommend
from whyidle.sweep.recorded import recorded
from whyidle.sweep.settle import Settling
from whyidle.sweep.strategies import Search, Strategy
from whyidle.sweep.take import proof, take

POLL_S: Final = 0.2
LOOK_EVERY_S: Final = 2.0
LOOK_PART: Final = 0.2  # of the time at most goes into looks: a large recording is read more rarely
ENDING_S: Final = 2.0  # that ending a cell takes, of a budget
MOST_PLANNED: Final = 1000  # cells that are counted ahead


def trials_in(folder: SweepFolder) -> list[Trial]:
    """Return the jobs that are done in a sweep's folder, measured."""
    there = folder.outcomes().items()
    return [trial(name, one, recorded(folder.path / name)) for name, one in there if one.status in FINISHED]


def planned(strategy: Strategy, done: Sequence[Cell]) -> list[Params]:
    """Return the values that are still to be tried, as far as the strategy can tell now."""
    ahead: list[Params] = []
    while len(ahead) < MOST_PLANNED:
        params = strategy.following(done, ahead)
        if params is None or dict(params) in [dict(one) for one in ahead]:
            break
        ahead.append(params)
    return ahead


def task_of(job: Job, folder: Path, options: tuple[str, ...]) -> Task:
    """Return what an executor runs; `options` are those of `whyidle run`."""
    return Task(job.command, folder, job.environment, job.settings, options)


@dataclass(slots=True, eq=False)
class _Begun:
    """A cell that runs."""

    name: str
    params: Params
    repeat: int
    job: Running
    began_s: float
    settling: Settling
    look_at_s: float
    asked: bool = False  # to end, with others that the budget ends
    ended_s: float | None = None
    limit: str = ""  # what it reached, in words, where we end it


@dataclass(slots=True, eq=False)
class Sweeping:
    """A sweep under way.

    Attributes:
        trials: the jobs that are done; at first those of earlier calls.
        begins: is called with the values of each cell that begins.
        seen: is called now and then with the values of a cell that runs, its steps that count so far, and to what
            share its mean step is known; None is not yet.
        told: is called with each cell that has ended.
        looks: options of `whyidle run`.
    """

    plan: Plan
    folder: SweepFolder
    parameters: Sequence[Parameter]
    strategy: Strategy
    executor: Executor
    rate: Rate
    trials: list[Trial] = field(default_factory=list)
    begins: Callable[[Params], None] = lambda _: None
    seen: Callable[[Params, int, float | None], None] = lambda *_: None
    told: Callable[[Cell], None] = lambda _: None
    looks: tuple[str, ...] = ()
    now_s: Callable[[], float] = time.monotonic
    rest: Callable[[float], None] = time.sleep
    running: list[_Begun] = field(default_factory=list)
    stopped: str = ""  # why no further cell is begun
    _began_s: float = 0.0
    _before: int = 0  # trials of earlier calls
    _spent_before: list[Outcome] = field(default_factory=list)  # cells that did not finish, and cost all the same
    _cells: tuple[int, tuple[Cell, ...]] = (-1, ())  # of so many trials

    def run(self) -> Sweep:
        """Run cells until the strategy has no more, or the budget; return what came of it.

        However it ends, no process of a cell is left.
        """
        self._began_s, self._before = self.now_s(), len(self.trials)
        unfinished = [one for one in self.folder.outcomes().values() if one.status not in FINISHED]
        self._spent_before = [*unfinished, *self.folder.set_aside()]
        try:
            while self._begin_what_fits() or self.running:
                self.rest(POLL_S)
                for one in list(self.running):
                    self._attend(one)
        finally:
            for one in self.running:
                one.job.ask_to_end()
            self._abandon()
        return self.result()

    def result(self) -> Sweep:
        """Return the cells with the one to take."""
        done = self.cells()
        unreached = list(missed([one for one in self.trials if one.outcome.status == "ok"], self.parameters))
        left = [Cell(params, "not run", why=self.stopped) for params in planned(self.strategy, done)]
        recommended, why = recommend(done, self.parameters, [params for params, _ in unreached], is_over=not left)
        return Sweep(
            command=self.plan.command,
            strategy=self.strategy.name,
            cells=(*done, *left),
            recommended=recommended,
            why=" ".join(filter(None, (why, self._why_it_ended(done)))),
            take="" if recommended is None else take(self.parameters, recommended, self.plan.command),
            proof="" if recommended is None else proof(self.folder.path, done, recommended),
            stopped=self.stopped,
            folder=str(self.folder.path),
            usd=self._spent_usd() if self.rate.usd_per_gpu_hour is not None else None,
            usd_per_gpu_hour=self.rate.usd_per_gpu_hour,
            price_source=self.rate.source,
            gpus=self.rate.gpus,
            applied={parameter.name: parameter.said for parameter in self.parameters},
            warnings=tuple(
                doubts(done, self.trials, remarks(unreached, self.trials), self.parameters, self.executor.slots)
            ),
        )

    def _why_it_ended(self, done: Sequence[Cell]) -> str:
        """Return what a search found out on its way; that a grid has no more is no news."""
        return self.strategy.why(done) if done and not self.stopped and isinstance(self.strategy, Search) else ""

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that are done, repeats pooled."""
        if self._cells[0] != len(self.trials):
            self._cells = len(self.trials), cells(self.trials, self.rate)
        return self._cells[1]

    def _begin_what_fits(self) -> bool:
        """Begin cells while there is room, budget, and something to try; return whether any was."""
        begun, limits = False, self.plan.limits
        while len(self.running) < self.executor.slots and not self.stopped:
            following = self._following()
            if following is None:
                break
            left_s = self._left_s(len(self.running) + 1)
            counts = self.trials if self.plan.budget.max_usd is not None else self.trials[self._before :]
            longest_s = max((min(one.outcome.seconds, limits.cell_time_s) for one in counts), default=0.0)
            self.stopped = self.plan.budget.refuses(left_s, longest_s, len(self.trials) + len(self.running))
            if not self.stopped:
                self._begin(*following)
                begun = True
        return begun

    def _following(self) -> tuple[Params, int] | None:
        """Return the values to try next, and for which time; repeats come when the strategy is done."""
        params = self.strategy.following(self.cells(), [one.params for one in self.running])
        if params is not None:
            return params, 1
        if any(one.repeat == 1 for one in self.running):  # what it gives may lead to another value
            return None
        return next(self._repeats(), None)

    def _repeats(self) -> Iterator[tuple[Params, int]]:
        """Yield what is to be repeated: A B C, then C B A, so that a machine that grows slower is fair to all."""
        good = [cell.params for cell in self.cells() if cell.status == "ok"]
        begun = [(dict(one.outcome.params), one.outcome.repeat) for one in self.trials]
        begun += [(dict(one.params), one.repeat) for one in self.running]
        for repeat in range(2, self.plan.repeats + 1):
            for params in good if repeat % 2 else reversed(good):
                if (dict(params), repeat) not in begun:
                    yield params, repeat

    def _begin(self, params: Params, repeat: int) -> None:
        job = applied(self.parameters, params, self.plan.command)
        name = self.folder.begin(params, repeat)
        task = task_of(job, self.folder.path / name, self.looks)
        self.begins(params)
        started, now_s = self.executor.start(task), self.now_s()
        self.running.append(
            _Begun(name, params, repeat, started, now_s, Settling(self.plan.limits), now_s + LOOK_EVERY_S)
        )

    def _attend(self, one: _Begun) -> None:
        """See whether a cell has ended, or should."""
        ended = one.job.ended()
        reason = self._enough(one) if ended is None or one.asked else None
        if reason == "budget":
            for other in self.running:  # at once, not one after the other
                other.asked = True
                other.job.ask_to_end()
        if reason is not None:
            one.job.end()
        if ended is not None or reason is not None:
            self._finish(one, ended, reason)

    def _enough(self, one: _Begun) -> Reason | None:
        """Return why a cell that runs should end; None while it should not."""
        now_s, limits = self.now_s(), self.plan.limits
        if one.asked or self._left_s(len(self.running)) <= ENDING_S:
            self.stopped = self.stopped or f"{self.plan.budget.said()} is used up"
            one.limit = f"ended after {duration(now_s - one.began_s)}, as {self.stopped}"
            return "budget"
        if now_s - one.began_s >= limits.cell_time_s:
            one.limit = f"--cell-time {duration(limits.cell_time_s)}"
            return "time"
        if now_s < one.look_at_s:
            return None
        self._keep(one, "interrupted", "it was not finished")  # should we be killed, what it cost is known
        found = recorded(self.folder.path / one.name, traces=False)
        one.look_at_s = self.now_s() + max(LOOK_EVERY_S, (self.now_s() - now_s) / LOOK_PART)
        if found is None:
            return None
        if limits.cell_steps is not None and len(found.seconds) >= limits.cell_steps:
            one.limit = f"--cell-steps {limits.cell_steps}"
            return "steps"
        is_settled = one.settling.look(found.steady)
        self.seen(one.params, len(found.steady), one.settling.known_to)
        if is_settled:
            one.limit = f"known to {100 * limits.settle_share:.3g}%"
            return "settled"
        return None

    def _finish(self, one: _Begun, ended: Ended | None, reason: Reason | None) -> None:
        """Take in a cell that has ended: by itself, or by us for a reason."""
        one.ended_s = self.now_s()
        found = recorded(self.folder.path / one.name)
        steps = 0 if found is None else len(found.steady)
        if reason is not None:
            status, why = by_us(reason, steps, one.limit)
        else:
            assert ended is not None
            status, why = by_itself(ended, one.job.tail(), steps)
        self.running.remove(one)
        outcome = self._keep(one, status, why, settled=reason == "settled")
        if status not in FINISHED:
            self._spent_before.append(outcome)
            return
        self.trials.append(trial(one.name, outcome, found))
        self.told(next(cell for cell in self.cells() if dict(cell.params) == dict(one.params)))

    def _abandon(self) -> None:
        """End what runs, whatever happens meanwhile; its cells will be run again."""
        if not self.running:
            return
        one = self.running.pop()
        try:
            one.job.end()
            self._keep(one, "interrupted", f"interrupted after {duration(self.now_s() - one.began_s)}")
        finally:
            self._abandon()

    def _keep(self, one: _Begun, status: Status, why: str, *, settled: bool = False) -> Outcome:
        """Write down what is known of a cell."""
        seconds = (self.now_s() if one.ended_s is None else one.ended_s) - one.began_s
        outcome = Outcome(dict(one.params), one.repeat, status, why, settled, seconds, self.rate.gpus)
        self.folder.end(one.name, outcome)
        return outcome

    def _left_s(self, running: int) -> float:
        """Return for how long so many cells may go on."""
        return self.plan.budget.left_s(self.rate, self._spent_usd(), self.now_s() - self._began_s, running)

    def _spent_usd(self) -> float:
        """Return what all cells have cost so far, those of earlier calls and those that run with them."""
        now_s = self.now_s()
        done = [(one.outcome.seconds, one.outcome.gpus) for one in self.trials]
        done += [(outcome.seconds, outcome.gpus) for outcome in self._spent_before]
        done += [(now_s - one.began_s, self.rate.gpus) for one in self.running]
        return sum(self.rate.usd(seconds, gpus) or 0.0 for seconds, gpus in done)
