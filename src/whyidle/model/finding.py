"""What we say: findings, the fixes they ask for, and the report that holds them.

The JSON report (schema_version 1) is these dataclasses written out; docs/report.md describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from whyidle.model.detail import DRAWN, Detail
from whyidle.model.hardware import ListPrice, one_price
from whyidle.model.shown import Shown

if TYPE_CHECKING:  # which needs numpy; `whyidle run` does without until the job has ended
    from whyidle.model.evidence import Ignored, Value
    from whyidle.model.picture import Picture

Severity: TypeAlias = Literal["high", "medium", "low"]
Effort: TypeAlias = Literal["argument", "setting", "code"]

Level: TypeAlias = Literal["trace", "step log", "trainer log", "curve"]

# What a finding rests on: a recording; source alone, where it says what can stall; or source that a recording confirmed,
# or cleared: it runs, and nothing is lost by it.
Basis: TypeAlias = Literal["run", "source", "confirmed", "cleared"]

# Limits on lost_share, a share of the window. The upper two: xprof's input-pipeline analysis (0.20, 0.05),
# and torch_tb_profiler for 0.05; 0.02 is the noise of a median step in the recordings that we have.
HIGH, MEDIUM, LOW = 0.20, 0.05, 0.02

# Idle below this, and nothing at medium or above: a healthy job.
HEALTHY_IDLE = 0.03

# Of the time that a curve samples it tells so much, or its job is not called healthy (judgement).
WHOLE = 0.95

# NVML's samples show a kernel in so much of the time, or a GPU that was not traced is not called healthy.
UTILIZED = 0.9

# A loop's own code takes so much of the time, and a job without a GPU is not called healthy: nobody knows what it does.
OWN_CODE = 0.1

EFFORT_COST: Mapping[Effort, int] = {"argument": 1, "setting": 2, "code": 4}

# Causes of idle time: exclusive, and together all of it (docs/method.md says how each is decided).
CAUSES = (
    "data_wait", "checkpoint", "evaluation", "logging", "sync_return", "allocator", "h2d_prep", "gc", "compile",
    "optimizer_host", "autograd_host", "dispatch", "python", "launch_latency", "kernel_gap", "stream_wait",
    "peer_wait", "queue_stall", "unknown",
)  # fmt: skip

# The groups of causes that a person thinks in, as the screen names them, in the order in which equal bars stand.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "waiting for data": ("data_wait",),
    "checkpoint": ("checkpoint",),
    "evaluation": ("evaluation",),
    "logging": ("logging",),
    "blocking reads": ("sync_return",),
    "memory allocation": ("allocator",),
    "preparing copies": ("h2d_prep",),
    "garbage collection": ("gc",),
    "compilation": ("compile",),
    "host dispatch": ("dispatch", "autograd_host", "optimizer_host", "python"),
    "launch latency": ("launch_latency",),
    "between kernels": ("kernel_gap", "stream_wait"),
    "waiting for peers": ("peer_wait",),
    "stalled queue": ("queue_stall",),
    "unknown": ("unknown",),
}

# What the training thread of a watched job does, exclusive and together all of its time (docs/method.md).
PHASES = (
    "data", "prepare", "forward", "backward", "optimizer", "save", "evaluation", "start", "gc", "environment", "other",
)  # fmt: skip


def severity_of(lost_share: float) -> Severity | None:
    """Say how grave a loss is; None for one that is not worth telling."""
    if lost_share >= HIGH:
        return "high"
    if lost_share >= MEDIUM:
        return "medium"
    return "low" if lost_share >= LOW else None


@dataclass(frozen=True, slots=True)
class Location:
    """A place where a person can see it: in source (line), in a timeline (rank, step) or on a curve (device)."""

    file: str
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None
    rank: int | None = None
    device: int | None = None
    step: int | None = None
    start_s: float | None = None  # from the start of the recording, as a trace viewer counts
    end_s: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """What a fix does to a timeline, as data that replay applies.

    `kind` names the operation, `selector` what it applies to, `coefficients` how much. "prior" among these is 1.0 where
    nobody measured them in this job.
    """

    kind: Literal[
        "scale_host",  # host time of a cause, by `factor`
        "remove_sync",  # the blocking, not the call
        "overlap_copies",  # move copies to a stream of their own
        "scale_device",  # device time of a class of work, by `factor`
        "remove_device",  # a class of work disappears
        "merge_launches",  # many launches become one per step
        "overlap_collectives",  # collectives run beside computation, which takes `slowdown` times as long meanwhile
        "larger_batch",  # `factor` times the samples per step; times are told per sample
    ]
    selector: Mapping[str, Value] = field(default_factory=dict)
    coefficients: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction: the likely value, and the range in which it lies with a probability of 80%."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the job does once some fixes are made: by replay of its timeline, or by the model of its loader."""

    step_time_s: Estimate  # median
    step_time_mean_s: Estimate
    speedup: Estimate  # ratio of mean step times, before over after
    per: Literal["step", "sample"] = "step"  # "sample": the batch grows, and a step's time is divided by how much
    source: str = ""  # what it was predicted from
    rests_on: tuple[str, ...] = ()  # coefficients that were not measured in this job
    gpu_idle_share: float | None = None  # what is left
    usd_per_hour_saved: float | None = None  # of all GPUs; None without a price

    @property
    def saved_share(self) -> float:
        """Return the share of today's mean step, or of a sample's time, that is likely saved; never below 0."""
        return max(1 - 1 / self.speedup.likely, 0.0) if self.speedup.likely > 0 else 0.0


