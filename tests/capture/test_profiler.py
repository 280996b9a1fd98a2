"""The profiler's window: it records what it should, gives way to the job's own profilers, and says nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.capture.injecting import environment, python
from tests.capture.reading import errors, rings

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
SHORT = """
import sys, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range({steps}):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("trained")
sys.exit(3)
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, Any]], str, Path]:
    folder = tmp_path_factory.mktemp("profiled")
    env = environment(folder, trace_after=10, trace_steps=6, syncs=0)
    job = python(HERE / "profiled.py", env=env, cwd=folder)
    assert job.returncode == 0, job.stderr
    assert errors(folder) == ""
    said = [json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")]
    return {line["case"]: line for line in said}, job.stderr, folder


Profiled = tuple[dict[str, dict[str, Any]], str, Path]


@pytest.mark.parametrize("case", ["whole", "before", "inside", "scheduled", "older", "after"])
def test_the_jobs_own_profiler_gets_all_of_its_events(profiled: Profiled, case: str) -> None:
    line = profiled[0][case]
    assert line["alone"] > 0
    assert line["beside"] == line["alone"]


@pytest.mark.parametrize(
    ("case", "state", "steps"),
    [
        ("none", "done", 6),
        ("whole", None, None),  # waits for an end that does not come
        ("before", "done", 6),
        ("inside", "done", 2),
        ("scheduled", "done", None),
        ("older", "done", 2),
        ("after", "done", 6),
    ],
)
def test_what_becomes_of_the_window(profiled: Profiled, case: str, state: str | None, steps: int | None) -> None:
    line = profiled[0][case]
    assert line.get("state") == state
    if steps is not None:
        assert line["steps"] == steps
    if case in ("inside", "older"):
        assert line["why"] == "the job's own profiler started"


def test_stderr_has_what_the_jobs_own_profilers_make_kineto_say_and_no_more(profiled: Profiled) -> None:
    """Two runs of each case; torch 2.13 writes a line when a profiler starts and one when it stops."""
    cases = profiled[1].split("none\n")
    assert cases[0] == ""
    says = cases[1].count("profiler_start")
    if says:  # older versions say nothing
        sessions = 2 * (1 + 1 + 1 + 2 + 1 + 1)
        assert says == cases[1].count("profiler_stop") == sessions


def test_trace_is_an_ordinary_one_with_each_step_marked(profiled: Profiled) -> None:
    traces = list(profiled[2].glob("trace-rank0-*.json.gz"))
    assert len(traces) == 1  # each case replaced it
    assert not list(profiled[2].glob("*.tmp"))
    events = json.loads(gzip.decompress(traces[0].read_bytes()))["traceEvents"]
    steps = sorted({event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")})
    assert len(steps) == 6
    names = {event.get("name") for event in events}
    assert {"aten::addmm", "Optimizer.step#SGD.step"} <= names


def test_what_held_the_job_up_is_recorded(profiled: Profiled) -> None:
    (ring,) = rings(profiled[2])
    calls = [record for record in ring.records if record.kind == "PROFILE"]
    assert {record.flags for record in calls} == {1, 2}
    first = next(record for record in calls if record.flags == 2)
    assert first.value == 6  # steps
    assert first.duration > 0


@pytest.mark.parametrize(("steps", "state", "recorded"), [(14, "done", 3), (11, "skipped", 0), (5, None, None)])
def test_job_that_ends_early(steps: int, state: str | None, recorded: int | None, tmp_path: Path) -> None:
    """Inside the window what was recorded is kept; before it there is nothing to keep. Never another exit code."""
    script = tmp_path / "train.py"
    script.write_text(SHORT.format(steps=steps), encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    job = python(script, env=environment(folder, trace_after=10), cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (3, "trained\n", "")
    assert errors(folder) == ""
    (facts,) = folder.glob("*.facts.json")
    profile = json.loads(facts.read_text("utf-8"))["profile"]
    assert (profile or {}).get("state") == state
    assert (profile or {}).get("steps") == recorded
    assert len(list(folder.glob("trace-*"))) == (1 if recorded else 0)


@pytest.mark.parametrize(("options", "rank", "expected"), [({}, "1", 0), ({"trace_ranks": "all"}, "1", 1)])
def test_only_the_first_rank_is_traced_unless_all_are_asked_for(
    options: dict[str, Any], rank: str, expected: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SHORT.format(steps=30), encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    python(script, env={**environment(folder, trace_after=10, **options), "RANK": rank}, cwd=tmp_path)
    assert errors(folder) == ""
    assert len(list(folder.glob("trace-rank1-*.json.gz"))) == expected


LATE = """
import time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batch = torch.ones(2, 4)

def train(steps):
    for _ in range(steps):
        model(batch).sum().backward()
        optimizer.step()

train({steps})
assert torch.autograd._profiler_enabled() == ({steps} > 10)
from _whyidle import profiler
profiler._window._until = 0.0  # as if it had taken long
model(batch)
assert not torch.autograd._profiler_enabled()
train(40)
print("trained")
"""


@pytest.mark.parametrize(
    ("steps", "why", "recorded"), [(13, "a step took far longer than those before", 2), (11, None, 6)]
)
def test_window_ends_where_no_step_comes(steps: int, why: str | None, recorded: int, tmp_path: Path) -> None:
    """An evaluation, or the end of all training, would fill the memory with events. With nothing recorded it waits."""
    script = tmp_path / "train.py"
    script.write_text(LATE.format(steps=steps), encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    job = python(script, env=environment(folder, trace_after=10, syncs=0), cwd=tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (0, "trained\n", "")
    assert errors(folder) == ""
    (facts,) = folder.glob("*.facts.json")
    profile = json.loads(facts.read_text("utf-8"))["profile"]
    assert (profile["state"], profile["why"], profile["steps"]) == ("done", why, recorded)


BROKEN = """
import torch
from _whyidle import profiler
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def fail(*_):
    raise RuntimeError("CUPTI_ERROR_UNKNOWN")

working = torch.profiler._KinetoProfile.{method}
torch.profiler._KinetoProfile.{method} = fail
for _ in range(40):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
assert not torch.autograd._profiler_enabled()
torch.profiler._KinetoProfile.{method} = working
with torch.profiler.profile() as own:
    model(torch.ones(2, 4))
assert len(own.events())
print("trained")
"""


@pytest.mark.parametrize("method", ["prepare_trace", "start_trace", "stop_trace"])
def test_profiler_that_fails_is_left_alone_and_not_left_on(method: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BROKEN.format(method=method), encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    job = python(script, env=environment(folder, trace_after=10, syncs=0), cwd=tmp_path)
    assert (job.returncode, job.stdout) == (0, "trained\n"), job.stderr
    assert errors(folder).count("CUPTI_ERROR_UNKNOWN") == 2  # its line, and its source
    (facts,) = folder.glob("*.facts.json")
    assert json.loads(facts.read_text("utf-8"))["profile"]["state"] == "failed"
