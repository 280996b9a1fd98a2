"""Faults of the work that the GPU is given."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import CONVOLUTIONAL, SEVERITIES, UP_TO_20, extra, fault, host_bound, paced, slower, times, work
from world.job import Every, Job


@fault("compile.recompile", "the model is compiled again for new shapes", extra)
def recompile(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the cost per step of a compilation every five."""
    return replace(paced(job), compiling=Every() if cured else Every(5, amount * 5))


@fault(
    "compile.not_used",
    "chains of elementwise operators are not compiled",
    times(3.0),
    most=1.0,
    families=CONVOLUTIONAL,
    severities=UP_TO_20,
)
def not_used(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the chains."""
    return work(job, compiled=True, eager_share=0.0 if cured else amount)


@fault("compute.fp32_no_tensorcore", "products run in fp32 beside the tensor cores", times(0.25), most=1.0)
def fp32_no_tensorcore(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the products."""
    return job if cured else work(job, plain_share=amount)


@fault(
    "compute.misaligned_dims",
    "sizes of products do not suit tensor cores",
    times(1.0),
    most=1.0,
    families=("bert", "gpt", "dlrm"),
)
def misaligned_dims(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the products."""
    return job if cured else work(job, odd_share=amount)


@fault("compute.dtype_cast", "weights and inputs are cast in each step", times(4.0), most=60.0, severities=UP_TO_20)
def dtype_cast(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the products whose operands are, and above 1 how often."""
    return job if cured else work(job, cast_share=min(amount, 1.0), cast_passes=max(amount, 1.0))


@fault(
    "compute.recompute",
    "activations are computed again in the backward pass",
    times(3.0),
    most=1.0,
    severities=UP_TO_20,
)
def recompute(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the forward pass."""
    return job if cured else work(job, recompute_share=amount)


@fault(
    "compute.cudnn_autotune",
    "convolutions try algorithms on shapes that change",
    lambda step, severity: extra(step, severity) / 100,
    families=CONVOLUTIONAL,
)
def cudnn_autotune(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time of one algorithm; every other step has shapes that were not seen before."""
    return job if cured else replace(job, search=Every(2, amount, 8))


@fault("compute.underfilled", "kernels have too few blocks to fill the GPU", slower, neutral=1.0, most=30.0)
def underfilled(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how many times fewer multiprocessors the same work has, and how much longer it takes."""
    return job if cured else work(job, underfill=amount)


@fault(
    "compute.channels_last",
    "convolutions convert the layout of their tensors",
    times(1.0),
    most=30.0,
    families=CONVOLUTIONAL,
)
def channels_last(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the share of the convolutions, and above 1 how often."""
    return job if cured else work(job, layout_share=min(amount, 1.0), layout_passes=max(amount, 1.0))


@fault(
    "compute.zero_grad_fill",
    "gradients are filled with zeros one by one",
    times(20.0),
    most=400.0,
    severities=SEVERITIES[1:4],
)
def zero_grad_fill(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time that each fill costs the host."""
    return replace(host_bound(job), fill_us=0.0 if cured else amount)