# The next measurement after a curve: what a report says once, however many shapes ask for it.
WATCH: Final = "whyidle run -- python train.py"


@dataclass(frozen=True, slots=True)
class Patch:
    """That `whyidle lint --fix` can make a change by itself. Safe: results stay the same, or differ only as noted."""

    safe: bool
    note: str = ""  # what else changes by it


@dataclass(frozen=True, slots=True)
class Fix:
    """One change to make."""

    title: str
    change: str  # what to type
    effort: Effort
    applies: float = 0.8  # probability that this change is possible and removes the loss, 0-1
    risk: str = ""
    edits: tuple[Edit, ...] = ()
    predicted: Predicted | None = None  # None: report.prediction says why
    patch: Patch | None = None  # None: a person has to make it


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of lost time."""

    rule: str
    severity: Severity
    confidence: float  # 0-1: that this is the cause
    message: str  # what is wrong and how much it costs
    lost_share: float | None  # share of the window that the fix could remove; None for source-only findings
    seen: str = ""  # what shows it, and where to look
    locations: tuple[Location, ...] = ()
    fixes: tuple[Fix, ...] = ()
    candidates: tuple[str, ...] = ()  # rules that this evidence cannot tell apart from this one
    evidence: Basis = "run"
    lost_per_step_s: float | None = None  # at its lines, as a recording shows; None: nobody measured it there

    @property
    def shown(self) -> str:
        """Return the message without what it costs, to stand within a sentence."""
        text = self.message.rstrip(".").partition(", which costs")[0]
        return text if text[:2].isupper() and text[1:2] != " " else text[:1].lower() + text[1:]

    @property
    def savings(self) -> tuple[tuple[Fix, float], ...]:
        """Return its fixes with the share of the step that each saves: as predicted, if any is, else what is lost."""
        predicted = [(fix, fix.predicted.saved_share) for fix in self.fixes if fix.predicted is not None]
        return tuple(predicted or ((fix, self.lost_share or 0.0) for fix in self.fixes))

    @property
    def saved_share(self) -> float:
        """Return the share of the step that the best of its fixes saves; without a fix, what is lost."""
        return max((saved for _, saved in self.savings), default=self.lost_share or 0.0)

    @property
    def score(self) -> float:
        """Return what orders findings: saving times probability over effort, for the best of its fixes."""
        scores = [saved * fix.applies / EFFORT_COST[fix.effort] for fix, saved in self.savings]
        return self.confidence * max(scores, default=(self.lost_share or 0.0) / EFFORT_COST["code"])


@dataclass(frozen=True, slots=True)
class Unknown:
    """A rule that could not be asked, what it lacks, and how to get that."""

    rule: str
    missing: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class DeviceBusy:
    """How busy one device of one rank was over its window."""

    rank: int | None
    device: int
    busy_share: float
    window_s: float
    node: str = ""  # of a curve that tells it: the host
    instance: str = ""  # of a GPU that is split (MIG)
    gpus: int = 1  # whose mean this is: CloudWatch has one curve of an instance


@dataclass(frozen=True, slots=True)
class Cost:
    """What the idle time and a unit of work cost. Money in US dollars; None: not measured. See whyidle.cost."""

    usd_per_gpu_hour: float
    price_source: str
    gpus: int
    idle_usd_per_hour: float | None
    hours: float | None = None
    total_usd: float | None = None
    idle_usd: float | None = None
    usd_per_million_samples: float | None = None
    usd_per_million_tokens: float | None = None
    usd_per_million_samples_busy: float | None = None  # were the GPUs never idle: the least that a fix can leave
    usd_per_million_tokens_busy: float | None = None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """How much source was linted."""

    files: int
    lines: int
    unread: int = 0  # files that could not be parsed
    notebooks: int = 0  # of the files
    fixable: int = 0  # findings with a patch


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer in numbers; None is "not measured", never zero."""

    verdict: str
    window_s: float | None = None
    steps: int | None = None
    steps_from: str | None = None  # what the steps were recognised by
    step_time_s: float | None = None  # median, the first dropped when there are at least four
    step_time_mean_s: float | None = None
    gpu_busy_share: float | None = None
    gpu_idle_share: float | None = None
    data_wait_share: float | None = None  # loader ranges over the window, the GPU busy or not
    collective_wait_share: float | None = None  # waiting for a peer; one rank alone shows a lower bound
    collective_exposed_share: float | None = None  # collectives with no other kernel beside them
    tensor_core_share: float | None = None  # of the time in matrix products and convolutions
    launches_per_step: float | None = None
    mfu: float | None = None  # FLOP that the model needs, over `mfu_peak` of all GPUs; 0-1
    mfu_peak: str = ""  # dense peak of one GPU that it is held against: "312 TFLOP/s, bf16 on A100 SXM 40GB"
    idle_by_cause: Mapping[str, float] = field(default_factory=dict)
    devices: tuple[DeviceBusy, ...] = ()
    cost: Cost | None = None
    # of a job that was watched by `whyidle run`
    watched_s: float | None = None
    on_gpu: bool | None = None
    host_shares: Mapping[str, float] = field(default_factory=dict)  # of watched, by phase; they sum to 1
    lost_shares: Mapping[str, float] = field(
        default_factory=dict
    )  # of watched: of these waits, what the GPU waited, too
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    startup_s: float | None = None
    utilization_mean_share: float | None = None  # by NVML's samples, or those of a curve
    batches_per_step: float | None = None  # that training takes from its loader; several where gradients accumulate
    own_code_share: float | None = None  # of watched: code of the loop of which nothing is recorded
    own_code_place: str = ""  # where in the loop most of that lies
    own_code_there_share: float | None = None  # of watched: the part of it that does
    # of curves that others recorded
    curve_s: float | None = None  # how long they are
    curve_interval_s: float | None = None  # between two samples, median
    curve_idle_share: float | None = None  # of them: the mean utilization is the rest
    curve_known_share: float | None = None  # of the time that was sampled: a utilization was told
    source: SourceSummary | None = None  # of `whyidle lint`; None where a recording was judged

    @property
    def paid_idle_share(self) -> float | None:
        """Return the idle share that is paid for: of the whole run, where a curve tells that its traced steps idle less."""
        traced, run = self.gpu_idle_share, self.curve_idle_share if self.on_gpu is not False else None
        if traced is None or run is None:
            return run if traced is None else traced
        return run if run - traced >= OWN_CODE else traced

    @property
    def telling(self) -> bool:
        """Say whether curves hold enough to call a job healthy: most of its time, and no GPU of many that idles."""
        rests = any(one.busy_share < UTILIZED for one in self.devices)  # which the mean of many does not show
        return (self.curve_known_share or 0.0) >= WHOLE and not rests

    @property
    def gpu_count(self) -> int:
        """Return how many GPUs were judged."""
        return gpu_count(self.devices)


