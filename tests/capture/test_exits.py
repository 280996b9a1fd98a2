"""However a job dies, what it recorded until then is there, and it dies as it would have done without us."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.capture import injecting, reading

pytest.importorskip("torch", reason="PyTorch is not installed")

JOB = Path(__file__).with_name("job.py")
STEPS = 20
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

Outcome = tuple["CompletedProcess[str]", "CompletedProcess[str]", Path]


def run(end: str, folder: Path) -> Outcome:
    recorded = folder / "recorded"
    recorded.mkdir(parents=True)
    arguments = (JOB, str(STEPS), *([end] if end else []))
    bare = injecting.python(*arguments, env=injecting.bare_environment(), cwd=folder)
    return bare, injecting.python(*arguments, env=injecting.environment(recorded, trace=False), cwd=folder), recorded


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("exits")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(EXITS, pool.map(lambda end: run(end, folder / (end or "end")), EXITS), strict=True))


@pytest.mark.parametrize("end", EXITS)
def test_a_job_ends_as_it_would_without_us(end: str, outcomes: dict[str, Outcome]) -> None:
    bare, watched, _ = outcomes[end]
    assert bare.returncode == EXITS[end]
    assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)


@pytest.mark.parametrize("end", EXITS)
def test_every_record_is_there_afterwards(end: str, outcomes: dict[str, Outcome]) -> None:
    folder = outcomes[end][2]
    assert reading.errors(folder) == ""
    first, *others = reading.rings(folder)
    assert len(first.records) == first.written
    assert first.counts("COUNT", "WATCH", "PROFILE") == {
        "ITERATE": 1, "BATCH": STEPS, "FORWARD": STEPS, "BACKWARD": STEPS, "STEP": STEPS, **({} if end else {"END": 1}),
    }  # fmt: skip
    assert len(others) == (end == "execv")


def test_a_process_that_replaces_itself_makes_a_second_ring(outcomes: dict[str, Outcome]) -> None:
    first, second = reading.rings(outcomes["execv"][2])
    assert first.header["pid"] == second.header["pid"]
    assert first.path != second.path
    assert second.counts("COUNT", "WATCH", "PROFILE")["STEP"] == 3
