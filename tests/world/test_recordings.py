"""What the world writes down: read by whyidle and its peers, deterministic, and beside it what is true of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

import simulate
import whyidle
import world

ROOT = Path(__file__).parents[2]
RUNS = ROOT / simulate.RUNS
TOP = {
    "healthy": None,
    "scalar_read": "sync.scalar_read",
    "workers_2021": "input.workers_too_few",
    "straggler": "dist.straggler",
    "no_marks": "host.gc_pause",
}


CURVE = simulate.CURVE.name
WATCHED = Path("tests/runs/watched")  # jobs that were really run


def test_files_of_the_project_are_what_the_script_makes(tmp_path: Path) -> None:
    simulate.main(tmp_path)
    for folder in (simulate.DEMO, simulate.RUNS):
        made = {path.relative_to(tmp_path) for path in (tmp_path / folder).rglob("*") if path.is_file()}
        kept = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert made == {path for path in kept if WATCHED not in path.parents}
        for name in made:
            same = content(tmp_path / name) == content(ROOT / name)
            assert same, f"{name} is not what the world makes now: run python scripts/simulate.py and look at the diff"


def content(path: Path) -> object:
    """Return what a file holds; a truth to nine digits, since processors differ in the last ones."""
    if CURVE in path.parts:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.suffix == ".gz":
        return json.loads(gzip.decompress(path.read_bytes()))
    return json.loads(path.read_text(), parse_float=lambda digits: float(f"{float(digits):.9g}"))


@pytest.mark.parametrize("name", TOP)
def test_the_verdict_on_each_run_is_its_truth(name: str) -> None:
    truth = json.loads((RUNS / f"{name}.truth.json").read_text())
    report = whyidle.diagnose([RUNS / name])
    found = [finding.rule for finding in report.findings if finding.severity != "low"]
    assert found[:1] == ([TOP[name]] if TOP[name] else [])
    assert [fault["id"] for fault in truth["faults"]] == ([TOP[name]] if TOP[name] else [])
    assert report.summary.gpu_busy_share == pytest.approx(busy(truth), abs=0.005)
    for cause, share in idle(truth).items():
        assert report.summary.idle_by_cause.get(cause, 0.0) == pytest.approx(share, abs=0.02), cause


def busy(truth: dict[str, list[dict[str, float]]]) -> float:
    devices = truth["devices"]
    return sum(one["busy_share"] * one["window_s"] for one in devices) / sum(one["window_s"] for one in devices)


def idle(truth: dict[str, list[dict[str, dict[str, float]]]]) -> dict[str, float]:
    (first, *_others) = truth["devices"]
    return first["idle_by_cause"]


def test_the_command_writes_traces_into_the_folder_and_the_truth_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "one"
    arguments = ["--family", "cnn", "--fault", "input.workers_zero=0.2", "--ranks", "2", "--seed", "3", "--steps", "4"]
    told = command(*arguments, "--out", str(out))
    assert told.returncode == 0, told.stderr
    assert len(list(out.iterdir())) == 2
    assert all(path.name.endswith(".pt.trace.json.gz") for path in out.iterdir())
    truth = json.loads((tmp_path / "runs" / "one.truth.json").read_text())
    assert truth["faults"][0]["severity"] == pytest.approx(0.2, abs=0.01)
    assert json.loads(told.stdout)["faults"] == truth["faults"]
    again = tmp_path / "again"
    command(*arguments, "--out", str(again))
    assert [path.read_bytes() for path in sorted(again.iterdir())] == [
        path.read_bytes() for path in sorted(out.iterdir())
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fault", "input.gremlins=0.2"], "no fault of this world"),
        (["--fault", "input.workers_zero"], "write it as input.workers_zero=0.2"),
        (["--fault", "input.workers_zero=2"], "a share from 0 to 0.6"),
        (["--fault", "dist.straggler=0.2"], "needs --ranks 2"),
        (["--family", "bert", "--fault", "compute.channels_last=0.1"], "for cnn, resnet, diffusion"),
        (["--ranks", "17"], "1 to 16"),
        (["--ranks", "two"], "invalid"),
        (["--seed", "-1"], "-1 is not from 0"),
        (["--fault", "hw.thermal=0.1", "--fault", "hw.thermal=0.2"], "given twice"),
        (["--fault", "hw.thermal=0.1", "--control", "python_behind_the_queue"], "give --control or --fault"),
        (["--dialect", "2021", "--stacks"], "no Python frames"),
    ],
)
def test_a_mistake_gets_a_clear_message(arguments: list[str], said: str, tmp_path: Path) -> None:
    told = command(*arguments, "--out", str(tmp_path / "x"))
    assert told.returncode == 2
    assert said in told.stderr
    assert "Traceback" not in told.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    told = command("--family", "cnn", "--out", str(tmp_path))
    assert told.returncode == 2
    assert "not empty" in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "world", *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)


@pytest.mark.parametrize("dialect", ["2021", "today"])
@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("marks", [True, False])
def test_every_way_of_recording_gives_the_same_busy_share(
    dialect: str, stacks: bool, marks: bool, tmp_path: Path
) -> None:
    known = world.simulate(
        "dlrm", {"sync.scalar_read": 0.2}, seed=1, steps=5, out=tmp_path / "run",
        dialect=dialect, stacks=stacks, marks=marks, nanoseconds=dialect == "today",
    )  # fmt: skip
    report = whyidle.diagnose([tmp_path / "run"])
    assert report.summary.gpu_busy_share == pytest.approx(known["devices"][0]["busy_share"], abs=0.005)


def test_hta_reads_it(tmp_path: Path) -> None:
    hta = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    world.simulate("cnn", ranks=2, steps=4, out=tmp_path / "run")
    spans = hta.TraceAnalysis(trace_dir=str(tmp_path / "run")).get_temporal_breakdown(visualize=False)
    assert set(spans["rank"]) == {0, 1}


def test_tracelens_reads_it(tmp_path: Path) -> None:
    lens = pytest.importorskip("TraceLens", reason="TraceLens is not installed")
    world.simulate("cnn", steps=4, out=tmp_path / "run")
    (trace,) = (tmp_path / "run").iterdir()
    frame = lens.TreePerfAnalyzer.from_file(str(trace)).get_df_gpu_timeline()
    assert not frame.empty
