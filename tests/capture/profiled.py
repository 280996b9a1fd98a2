"""A job that uses profilers of its own before, beside, inside and after our window. Started by test_profiler.py.

Prints a line of JSON for each case: what became of our window, and how many events the job's own profiler got, with
our window and without.
"""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from _whyidle import facts, profiler
from torch import nn

model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
batch = torch.randn(4, 16)
EVERYTHING = {torch.profiler.ProfilerActivity.CPU}


def train(steps: int) -> None:
    for _ in range(steps):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def none() -> int:
    train(40)
    return 0


def whole() -> int:
    with torch.profiler.profile(activities=EVERYTHING) as own:
        train(40)
    return len(own.events())


def before() -> int:
    with torch.profiler.profile(activities=EVERYTHING) as own:
        train(15)
    train(25)
    return len(own.events())


def inside() -> int:
    train(13)
    with torch.profiler.profile(activities=EVERYTHING) as own:
        train(3)
    train(24)
    return len(own.events())


def scheduled() -> int:
    """It waits while we begin, and prepares while we record."""
    got = [0]

    def ready(own: Any) -> None:
        got[0] += len(own.events())

    schedule = torch.profiler.schedule(wait=12, warmup=1, active=2, repeat=2)
    with torch.profiler.profile(activities=EVERYTHING, schedule=schedule, on_trace_ready=ready) as own:
        for _ in range(40):
            train(1)
            own.step()
    return got[0]


def older() -> int:
    train(13)
    with torch.autograd.profiler.profile() as own:
        train(3)
    train(24)
    return len(own.function_events)


def after() -> int:
    train(30)
    with torch.profiler.profile(activities=EVERYTHING) as own:
        train(3)
    return len(own.events())


assert profiler._window is not None
train(3)
cases: tuple[Callable[[], int], ...] = (none, whole, before, inside, scheduled, older, after)
for case in cases:
    warnings.simplefilter("ignore")
    profiler._window._over = True
    alone = case()
    profiler._window.reset()
    facts.set_section("profile", None)
    beside = case()
    if profiler._window._export is not None:
        profiler._window._export.join()
    print(
        json.dumps({"case": case.__name__, "alone": alone, "beside": beside, **(facts.document()["profile"] or {})}),
        flush=True,
    )
    print(case.__name__, file=sys.stderr, flush=True)
