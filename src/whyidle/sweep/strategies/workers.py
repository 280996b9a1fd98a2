"""The number of DataLoader workers, in at most four cells.

The first cell tells what a batch takes to make and what the training takes to use it, so the second is what the loop of
such a loader says is enough (`loading.py`); the others correct it by what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from whyidle.model.trial import Cell
from whyidle.rules.input.loader_model import MOST, SPREAD
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.strategies.base import Machine, Search, measured, step_of
from whyidle.sweep.strategies.loading import WAITS, Loading, waits

PROBES: Final = 4  # docs/method.md, search
GAIN: Final = 0.02  # of the step: less is not worth workers (docs/method.md, search)
FIRST: Final = 4  # workers: enough for many, few enough that they do not fill what they share (judgement)
FINE: Final = 12  # workers up to which every number is looked at; beyond, about every eighth of it
MORE: Final = 1.5  # times the workers, where a wait is left and nothing says why (docs/method.md, search)
LATE: Final = 0.05  # of the step: such a wait asks for more workers
BUSY: Final = 0.90  # of the CPUs: they are the limit (docs/method.md, search)
BLOCKED: Final = 0.5  # of the workers' time in which they compute nothing: storage is the limit (judgement)
FULL: Final = 0.8  # of the host's memory (judgement: the rest is for the page cache and all others)
SHM_BYTES: Final = 2**30  # less in /dev/shm is what containers have by default: 64 MiB (docs.docker.com, --shm-size)
FAILED: Final = ("failed", "out of memory")
MOST_PRESENT: Final = 1024  # workers that a job may have already
UNBOUNDED: Final = 10**9  # workers
BEYOND: Final = 4  # times the CPUs: workers that are tried where they mostly wait (judgement)
AHEAD: Final = (4, 8)  # prefetch factors that are tried by simulation


class Workers(Search):
    """Finds the fewest workers with which a step is within 2% of the shortest, in 4 cells at most.

    With values only those are tried; without, any number up to the CPUs of a training process.
    """

    name = "workers"
    usual = "num_workers"
    word = "workers"
    least = 0

    def __init__(self, parameters: Sequence[Parameter], machine: Machine) -> None:
        super().__init__(parameters, machine)
        self.cpus = machine.cpus_per_rank
        most = int(MOST) if self.cpus is None else max(int(self.cpus), 1)
        self.candidates = tuple(sorted(self.given)) or ladder(most)
        self.most = self.candidates[-1]
        present = self._chosen().present or ""
        self.present = int(present) if present.isdecimal() and int(present) <= MOST_PRESENT else None
        if not self.given:  # beyond the CPUs only the present number, and workers that mostly wait
            more = ladder(BEYOND * most) if self.cpus is not None else ()
            present_too = () if self.present is None else (self.present,)
            self.candidates = tuple(sorted({*self.candidates, *more, *present_too}))
        texts = [text for name, text in self.fixed.items() if "prefetch" in name and text.isdecimal()]
        self.prefetch = int(texts[0]) if texts else 2  # PyTorch's default

    @property
    def most_cells(self) -> int:
        """Return the cells that a search takes at most."""
        return min(PROBES, len(self.candidates))

    def next_value(self, tried: Mapping[int, Cell]) -> int | None:
        """Return the number of workers to try next, None at the end."""
        known, room = measured(tried), self._room(tried)
        top = self._top(known)
        left = [workers for workers in self.candidates if workers <= min(room, top) and workers not in tried]
        if not tried and self.present in self.candidates:
            return self.present  # what all others are compared with
        if len(tried) >= PROBES or not left:
            return None
        if not known:
            first = min(FIRST, max(self.most // 2, 1)) if not tried else min(tried) // 2
            return _nearest(left, first) if len(tried) < 2 else None  # twice nothing: it is not the workers
        loading = self._loading(known)
        if loading is None:
            return self._climbed(known, left)
        chosen = self._enough(loading, known, left)
        return chosen if chosen not in known else self._further(known, left)

    def why(self, cells: Sequence[Cell]) -> str:
        """Return what limits the job at its best, and what would help."""
        tried = self.tried(cells)
        known = measured(tried)
        if not known:
            return "No number of workers gave a step time." if tried else "No number of workers was tried."
        best = _best(known)
        said = (self._limit(tried, known, best), self._ahead(known, best))
        return " ".join(f"{text[0].upper()}{text[1:]}." for text in said if text)

    def _top(self, known: Mapping[int, Cell]) -> int:
        """Return the most workers that make sense: the CPUs, and more where workers that wait are what is missing."""
        best = _best(known) if known else 0
        cell = known.get(best)
        idle = cell is not None and (cell.io_wait_share or 0.0) >= BLOCKED and (cell.cpu_busy_share or 0.0) < BUSY
        short = cell is not None and waits(cell) > LATE and _no_better(known, best) is None
        return self.candidates[-1] if self.given or (idle and short and best >= self.most) else self.most

    def _enough(self, loading: Loading, known: Mapping[int, Cell], left: Sequence[int]) -> int:
        """Return the fewest workers whose step is about the shortest that can be had."""
        steps = {workers: loading.step(workers) for workers in left} | {w: step_of(cell) for w, cell in known.items()}
        shortest = min(steps.values())
        return min(workers for workers, step in steps.items() if step <= (1 + GAIN) * shortest)

    def _climbed(self, known: Mapping[int, Cell], left: Sequence[int]) -> int | None:
        """Return about the double of the most workers or half of the fewest, where these do best: no wait is known."""
        best = _best(known)
        if best == max(known) and left[-1] > best:
            return _nearest([workers for workers in left if workers > best], 2 * best)
        if best == min(known) and left[0] < best:
            return _nearest([workers for workers in left if workers < best], best // 2)
        return None

    def _further(self, known: Mapping[int, Cell], left: Sequence[int]) -> int | None:
        """Return half as many workers again, where a wait is left and nothing measured says why."""
        best = _best(known)
        if (
            waits(known[best]) <= LATE
            or (known[best].cpu_busy_share or 0.0) >= BUSY
            or _no_better(known, best) is not None
        ):
            return None
        larger = [workers for workers in left if workers > best]
        return _nearest(larger, MORE * best) if larger else None

    def _loading(self, known: Mapping[int, Cell]) -> Loading | None:
        return Loading.of(known, self.cpus, self.prefetch)

    def _room(self, tried: Mapping[int, Cell]) -> int:
        """Return the most workers to try by what is known so far: of failures, and of the host's memory."""
        room = UNBOUNDED
        failed = [workers for workers, cell in tried.items() if workers and cell.status in FAILED]
        if failed:  # the middle, since what fails at one number hardly works at the one below
            room = (
                max((workers for workers in measured(tried) if workers < min(failed)), default=0) + min(failed)
            ) // 2
        seen = [(w, cell.peak_host_memory_bytes) for w, cell in tried.items() if cell.peak_host_memory_bytes]
        if self.machine.memory_bytes is None or not seen:
            return room
        (few, least), (most, used) = seen[0], seen[-1]
        each = (used - least) / (most - few) if most > few else used / (most + 1)
        if each <= 0:
            return room
        return min(room, max(most, int(most + (FULL * self.machine.memory_bytes - used) / each)))

    def _limit(self, tried: Mapping[int, Cell], known: Mapping[int, Cell], best: int) -> str:
        """Return why more workers would not help, or that they might."""
        cell, larger = known[best], [workers for workers in self.candidates if best < workers <= self._top(known)]
        if cell.data_wait_share is not None and waits(cell) <= WAITS:
            return f"with {_workers(best)} the training waits for data {waits(cell):.1%} of its time: more cannot help"
        failed = [workers for workers in tried if workers > best and tried[workers].status in FAILED]
        if failed:
            return f"at {_workers(min(failed))} {self._failure(tried[min(failed)])}"
        if (cell.cpu_busy_share or 0.0) >= BUSY:
            return (
                f"the CPUs are the limit: {cell.cpu_busy_share:.0%} busy at {_workers(best)}: more will not help; "
                "more CPUs, cheaper transforms, or transforms on the GPU would"
            )
        if (other := _no_better(known, best)) is not None:
            return _shared(known, best, other)
        if any(workers > self._room(tried) for workers in larger):
            return "more workers would not fit into the host's memory"
        if not larger:
            most = "as many as a training process has CPUs"
            if self.given or best > self.most:
                most = "the most that were given" if self.given else "the most that are tried for these CPUs"
            wait = "" if cell.data_wait_share is None else f", and a wait of {waits(cell):.0%} is left"
            blocked = (cell.io_wait_share or 0.0) >= BLOCKED and not self.given
            by_hand = f"-p {self.parameter}={best},{_more(best)}"
            more = f": workers mostly wait, for storage say, so that more may help, {by_hand}"
            return f"{_workers(best)} are {most}{wait}{more if blocked else ''}"
        if len(tried) >= PROBES:
            return f"after {len(tried)} cells the search ends; -p {self.parameter}={best},{_more(best)} goes on by hand"
        return f"no other number of workers promises a step that is {GAIN:.0%} shorter"

    def _failure(self, cell: Cell) -> str:
        """Return how a cell failed; workers that have nowhere to put a batch fail by a bus error."""
        what = "the job runs out of memory" if cell.status == "out of memory" else "the job fails"
        shm = self.machine.shm_bytes
        if shm is not None and shm < SHM_BYTES:
            return f"{what}; /dev/shm has {shm / 2**20:.0f} MiB (docker run --shm-size=8g)"
        return what

    def _ahead(self, known: Mapping[int, Cell], best: int) -> str:
        """Return what more batches made ahead would do, where unequal ones hold up workers that are enough."""
        cell, loading = known[best], self._loading(known)
        if loading is None or not best or waits(cell) <= WAITS or (cell.fetch_cv or 0.0) <= SPREAD:
            return ""
        if loading.making >= best * loading.own or loading.floor:
            return ""
        now = loading.wait_share(best, self.prefetch)
        for factor in AHEAD:
            if factor > self.prefetch and now - (then := loading.wait_share(best, factor)) > GAIN:
                return (
                    f"batches are unequal (sd {cell.fetch_cv:.1f} of the mean): prefetch_factor={factor} would take "
                    f"the wait from {now:.0%} to {then:.0%} (simulated)"
                )
        return ""


