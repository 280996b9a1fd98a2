"""How sure a curve alone can make, and which measurement would settle what it leaves open.

A curve says that the GPU idles, and when; never why. So no rule of this family is surer than `MOST`, each names the
rules that it cannot tell apart, and its fix is the next measurement: a step timer, then a trace.
"""

from __future__ import annotations

from whyidle.model.finding import WATCH, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Threshold

MOST = Threshold(0.6, "probability", source="judgement: many causes have one shape, which is all that a curve shows")
ENOUGH = Threshold(
    60, "samples", source="the board of curves: shapes of so many are there as often as those of thousands"
)
FEWEST = Threshold(0.25, "of confidence", source="judgement: what ten samples leave of it")
LOGGED = Threshold(1.0, "of confidence", source="the trainer's own log names an event at that time or interval")
ALONE = Threshold(0.8, "of confidence", source="judgement: nothing but the curve tells of it")
SETTLES = Threshold(0.9, "probability", source="judgement: a trace shows what the host does in an idle moment")
READ = ("curve_samples",)


def sure(m: Measurements, margin: float = 1.0, *, logged: bool = False) -> float:
    """Return how sure a shape makes of what is said: number of samples, how clear it is, whether a log agrees; <= 0.6.

    Args:
        m: what was measured.
        margin: how clearly the shape is there, 0-1.
        logged: whether a trainer's log agrees.
    """
    samples = min(max(m.get("curve_samples", 0.0) / ENOUGH, FEWEST), 1.0)
    return float(MOST * samples * min(max(margin, 0.0), 1.0) * (LOGGED if logged else ALONE))


def by_trace(what: str) -> Fix:
    """Return the step from this curve to the cause: a job watched, then traced."""
    return Fix(
        f"measure {what}: first the steps, then a trace of a few of them",
        f"{WATCH}   # steps, data wait, saves, CPU and GPU counters of the whole job\n"
        "whyidle demo --record            # how to record a trace with torch.profiler\n"
        "whyidle diagnose DIR trace.json.gz gpu.txt",
        effort="argument",
        applies=SETTLES,
        risk="none: it measures, and changes nothing",
    )


def by_stacks(what: str) -> Fix:
    """Return the step from a job that runs and does nothing to the cause."""
    return Fix(
        f"look at {what}, and free the GPU if it is not wanted any more",
        "py-spy dump --pid PID            # the line at which each thread is\n"
        "nvidia-smi                       # the processes that hold the GPU",
        effort="argument",
        applies=SETTLES,
        risk="a job that is ended loses what it has not saved",
    )


def by_clocks(what: str) -> Fix:
    """Return the step from this curve to the cause, where it may be the GPU's clock."""
    return Fix(
        f"see {what} while the job runs",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK   # which reason holds the clock down\n"
        "nvidia-smi pmon -c 5                                   # who else uses the GPU\n"
        f"{WATCH}                         # records both beside the steps",
        effort="argument",
        applies=SETTLES,
        risk="none: it measures, and changes nothing",
    )
