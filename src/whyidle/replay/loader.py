"""The closed loop that a PyTorch DataLoader is: workers, batches made ahead, and a training that takes them in order.

Batch j is made by worker j mod W, which begins when it has finished batch j - W and the batch was asked for; that is
when the training took batch j - W x prefetch_factor. Batches are handed over in order. So a wait is neither constant
nor do batches come at a constant pace: a faster training waits more, up to the pace of the workers, and unequal batches
make it wait though the workers would be fast enough in the mean.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

WARM_UP: Final = 500  # batches that are simulated and not counted: the queue is full at the beginning
# A batch that was there is received in 0.5 to 2.4 ms (bench/pairs.py, 2 CPUs); beyond that it was waited for.
RECEIVED_NS: Final = 2.5e6
WAITED: Final = 2.0  # times the quickest call, and WAITED_NS longer: that is a wait (judgement: a busy host jitters)
WAITED_NS: Final = 0.2e6
PART: Final = 0.1  # of the time since the last batch: what is shorter than that, and than RECEIVED_NS, is receiving
SLICED: Final = 8  # draws for each one that is used
FEW_WAITS: Final = 2  # of one wait alone nobody knows whether it was for a batch (judgement)
AHEAD: Final = 8  # batches that one aggregate producer is taken to be ahead: 4 workers, 2 each (PyTorch's default)
RHYTHM: Final = 0.6  # correlation of waits with those k batches before, from which k workers are read (judgement)
PERIODS: Final = 3  # so often must a rhythm be seen
PASSES: Final = 6  # of estimating what could not be seen; the estimate settles in 3 to 5 in simulated loops
NARROWEST: Final = 0.02  # sd of ln of a batch's time, where too few were seen to tell
NORMAL: Final = NormalDist()
GOLDEN: Final = (math.sqrt(5) - 1) / 2  # multiples of it fill 0-1 evenly: draws that are the same in every replay


class Loop(NamedTuple):
    """What the training does per batch once the loop is in its stride, s."""

    wait: Floats  # for the batch
    step: Floats  # from one batch taken to the next


def loop(
    batch_seconds: Sequence[float] | tuple[float, float],
    workers: int,
    prefetch: int,
    consumer_seconds: float | Sequence[float],
    *,
    batches: int = 6000,
    seed: int = 0,
    cpus: float | None = None,
    cpu_share: float = 1.0,
    consumer_cpus: float = 1.0,
    consumer_share: float = 1.0,
    others: float = 0.0,
) -> Loop:
    """Run a loader and its training.

    Args:
        batch_seconds: times that a worker took for batches, or (mean, sd over mean) of a gamma distribution; on a CPU
            of its own.
        workers: 0 makes each batch when it is asked for, in the training process.
        prefetch: batches that each worker makes ahead.
        consumer_seconds: what the training does from one batch to asking for the next; several are taken in turn.
        batches: that are counted, after the warm-up.
        seed: of the draws.
        cpus: that the workers and the training share; None if there is no end of them.
        cpu_share: of a batch's time that is computing; above 1 where a worker has several threads.
        consumer_cpus: CPUs that the training uses between batches.
        consumer_share: part of that time that takes longer where these are not free; none of it where a GPU works.
        others: processes of other programs that want these CPUs all the time.
    """
    count = batches + WARM_UP
    makes = drawn(batch_seconds, count, seed)
    own = np.resize(np.asarray(consumer_seconds, np.float64), count).tolist()
    if workers < 1:
        slow = 1.0 if cpus is None else max((consumer_cpus + others) / max(cpus, 1e-3), 1.0)
        computes = min(cpu_share, 1.0)
        took = np.asarray(makes) * (1 - computes + computes * slow)
        beside = np.asarray(own) * (1 - consumer_share + consumer_share * slow)
        return Loop(took[WARM_UP:], (took + beside)[WARM_UP:])
    if cpus is None or cpus >= workers * cpu_share + consumer_cpus + others:
        wait, got = _alone(makes, workers, prefetch, own)
    else:
        wait, got = _shared(
            makes, workers, prefetch, own, max(cpus, 1e-3), (cpu_share, consumer_cpus, consumer_share, others)
        )
    return Loop(np.asarray(wait[WARM_UP:]), np.diff(np.asarray(got))[WARM_UP - 1 :])


def drawn(batch_seconds: Sequence[float] | tuple[float, float], count: int, seed: int) -> list[float]:
    """Return so many times of batches, s: drawn from those that were seen, or from a gamma distribution."""
    random = np.random.default_rng(seed)
    if not isinstance(batch_seconds, tuple):
        return [float(x) for x in random.choice(np.asarray(batch_seconds, np.float64), count)]
    mean, spread = batch_seconds
    if spread <= 0 or mean <= 0:
        return [max(mean, 0.0)] * count
    shape = 1 / spread**2
    # one draw from each of equally likely slices: sums vary less from seed to seed
    many = np.sort(random.gamma(shape, mean / shape, count * SLICED)).reshape(count, SLICED)
    chosen = many[np.arange(count), random.integers(0, SLICED, count)]
    return [float(x) for x in random.permutation(chosen)]


def _alone(makes: list[float], workers: int, prefetch: int, own: list[float]) -> tuple[list[float], list[float]]:
    """Return the wait for each batch and when it was taken, where every process has a CPU."""
    ahead = workers * max(prefetch, 1)
    ready, got, wait = [0.0] * len(makes), [0.0] * len(makes), [0.0] * len(makes)
    now = 0.0
    for j, making in enumerate(makes):
        begins = max(ready[j - workers] if j >= workers else 0.0, got[j - ahead] if j >= ahead else 0.0)
        ready[j] = begins + making
        wait[j] = max(ready[j] - now, 0.0)
        got[j] = now + wait[j]
        now = got[j] + own[j]
    return wait, got


def _shared(
    makes: list[float],
    workers: int,
    prefetch: int,
    own: list[float],
    cpus: float,
    shares: tuple[float, float, float, float],
) -> tuple[list[float], list[float]]:
    """Return the same where processes share CPUs: each gets as much of them as any other.

    Workers run at one speed, so that one clock that counts work done tells when each of them is ready.
    """
    count, ahead = len(makes), workers * max(prefetch, 1)
    cpu_share, consumer_cpus, trains, others = shares
    computes = min(cpu_share, 1.0)
    done, got, wait = [False] * count, [0.0] * count, [0.0] * count
    under_way = [(makes[j], j) for j in range(min(workers, count))]  # by the work done at which each is ready
    heapq.heapify(under_way)
    resting: set[int] = set()  # workers whose next batch is not asked for yet, by that batch
    worked = now = asked = left = 0.0
    taken, training = 0, False
    while taken < count:
        load = len(under_way) * cpu_share + consumer_cpus * training + others
        slow = max(load / cpus, 1.0)
        slower, own_slower = 1 - computes + computes * slow, 1 - trains + trains * slow
        until_ready = (under_way[0][0] - worked) * slower if under_way else math.inf
        until_asks = left * own_slower if training else math.inf
        if until_ready <= until_asks:
            now += until_ready
            worked, j = heapq.heappop(under_way)
            left -= until_ready / own_slower if training else 0.0
            done[j] = True
            following = j + workers
            if following < min(taken + ahead, count):
                heapq.heappush(under_way, (worked + makes[following], following))
            else:
                resting.add(following)
        else:
            now += until_asks
            worked += until_asks / slower
            training, asked = False, now
        if not training and done[taken]:
            got[taken], wait[taken] = now, now - asked
            left, training = own[taken], True
            taken += 1
            following = taken - 1 + ahead
            if following in resting and following < count:
                resting.discard(following)
                heapq.heappush(under_way, (worked + makes[following], following))
    return wait, got


@dataclass(slots=True)
class Loader:
    """The loader of a recorded job, to be asked for its batches again by a training that is faster or slower.

    Times are ns, of the recording's clock. What a batch took to make is known where it was waited for; where it was
    not, it took no longer than until it was asked for, and is drawn from what is left of the distribution.
    """

    workers: int  # 0: batches are made when they are asked for; 1 may stand for several that nobody could count
    ahead: int  # batches that may be under way or waiting
    origin: float  # when the first is asked for: what was under way before counts from here
    makes: list[float]  # time that each batch takes a worker
    own: list[float]  # what it costs to receive each
    waited: int  # batches that were waited for, beyond those under way before: what tells how fast they can come
    _ready: list[float] = field(default_factory=list)
    _got: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, takes: Sequence[tuple[float, float]], workers: int | None, prefetch: int = 2) -> Loader:
        """Return the loader from what was recorded of it.

        Args:
            takes: (asked, got) of each call of `__next__`, in order, ns.
            workers: of the loader; None if nobody knows.
            prefetch: batches that each of them makes ahead.
        """
        took = [max(float(got) - float(asked), 0.0) for asked, got in takes]
        least = min(took, default=0.0)
        receives = least if least <= RECEIVED_NS else 0.0
        paces = [float(got) - float(before) for (_, before), (_, got) in pairwise(takes)]
        least_wait = [RECEIVED_NS, *(min(RECEIVED_NS, PART * pace) for pace in paces)]
        late = [
            t > max(WAITED * receives, receives + WAITED_NS, least) for t, least in zip(took, least_wait, strict=False)
        ]
        origin = float(takes[0][0]) if takes else 0.0
        if sum(late) < FEW_WAITS and workers != 0:  # something else may have held up the process
            late = [False] * len(late)
        own = [receives if is_late else t for t, is_late in zip(took, late, strict=True)]
        if workers == 0:
            makes = [t - o for t, o in zip(took, own, strict=True)]
            return cls(0, 0, origin, makes, own, sum(late))
        count = workers if workers is not None else rhythm(took, late)
        ahead = count * max(prefetch, 1) if workers is not None or count > 1 else AHEAD
        made = cls(count, ahead, origin, [], own, sum(late[count:]))
        made.makes = _inferred(takes, late, own, count, ahead, origin)
        return made

    @property
    def unseen(self) -> bool:
        """Say whether nobody knows how fast batches could come: they are taken to be there."""
        return self.workers > 0 and not self.waited

    def quicker(self, left: Sequence[float]) -> Loader:
        """Return the loader with that part of each batch's time left, of making it and of all but receiving it.

        Batches that are made at the same time as one are as quick.
        """
        made = list(left)
        for j in range(len(made)):
            made[j] = min(left[max(j - max(self.workers, 1) + 1, 0) : j + 1])
        makes = [time * part for time, part in zip(self.makes, made, strict=True)]
        least = min(self.own, default=0.0)
        own = [least + (time - least) * part for time, part in zip(self.own, left, strict=True)]
        return replace(self, makes=makes, own=own, _ready=[], _got=[])

    def reset(self) -> None:
        """Begin anew."""
        self._ready, self._got = [], []

    def next(self, j: int, asked: float) -> float:
        """Return when the training has batch j, which it asks for at `asked`; batches are asked for in order."""
        ready = self._begins(j, asked) + self.makes[j]
        got = max(asked, ready) + self.own[j]
        self._ready.append(ready)
        self._got.append(got)
        return got

    def _begins(self, j: int, asked: float) -> float:
        if self.workers == 0:
            return asked
        if j == 0:
            self.origin = asked
        begins = self._ready[j - self.workers] if j >= self.workers else self.origin
        return max(begins, self._got[j - self.ahead]) if j >= self.ahead else begins


def rhythm(took: Sequence[float], late: Sequence[bool]) -> int:
    """Return the number of workers as waits tell it: k that begin together are late together; 1 if nothing tells."""
    if sum(late) < PERIODS:
        return 1
    waits = np.asarray(took)
    best, found = 1, RHYTHM
    for k in range(2, len(waits) // PERIODS + 1):
        if waits[k:].std() and waits[:-k].std():
            alike = float(np.corrcoef(waits[k:], waits[:-k])[0, 1])
            if alike > found + 0.05:  # a multiple of the rhythm is as good as the rhythm
                best, found = k, alike
    return best


def _inferred(
    takes: Sequence[tuple[float, float]],
    late: Sequence[bool],
    own: Sequence[float],
    workers: int,
    ahead: int,
    origin: float,
) -> list[float]:
    """Return what each batch takes, such that with the same training each is there when it was.

    A batch's time on a logarithmic scale is taken as normal. What was not waited for is known by its upper limit only.
    """
    n = len(takes)
    seen = sum(late[workers:])
    if not seen:
        return [max(takes[j][1] - own[j] - origin, 0.0) if late[j] else 0.0 for j in range(n)]
    middle: float | None = None
    width = 0.0
    makes: list[float] = []
    for _ in range(PASSES):
        makes, ready = [], [0.0] * n
        known: list[float] = []
        limits: list[float] = []
        for j in range(n):
            begins = ready[j - workers] if j >= workers else origin
            if j >= ahead:
                begins = max(begins, float(takes[j - ahead][1]))
            latest = float(takes[j][1]) - own[j] if late[j] else float(takes[j][0])
            limit = max(latest - begins, 0.0)
            took = limit if late[j] else _drawn_below(limit, middle, width, j)
            ready[j] = begins + took
            makes.append(took)
            if j >= workers and limit > 0:
                (known if late[j] else limits).append(math.log(limit))
        middle, width = _fitted(known, limits, middle, width)
    return makes


def _drawn_below(limit: float, middle: float | None, width: float, j: int) -> float:
    """Return a time for batch j that is below its limit, from the distribution as far as it is known."""
    if limit <= 0:
        return 0.0
    if middle is None:
        return limit
    below = NORMAL.cdf((math.log(limit) - middle) / width)
    if below <= 1e-6:
        return limit
    part = min(max((GOLDEN * (j + 1)) % 1.0 * below, 1e-9), 1 - 1e-9)
    return min(math.exp(middle + width * NORMAL.inv_cdf(part)), limit)


def _fitted(known: list[float], limits: list[float], middle: float | None, width: float) -> tuple[float, float]:
    """Return mean and sd of ln of the time, from times and from upper limits of others: one step of EM."""
    if not known:
        return (middle if middle is not None else 0.0), max(width, NARROWEST)
    if middle is None:
        spread = float(np.std(known)) if len(known) > 1 else 0.0
        middle, width = float(np.mean(known)), max(spread, 0.3 if limits else NARROWEST)
    for _ in range(8):
        first, second = sum(known), sum(x * x for x in known)
        for limit in limits:
            b = (limit - middle) / width
            below = max(NORMAL.cdf(b), 1e-12)
            ratio = NORMAL.pdf(b) / below
            mean = middle - width * ratio
            variance = width * width * max(1 - b * ratio - ratio * ratio, 1e-6)
            first += mean
            second += variance + mean * mean
        total = len(known) + len(limits)
        middle = first / total
        width = max(math.sqrt(max(second / total - middle * middle, 0.0)), NARROWEST)
    return middle, width
