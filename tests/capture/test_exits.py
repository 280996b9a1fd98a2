"""However a job dies, what it recorded until then is there, and it dies as it would have done without us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

JOB = Path(__file__).with_name("job.py")
STEPS = 20
OURS = ("COUNT", "WATCH", "PROFILE")
EXITS = {
    "": 0,
    "kill": -9,
    "_exit": 3,
    "segv": -11,
    "abort": -6,
    "exception": 1,
    "sys.exit": 4,
    "sigterm": -15,
    "sigint": -2,
    "memory": 1,
    "execv": 0,
}

SPEAK = {"", "exception", "sigint", "memory"}  # ends that Python has something to say about


@pytest.mark.parametrize("end", EXITS)
def test_a_job_ends_as_it_would_without_us_and_every_record_is_there(end: str, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    arguments = (JOB, str(STEPS), *([end] if end else []))
    job = injecting.python(*arguments, env=injecting.environment(recorded, trace=False), cwd=tmp_path)
    assert job.returncode == EXITS[end]
    if end in SPEAK:
        bare = injecting.python(*arguments, env=injecting.bare_environment(), cwd=tmp_path)
        assert (job.returncode, job.stdout, job.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert reading.errors(recorded) == ""
    first, *others = reading.rings(recorded)
    assert len(first.records) == first.written
    assert first.counts(*OURS) == {
        "ITERATE": 1, "BATCH": STEPS, "FORWARD": STEPS, "BACKWARD": STEPS, "STEP": STEPS, **({} if end else {"END": 1}),
    }  # fmt: skip
    assert len(others) == (end == "execv")
    for second in others:  # the process that replaced it has the same id
        assert second.header["pid"] == first.header["pid"]
        assert second.counts(*OURS)["STEP"] == 3
