"""Faults of a host that is late, in jobs with small batches."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import about, extra, fault, host_bound, paced, small, times
from world.job import Every, Job


@fault("host.launch_bound", "the host launches more slowly than the GPU works", about(1.0), neutral=0.05, most=60.0)
def launch_bound(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount scales what operators cost the host; cured, a step is three CUDA graphs."""
    return replace(small(job, 0.12), host_scale=amount, optimizer_scale=amount, graphed=cured)


@fault("host.optimizer_loop", "the optimizer loops over parameters", times(1.0), most=30.0)
def optimizer_loop(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of parameters, and above 1 scales what the optimizer costs the host."""
    share = 0.0 if cured else min(amount, 1.0)
    return replace(host_bound(job), looped_share=share, optimizer_scale=max(amount, 1.0))


@fault("host.python_overhead", "Python between operators holds up the launches", about(20.0), most=5_000.0)
def python_overhead(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time between two operators of the forward pass."""
    return replace(host_bound(job), between_us=0.0 if cured else amount)


@fault("host.gil_contention", "another thread holds the interpreter's lock", times(4_000.0), most=60_000.0)
def gil_contention(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how long, every six milliseconds or so."""
    return replace(host_bound(job), gil=(0.0, 0.0) if cured else (6_000.0, amount))


@fault("host.cpu_quota", "the container's quota stops the process again and again", times(4_000.0), most=60_000.0)
def cpu_quota(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how long, after every seven milliseconds of running."""
    return replace(host_bound(job), throttle=(0.0, 0.0) if cured else (7_000.0, amount))


@fault(
    "host.cpu_oversubscription",
    "more threads than cores: everything on the host is slower",
    about(4.0),
    neutral=1.0,
    most=60.0,
)
def cpu_oversubscription(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how many times slower."""
    if cured:
        return host_bound(job)
    return replace(host_bound(job), host_scale=amount, between_us=2 * (amount - 1), optimizer_scale=amount)


@fault("host.gc_pause", "the garbage collector stops the process", extra)
def gc_pause(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the cost per step of a collection every five."""
    return replace(paced(job), gc=Every() if cured else Every(5, amount * 5))
