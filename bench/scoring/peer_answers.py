"""What other tools say, in causes: generous, and each line with its reason.

`covers` is all that a tool's word can mean: it is right at its own granularity if the fault is among it. `names` is
what it tells the reader to change: only then does it name the cause. What a tool reports as a mere remainder
("Other", "unattributed" without advice) is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from scoring.alike import answers
from scoring.causes import claimed_by, claims
from scoring.rates import Rate, Spread
from scoring.records import Outcome, PeerSaid

IDLES = ("input.*", "host.*", "sync.*", "pause.*", "compile.*", "memory.*", "transfer.*", "rl.*", "infer.*")


@dataclass(frozen=True, slots=True)
class Word:
    """One answer of one tool."""

    peer: str
    word: str
    covers: tuple[str, ...]
    names: tuple[str, ...]
    why: str


WORDS = (
    Word("hta", "host_wait", IDLES, (), "the CPU has not enqueued enough kernels: any reason that the host is late"),
    Word(
        "hta",
        "kernel_wait",
        ("host.launch_bound", "host.optimizer_loop", "infer.decode_launch_bound", "compute.underfilled"),
        ("host.launch_bound",),
        "its page: overhead of launching many small kernels",
    ),
    Word("hta", "other", ("dist.*",), (), "its page gives the wait for a communication kernel as the example"),
    Word("hta", "non_compute", ("dist.*", "transfer.*"), (), "only communication or memory kernels ran"),
    Word("tb", "dataloader", ("input.*",), ("input.workers_zero",), "its advice is to set num_workers"),
    Word("tb", "communication", ("dist.*",), (), "compress, accumulate or a larger batch: no cause among them"),
    Word(
        "tb",
        "amp",
        ("compute.fp32_no_tensorcore",),
        ("compute.fp32_no_tensorcore",),
        "no tensor-core kernel although operators allow it: enable AMP",
    ),
    Word(
        "tb",
        "low_utilization",
        ("compute.underfilled", "host.launch_bound", "host.optimizer_loop", "infer.*"),
        ("compute.underfilled",),
        "its advice is a larger batch, which is right for these",
    ),
    Word("tb", "memcpy", ("transfer.*",), (), "the step-time bar Memcpy"),
    Word(
        "tb",
        "runtime",
        ("sync.*", "memory.allocator_thrash", "host.launch_bound", "transfer.*"),
        (),
        "the step-time bar Runtime: CUDA calls while the GPU idles",
    ),
    Word("tb", "cpu_exec", ("host.*", "compile.*", "transfer.*", "input.*"), (), "the bar CPU Exec: operators"),
    Word("tracelens", "idle", (*IDLES, "dist.*"), (), "idle time without a split"),
    Word("tracelens", "exposed_comm", ("dist.*",), (), "communication that nothing hides"),
    Word("tracelens", "exposed_memcpy", ("transfer.*",), (), "copies that nothing hides"),
    Word(
        "gpuidle",
        "dataloader_single",
        ("input.*",),
        ("input.workers_zero",),
        "it reads the iterator's class and says num_workers=0",
    ),
    Word(
        "gpuidle",
        "dataloader_multiprocess",
        ("input.*",),
        ("input.workers_too_few", "input.cpu_transform", "input.storage"),
        "it says that the cost per sample is too high for the workers",
    ),
    Word("gpuidle", "dataloader_unknown", ("input.*",), (), "it asks to make samples cheaper or set workers"),
    Word(
        "gpuidle",
        "smallbatch",
        ("host.launch_bound", "host.optimizer_loop", "compute.underfilled", "infer.*"),
        ("host.launch_bound", "compute.underfilled"),
        "per-launch overhead of short kernels: larger batch, fuse or CUDA graphs",
    ),
    Word("gpuidle", "h2d_copy", ("transfer.*",), ("transfer.pageable_h2d",), "its advice is pin_memory, non_blocking"),
    Word("gpuidle", "unattributed", ("host.*", "sync.*"), (), "its advice is CPU work in the loop or a sync point"),
)


@dataclass(frozen=True, slots=True)
class PeerCause:
    """How a tool does on the jobs with one fault."""

    cause: str
    covers: Rate
    names: Rate


@dataclass(frozen=True, slots=True)
class PeerScore:
    """A tool on the same files. whyidle stands among them, measured by what it claims."""

    peer: str
    jobs: int
    crashed: int
    covers: Rate
    names: Rate
    alarms: Rate  # healthy jobs and controls on which it names something
    idle_points: Spread
    by_cause: tuple[PeerCause, ...]
    crashes: tuple[str, ...]  # which, the first few


CRASHES_NAMED = 5


def covers(said: PeerSaid, cause: str) -> bool:
    return any(fnmatch(cause, pattern) for word in _words(said) for pattern in word.covers)


def names(said: PeerSaid, cause: str) -> bool:
    return any(not answers(cause).isdisjoint(word.names) for word in _words(said))


def _words(said: PeerSaid) -> list[Word]:
    return [word for word in WORDS if word.peer == said.peer and word.word in said.words]


def score_peers(outcomes: Sequence[Outcome]) -> tuple[PeerScore, ...]:
    """Return a score for each tool that was asked, whyidle the first; nothing where none was."""
    peers = sorted({said.peer for outcome in outcomes for said in outcome.peers})
    theirs = [_score(peer, [(o, _answer(o, s)) for o in outcomes for s in o.peers if s.peer == peer]) for peer in peers]
    ours = [(outcome, _our_answer(outcome)) for outcome in outcomes if outcome.peers]
    return (_score("whyidle", ours), *theirs) if peers else ()


@dataclass(frozen=True, slots=True)
class _Answer:
    covers: tuple[bool, ...]  # each fault of the job that counts
    names: tuple[bool, ...]
    something: bool
    idle_share: float | None
    crashed: str | None


def _answer(outcome: Outcome, said: PeerSaid) -> _Answer:
    return _Answer(
        tuple(covers(said, fault.id) for fault in outcome.truth.counted),
        tuple(names(said, fault.id) for fault in outcome.truth.counted),
        any(word.names for word in _words(said)),
        said.idle_share,
        said.crashed,
    )


def _our_answer(outcome: Outcome) -> _Answer:
    claimed = tuple(claims(outcome, fault.id, strict=False) for fault in outcome.truth.counted)
    idle = None if outcome.busy_share is None else 1 - outcome.busy_share
    failed = f"{outcome.failure}: {outcome.why}" if outcome.failure else None
    return _Answer(claimed, claimed, bool(claimed_by(outcome)), idle, failed)


def _score(peer: str, asked: Sequence[tuple[Outcome, _Answer]]) -> PeerScore:
    rows = [
        (fault.id, covering, naming)
        for outcome, answer in asked
        for fault, covering, naming in zip(outcome.truth.counted, answer.covers, answer.names, strict=True)
    ]
    by_cause = [(cause, [row for row in rows if row[0] == cause]) for cause in sorted({row[0] for row in rows})]
    crashes = [f"{outcome.truth.name}: {answer.crashed}" for outcome, answer in asked if answer.crashed]
    return PeerScore(
        peer=peer,
        jobs=len(asked),
        crashed=len(crashes),
        covers=Rate.among([row[1] for row in rows]),
        names=Rate.among([row[2] for row in rows]),
        alarms=Rate.among([answer.something for outcome, answer in asked if outcome.truth.harmless]),
        idle_points=Spread.of(
            [
                100 * (answer.idle_share - (1 - outcome.truth.busy_share))
                for outcome, answer in asked
                if answer.idle_share is not None
            ]
        ),
        by_cause=tuple(
            PeerCause(cause, Rate.among([row[1] for row in some]), Rate.among([row[2] for row in some]))
            for cause, some in by_cause
        ),
        crashes=tuple(crashes[:CRASHES_NAMED]),
    )
