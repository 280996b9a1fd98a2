"""Can this recording be believed? What is wrong with it lowers confidence, or forbids a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, among
from whyidle.measure.timeline import FARTHEST_CLOCK, pick
from whyidle.model.evidence import Kind
from whyidle.model.finding import LOW
from whyidle.model.intervals import covered_before

# ns: a stream runs one operation at a time; rounding makes neighbours overlap by up to 4 us in the recordings that we
# have, but for 9 of 15,632 operations of one, by up to 13 us.
OVERLAP = 5_000
# Of launches without a kernel: the profiler drops the first of a session (pytorch#192021). Recordings that we have lack
# none (one of 17 operations half), captures of graphs 98% and more; the limits between are a judgement.
FEW_MISSING, MANY_MISSING = 0.02, 0.5
# Launches that a stream holds before the host has to wait: 1021 in HTA's ns_resolution recording, "about 1000" told.
QUEUE = 1024
FEW_OPERATIONS = 10  # judgement: one layer launches as many
# Of the window. Judgement: of the recordings without steps those of a server and of a capture have 0.97 and more, the
# others up to 0.83.
LONGEST_GAP = 0.9
# A step so many times the median that holds so much of the idle time is an event, not a habit. The longest of at least
# four steps takes up to 1.5 medians in the recordings that we have; the limits are a judgement.
MANY_STEPS, LONG_STEP, MOST = 4, 3, 0.5
GPU_STEPS = 2  # whose work ends in the window. Judgement: of one alone nobody knows whether the next would be like it


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing wrong with a recording."""

    message: str
    confidence: float = 1.0  # what is left of it, 0-1
    refuse: bool = False  # no verdict on this recording
    hollow: bool = False  # nor any number about idle time


def doubts(a: Analysis) -> Iterator[Doubt]:
    """Yield what is wrong with a recording of GPU work."""
    for check in CHECKS:
        yield from check(a)


def graph_capture(a: Analysis) -> Iterator[Doubt]:
    """Capturing a CUDA or HIP graph launches nothing: its launches must not read as an idle GPU."""
    captures = len(a.t.host_like(names.CAPTURE, Kind.RUNTIME))
    if captures and missing_share(a, kernel_launches(a)) > MANY_MISSING:
        yield Doubt(
            "this records the capture of a CUDA/HIP graph, not its execution: kernels were noted, not run, "
            "so the GPU's idle time here says nothing. Record the replay instead (after warm-up).",
            refuse=True,
            hollow=True,
        )


def kernel_launches(a: Analysis) -> Index:
    """Return the calls that launch kernels. Fills do not count: many recordings leave out small ones."""
    calls = a.t.host_like(names.KERNEL_LAUNCH, Kind.RUNTIME)
    return calls[a.t.host.correlation[calls] >= 0]


def missing_share(a: Analysis, calls: Index) -> float:
    """Return the share of these launches behind which no device operation was recorded."""
    return 1 - float(among(calls, a.t.launching).mean()) if len(calls) else 0.0


def lost_kernels(a: Analysis) -> Iterator[Doubt]:
    """Launches without kernels: the profiler lost some, so the GPU looks more idle than it was.

    The last launches may stand in the queue when the recording stops; more than fit into it, or than one step makes,
    were lost.
    """
    calls, start = kernel_launches(a), a.t.host.start
    if len(a.t.launching):
        tail = start[calls] > start[a.t.launching].max()
        step = float(np.median(a.t.steps.times)) if a.steps else np.inf
        spans = start[calls][tail].max(initial=0) - start[calls][tail].min(initial=np.iinfo(np.int64).max)
        if np.count_nonzero(tail) <= QUEUE and spans < step:
            calls = calls[~tail]
    share = missing_share(a, calls)
    if share <= FEW_MISSING or len(a.t.host_like(names.CAPTURE, Kind.RUNTIME)):
        return
    text = f"{share:.0%} of the launches have no GPU operation in the recording (the profiler dropped them): "
    if share > MANY_MISSING:
        yield Doubt(text + "too many for a verdict. Record again with a longer warm-up.", refuse=True, hollow=True)
    else:
        yield Doubt(text + "the GPU was less idle than it looks.", confidence=1 - share)