def ladder(most: int) -> tuple[int, ...]:
    """Return the numbers of workers that are looked at: all at first, then about every eighth, and the most."""
    found = list(range(min(most, FINE) + 1))
    while found[-1] < most:
        found.append(min(found[-1] + max(found[-1] // 8, 1), most))
    return tuple(found)


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"


def _more(workers: int) -> int:
    return max(2 * workers, 1)


def _nearest(among: Sequence[int], wanted: float) -> int:
    return min(among, key=lambda workers: (abs(workers - wanted), workers))


def _best(known: Mapping[int, Cell]) -> int:
    """Return the fewest workers whose step is about the shortest."""
    shortest = min(step_of(cell) for cell in known.values())
    return min(workers for workers, cell in known.items() if step_of(cell) <= (1 + GAIN) * shortest)


def _no_better(known: Mapping[int, Cell], best: int) -> int | None:
    """Return a number of workers that shows that more do not bring what they should; None where none does.

    That is one beyond the best, or one clearly below it that does nearly as well.
    """
    beyond = [workers for workers in known if workers > best]
    fewer = [
        workers
        for workers, cell in known.items()
        if workers < best and step_of(cell) / step_of(known[best]) < 1 + (best / max(workers, 1) - 1) / 4
    ]
    return next(iter(beyond + fewer), None)


def _shared(known: Mapping[int, Cell], best: int, other: int) -> str:
    """Return what workers share that is full, where another number of them does as well as the best."""
    cell, more = known[best], known[max(best, other)]
    few, many = sorted((best, other))
    if not (_is_sure(cell) and _is_sure(known[other])):
        return (
            "more workers are not seen to help, in cells whose steps vary too much to tell: a longer --cell-time does"
        )
    own, beside = (step_of(known[workers]) * (1 - waits(known[workers])) for workers in (few, many))
    if more.data_wait_share is not None and beside > (1 + LATE) * own:
        return (
            f"the training shares CPUs with its workers: its own work takes {own * 1e3:.3g} ms a step beside "
            f"{_workers(few)}, {beside * 1e3:.3g} ms beside {many}"
        )
    if (cell.io_wait_share or 0.0) >= BLOCKED:
        return (
            f"storage is the limit: workers wait for it {cell.io_wait_share:.0%} of their time, and more of "
            "them do not get more from it; faster storage, a cache, or fewer and larger files would help"
        )
    return "more workers do not shorten the step further; what they share that is full was not measured"


def _is_sure(cell: Cell) -> bool:
    """Say whether the mean step is known to 5%."""
    mean = cell.step_time_mean_s
    return mean is not None and mean.half_share <= LATE
