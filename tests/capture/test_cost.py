"""What a watched step costs, counted and not timed: instructions of Python in our code, the same on every machine.

bench/overhead.py has the time, and the processor's instructions, which take minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

# 0.03 to 0.05 us each: 2,000 take 1% of a step of 10 ms
MOST_INSTRUCTIONS = 1_800  # of a step with a batch, forward, backward and optimizer; 1,374 in Python 3.11
MOST_CALLS = 60

JOB = """
    import json, sys, torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    counts = {"instructions": 0, "calls": 0}

    def ours(frame, event, _):
        if not frame.f_globals.get("__name__", "").startswith("_whyidle"):
            return None
        counts["calls"] += 1
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return count

    def count(frame, event, _):
        counts["instructions"] += event == "opcode"
        return count

    for number, (batch,) in enumerate(DataLoader(TensorDataset(torch.ones(160, 4)), 2)):
        if number == 60:  # the windows are over, the roots are found
            sys.settrace(ours)
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    sys.settrace(None)
    print(json.dumps(counts))
"""


def test_instructions_of_a_watched_step(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    path = tmp_path / "script.py"
    path.write_text(dedent(JOB), "utf-8")
    job = injecting.python(path, env=injecting.environment(recorded), cwd=tmp_path)
    assert (job.returncode, job.stderr) == (0, "")
    (ring,) = reading.rings(recorded)
    assert ring.counts()["STEP"] == 80
    counts = json.loads(job.stdout)
    assert 20 < counts["calls"] / 20 < MOST_CALLS
    assert 100 < counts["instructions"] / 20 < MOST_INSTRUCTIONS