def few_operations(a: Analysis) -> Iterator[Doubt]:
    count = len(a.t.device)
    if count < FEW_OPERATIONS:
        noun = "operation was" if count == 1 else "operations were"
        yield Doubt(f"only {count} GPU {noun} recorded, too few to speak for a job.", refuse=True)


def no_durations(a: Analysis) -> Iterator[Doubt]:
    """A GPU that seems never busy, since the ends of its operations were lost."""
    if not (a.t.device.end > a.t.device.start).any():
        yield Doubt("no GPU operation in this recording has a duration: they were lost.", refuse=True, hollow=True)


def corrupt_durations(a: Analysis) -> Iterator[Doubt]:
    """Operations that ran past several successors of their stream (see durations.py)."""
    count, whole = len(a.t.corrupt), len(a.t.device)
    if count:
        noun = "operation has a duration" if count == 1 else "operations have durations"
        yield Doubt(
            f"{count:,} of {whole:,} GPU {noun} that cannot be true, past the start of others on the same stream: "
            "cut back to there.",
            confidence=max(1 - 10 * count / whole, 0.5),
        )


def overlaps(a: Analysis) -> Iterator[Doubt]:
    """Operations of one stream that overlap: a corrupt duration (Hyperloom#1116) or a clock that jumped."""
    d = a.t.device
    order = a.t.by_stream
    same = (d.stream[order][1:] == d.stream[order][:-1]) & (d.device[order][1:] == d.device[order][:-1])
    beyond = (d.end[order][:-1] - d.start[order][1:])[same]
    bad = beyond[beyond > OVERLAP]
    if len(bad):
        share = len(bad) / len(d)
        yield Doubt(
            f"{len(bad):,} of {len(d):,} GPU operations overlap the next of their stream by more than "
            f"{OVERLAP / 1000:.0f} µs (worst {bad.max() / 1e6:.3g} ms): their durations are doubtful.",
            confidence=max(1 - share * 10, 0.5),
        )


def step_numbers(a: Analysis) -> Iterator[Doubt]:
    number = a.t.steps.number
    if len(number) > 1 and a.t.steps.source == "ProfilerStep":
        missing = int(number[-1] - number[0]) + 1 - len(number)
        if missing > 0:
            noun = "step is" if missing == 1 else "steps are"
            yield Doubt(f"{missing} profiler {noun} missing between {number[0]} and {number[-1]}.", confidence=0.9)


def one_long_gap(a: Analysis) -> Iterator[Doubt]:
    """A window that is nearly all one gap is no picture of steady work."""
    for device in a.devices:
        window = device.high - device.low
        lengths = device.gaps.span.lengths
        if len(lengths) and not a.steps and lengths.max() > LONGEST_GAP * window:
            yield Doubt(
                f"{lengths.max() / window:.0%} of the recording is a single gap, and no steps were found: "
                "this may not be steady work. Record several steps (prof.step()).",
                confidence=0.5,
            )


def one_long_step(a: Analysis) -> Iterator[Doubt]:
    """Idle time that nearly all falls into one step that is far longer than the others says little of the job."""
    if a.steps < MANY_STEPS:
        return
    t = a.t.steps
    length = t.end - t.start
    longest = int(np.argmax(length))
    idle = np.zeros(a.steps)
    for device in a.devices:
        span = device.gaps.span
        idle += np.diff(covered_before(np.append(t.start, t.end[-1]), span))
    rest = length.sum() - length[longest]
    if idle.sum() and length[longest] > LONG_STEP * np.median(length) and idle[longest] > MOST * idle.sum():
        without = (idle.sum() - idle[longest]) / max(rest * len(a.devices), 1)
        hint = "Record after a warm-up." if longest == 0 else "Over a whole job the share of such an event is smaller."
        yield Doubt(
            f"step {int(t.number[longest])} took {length[longest] / 1e9:.3g} s, the median step "
            f"{np.median(length) / 1e9:.3g} s, and it holds {idle[longest] / idle.sum():.0%} of the idle time: "
            f"without it the GPU idles {without:.0%}. {hint}",
            confidence=0.7,
        )