def gpu_count(devices: Iterable[DeviceBusy]) -> int:
    """Return how many GPUs these are: parts of one that is split are one, a mean of several is several."""
    return sum({(one.rank, one.node, one.device): one.gpus for one in devices}.values())


LOG: Final = "whyidle run"  # the kind of evidence that a watched process is


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file that was judged."""

    path: str
    kind: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class GpuCount:
    """So many of this model."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job that was watched ended: by an exit code or a signal; neither while it runs, or where nobody saw it."""

    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What was judged."""

    evidence: tuple[EvidenceFile, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    gpus: tuple[GpuCount, ...] = ()
    world_size: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    ended: Ended | None = None  # None: it was not watched
    levels: tuple[Level, ...] = ()  # of evidence that was judged, the one that says most first

    @property
    def only_curves(self) -> bool:
        """Say whether nothing was judged but what others recorded: no trace, and no job that was watched."""
        return bool(self.levels) and not {"trace", "step log"} & set(self.levels)


@dataclass(frozen=True, slots=True)
class Applied:
    """One fix of the sequence in which to make them."""

    rule: str
    title: str
    predicted: Predicted  # once this one and all before it are made
    saved_share: float  # of the step as it is now, mean: what this one adds
    then: str  # the rule that is the next limit; "" where none of the findings' fixes saves more


@dataclass(frozen=True, slots=True)
class Asked:
    """A combination of fixes that a person asked for."""

    rules: tuple[str, ...]
    predicted: Predicted | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What fixes are worth together, and how it was found."""

    refused: str = ""  # why nothing is predicted; empty where something is
    source: str = ""  # what was replayed, in words: "replay of steps 2-6 of rank 0"
    steps: tuple[int, ...] = ()  # numbers of the steps that were replayed
    ranks: tuple[int, ...] = ()
    local: bool = False  # other ranks were not recorded: that they wait for each other is held as it is
    step_time_s: float | None = None  # replayed as it is, once the launch queue has filled; what fixes are held against
    step_time_mean_s: float | None = None
    identity_error: float | None = None  # of the replay without a change, of the recorded step, median
    queue: int | None = None  # launches that a stream takes before it makes the host wait
    sequence: tuple[Applied, ...] = ()  # the order in which to make fixes, each on top of those before it
    joint: Predicted | None = None  # all of the sequence
    critical_path: Mapping[str, float] = field(default_factory=dict)  # share of the step, by what lay on it
    unpriced: Mapping[str, str] = field(default_factory=dict)  # by rule: why its fixes are not predicted
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The whole judgement."""

    run: RunInfo
    summary: Summary
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    warnings: tuple[str, ...] = ()
    detail: Detail = field(default_factory=Detail)
    prediction: Prediction | None = None  # None: nobody asked for it
    judged: bool = True  # False: the evidence does not allow a verdict; summary.verdict says why
    cleared: tuple[Finding, ...] = ()  # what the source lets one suspect, and the recording does not bear out
    picture: Picture | None = field(default=None, metadata=DRAWN, compare=False, repr=False)  # None: not asked for

    @property
    def gpus_rented(self) -> int:
        """Return for how many GPUs the job pays: its ranks, else the GPUs that were seen, else one."""
        return self.run.world_size or self.summary.gpu_count or 1

    @property
    def gpu_is_split(self) -> bool:
        """Say whether the job runs on parts of a GPU (MIG), which has no list price, whoever rents the others."""
        return any(device.instance for device in self.summary.devices)

    @property
    def list_price(self) -> ListPrice | None:
        """Return the one list price that holds for every GPU seen; None without one."""
        return None if self.gpu_is_split else one_price(gpu.name for gpu in self.run.gpus)

    def per_second(self, unit: Literal["samples", "tokens"]) -> float | None:
        """Return what the whole job gets through: ranks that were not recorded are taken to be like the others.

        Where ranks share their samples (tensor and pipeline parallel jobs), that counts each of them several times.
        """
        recorded = sum(file.kind == LOG for file in self.run.evidence)
        per_s = self.summary.samples_per_s if unit == "samples" else self.summary.tokens_per_s
        return per_s * max(self.run.world_size or 1, recorded) / recorded if per_s and recorded else per_s

    @property
    def grave(self) -> tuple[Finding, ...]:
        """Return the findings at medium or above."""
        return tuple(finding for finding in self.findings if finding.severity != "low")

    @property
    def healthy(self) -> bool:
        """Say whether there is nothing to do: the GPU hardly idles, or a job that was only watched hardly waits."""
        s = self.summary
        waits = sum(s.lost_shares.values())
        rested = s.on_gpu is not False and (s.curve_idle_share or 0.0) > 1 - UTILIZED
        if rested:  # over the whole run, also where traced steps do not show it
            return False
        if self.run.only_curves and not s.telling:
            return False
        if s.gpu_idle_share is not None:
            waits = max(waits, s.gpu_idle_share)
            used = 1.0 if s.utilization_mean_share is None else s.utilization_mean_share
            if used < UTILIZED and (s.own_code_there_share or 0.0) >= OWN_CODE:  # in steps that were not traced
                return False
        elif s.on_gpu:
            alone = (self.run.world_size or 1) == 1  # ranks that wait for each other look busy to NVML
            waits = waits if alone and s.lost_shares and (s.utilization_mean_share or 0.0) >= UTILIZED else 1.0
        elif not s.lost_shares or (s.own_code_share or 0.0) >= OWN_CODE:
            return False
        return self.judged and waits < HEALTHY_IDLE and not self.grave

    @property
    def exit_code(self) -> int:
        """Return 0 judged and nothing at medium or above, 1 something there, 2 could not judge."""
        if not self.judged:
            return 2
        return int(bool(self.grave))