def clocks(a: Analysis) -> Iterator[Doubt]:
    """Operations that start before they are launched: clocks disagree, or ids were used twice (see timeline.py)."""
    for device in (one.device for one in a.devices):
        offset = a.t.clock_offsets[device]
        if offset > FARTHEST_CLOCK:
            yield Doubt(
                f"operations of GPU {device} start up to {offset / 1e6:.3g} ms before their launch: ids were used "
                "twice in the recording, or clocks jumped. Which launch belongs to what is doubtful.",
                confidence=0.3,
            )
        elif offset:
            yield Doubt(
                f"times of GPU {device} run {offset / 1e3:.0f} µs ahead of the host's: operations start before their "
                "launch. Shifted to fit.",
                confidence=0.9,
            )


def running_ahead(a: Analysis) -> Iterator[Doubt]:
    """A host that is steps ahead of its GPU when the recording ends: its steps are not the GPU's.

    That is what a job that the GPU limits looks like. It is doubtful only where the GPU ends so late that the window
    does not hold two of its steps.
    """
    if not a.steps or a.t.steps.source != "ProfilerStep":
        return
    low, high = a.t.whole_window
    launched = a.t.launch >= 0
    start = pick(a.t.host.start, a.t.launch, -1)
    inside = launched & (start >= low) & (start < high)
    ends = np.zeros(a.steps, np.int64)  # of the work that each step launched
    np.maximum.at(ends, np.searchsorted(a.t.steps.start, start[inside], "right") - 1, a.t.device.end[inside])
    behind = int(ends.max(initial=high)) - high
    step = float(np.median(a.t.steps.times))
    if behind <= max(step, 0.1 * (high - low)):
        return
    done = int(np.count_nonzero((ends > low) & (ends <= high)))
    text = (
        f"the GPU finishes {behind / 1e6:.3g} ms after the last step ended on the host, more than a step "
        f"({step / 1e6:.3g} ms): the host runs ahead, the GPU limits, and the work of {done} of {a.steps} steps ended "
        "in the time that is judged."
    )
    if done >= GPU_STEPS:
        yield Doubt(text)
    else:
        hint = "Record more steps, or call torch.cuda.synchronize() before prof.step() while you record."
        yield Doubt(f"{text} {hint}", confidence=0.3)


def no_host(a: Analysis) -> Iterator[Doubt]:
    """Without CPU activity nothing is known of what the host did."""
    if not a.host.operators_recorded:
        yield Doubt(
            "no CPU activity was recorded: what the host did is unknown. Add ProfilerActivity.CPU.", confidence=0.8
        )


def no_training(a: Analysis) -> Iterator[Doubt]:
    """A server's GPU also idles for want of requests, which a trace does not show."""
    trains = len(a.t.host_like(names.OPTIMIZER)) or a.host.in_backward.any() or a.steps
    if a.host.operators_recorded and not trains:
        yield Doubt(
            "no steps and no backward pass were recorded. If this serves requests, the GPU also idles for want of "
            "them: that is no fault of the program.",
            confidence=0.8,
        )


def profiler_work(a: Analysis) -> Iterator[Doubt]:
    """The profiler's own work, while which the GPU idles."""
    own = a.t.of_kind(Kind.OVERHEAD)
    share = a.idle_inside("unknown", own) if len(own) else 0.0
    if share >= LOW:
        yield Doubt(
            f"the profiler itself holds up the GPU for {share:.0%} of the time ({a.t.host_name(int(own[0]))}): "
            "without it the job idles less.",
            confidence=1 - share,
        )


def profiler_cost(a: Analysis) -> Iterator[Doubt]:
    """With Python stacks the profiler itself takes host time, which shows as an idle GPU."""
    if len(a.t.of_kind(Kind.PYTHON)) and a.idle_share("python") + a.idle_share("dispatch") > 0.2:
        yield Doubt(
            "recorded with_stack=True, which slows Python down: host causes are overstated. "
            "Confirm with a recording without stacks.",
            confidence=0.9,
        )


CHECKS = (
    graph_capture,
    lost_kernels,
    no_durations,
    few_operations,
    corrupt_durations,
    overlaps,
    step_numbers,
    one_long_gap,
    one_long_step,
    clocks,
    running_ahead,
    no_host,
    no_training,
    profiler_work,
    profiler_cost,
)
