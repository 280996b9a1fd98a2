"""A run directory as one run: records joined, settings and counters read, damage told."""

from __future__ import annotations

import json
import shutil
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_events import kernel, op

from tests.recorded import BATCH, BEGAN, GPU_OF_MACHINE, MS, STEP, WALL, Machine, Process, run_directory
from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Fact, LoaderSettings, Record, SyncSite, Value
from whyidle.read import load
from whyidle.watched import end


@pytest.fixture
def process():
    return Process().train(5)


def node_of(run):
    return next(run.glob("node-*"))


def files_of(folder, suffix):
    return next(folder.glob(f"*{suffix}"))


def test_a_finished_run(tmp_path, process):
    process.loaders.append({"loader": 0, "where": "train.py:12", "class": "DataLoader", "num_workers": 2, "length": 5})
    process.setting("device", "cpu").setting("torch_num_threads", 4)
    process.facts["syncs"] = {
        "steps": 3,
        "sites": [{"file": "train.py", "line": 30, "function": "main", "operation": "item", "count": 6}],
    }
    process.facts["dynamo"] = {"graphs": 1, "breaks": {"print": 2}, "recompilations": {"size": 1}}
    process.workers[0, 1] = {
        "fetches": 5, "fetch_s": {"sum": 1.0, "sum_of_squares": 0.3, "max": 0.4}, "cpu_s": 0.5, "run_delay_s": 0.1,
        "cpus_allowed": 4, "threads": 1,
        "stacks": [{"frames": ["data.py:7:decode", "a:b.py:9:<lambda>"], "count": 3, "state": "cpu"}],
    }  # fmt: skip
    run = load(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE]))
    (log,) = run.logs
    assert run.warnings == log.warnings == ()
    assert len(log) == len(process.records)
    assert log.lost == 0
    assert (log.process.pid, log.process.rank, log.process.world_size) == (4000, 0, 1)
    assert log.kind[:2].tolist() == [Record.BATCH, Record.FORWARD]
    assert log.start[0] == BEGAN
    assert log.duration[0] == 10 * MS
    assert log.facts == (
        Fact("device", "cpu", "train.py:1"),
        Fact("torch_num_threads", 4, "train.py:1"),
    )
    assert log.loaders == (LoaderSettings(0, "train.py:12", "DataLoader", num_workers=2, length=5),)
    assert log.sync_sites == (SyncSite("train.py", 30, "main", "item", 6),)
    assert (log.sync_steps, log.graph_breaks, log.recompilations) == (3, {"print": 2}, {"size": 1})
    (worker,) = log.workers
    assert (worker.worker, worker.fetches, worker.fetch_s, worker.cpu_s) == (1, 5, 1.0, 0.5)
    assert worker.stacks[0].frames == (("data.py", 7, "decode"), ("a:b.py", 9, "<lambda>"))
    (node,) = run.nodes
    assert (node.host, node.exit_code, node.nvml) == ("box", 0, "ok")
    assert Fact("cpus_allowed", 8) in node.facts
    assert Fact("pcie_width", 16, "NVML", "gpu 0") in node.facts
    assert run.ignored == ()


@pytest.mark.parametrize("name", ["", "node-box", "node-box/node.json"])
def test_a_node_folder_is_a_run_directory_too(tmp_path, process, name):
    run_directory(tmp_path, process)
    assert len(load(tmp_path / name).logs) == 1


def test_traces_inside_are_read_and_our_report_is_not(tmp_path, process):
    run_directory(tmp_path, process)
    (tmp_path / "report.json").write_text('{"schema_version": 1}')
    (tmp_path / "notes.txt").write_text("tried again")
    trace = {"distributedInfo": {"rank": 0}, "traceEvents": [op(), kernel()]}
    (node_of(tmp_path) / "trace-rank0-4000-1.json").write_text(json.dumps(trace))
    run = load(tmp_path)
    assert [trace.rank for trace in run.traces] == [0]
    assert len(run.logs) == 1
    assert [ignored.path for ignored in run.ignored] == [str(tmp_path / "notes.txt")]


def test_a_report_elsewhere_is_listed(tmp_path):
    (tmp_path / "report.json").write_text('{"schema_version": 1}')
    with pytest.raises(WhyIdleError, match=r"report\.json"):
        load(tmp_path)


def test_a_ring_gives_what_was_not_drained(tmp_path, process):
    folder = node_of(run_directory(tmp_path, process))
    (folder / f"{process.identity}.events").write_bytes(process.events(0, 12))
    (folder / f"{process.identity}.ring").write_bytes(process.ring(capacity=16))
    (log,) = load(tmp_path).logs
    assert log.sequence.tolist() == list(range(20))
    assert log.lost == 0


def test_a_ring_alone_that_was_overwritten(tmp_path, process):
    folder = node_of(run_directory(tmp_path, process))
    files_of(folder, ".events").unlink()
    (folder / f"{process.identity}.ring").write_bytes(process.ring(capacity=16))
    (log,) = load(tmp_path).logs
    assert log.sequence.tolist() == list(range(4, 20))
    assert log.lost == 4


def test_a_torn_record_of_a_ring_does_not_count(tmp_path, process):
    folder = node_of(run_directory(tmp_path, process))
    files_of(folder, ".events").unlink()
    ring = bytearray(process.ring(capacity=64))
    struct.pack_into("<I", ring, 4096 + 7 * 32 + 4, 12345)
    (folder / f"{process.identity}.ring").write_bytes(ring)
    (log,) = load(tmp_path).logs
    assert 7 not in log.sequence.tolist()
    assert log.lost == 1


def test_tails_go_on_after_a_hole(tmp_path, process):
    process.train(20)
    folder = node_of(run_directory(tmp_path, process))
    (folder / f"{process.identity}.events").write_bytes(process.events(0, 20))
    (folder / f"{process.identity}.events.tail.1").write_bytes(process.events(30, 60))
    (folder / f"{process.identity}.events.tail.0").write_bytes(process.events(60, 100))
    (log,) = load(tmp_path).logs
    assert log.sequence.tolist() == [*range(20), *range(30, 100)]
    assert log.lost == 10


def test_sequences_that_wrap_around_go_on(tmp_path):
    from whyidle.read.records import _unwrapped

    near = (1 << 32) - 2
    assert _unwrapped(np.array([near, near + 1, 0, 1]), -1).tolist() == [near, near + 1, near + 2, near + 3]
    assert _unwrapped(np.array([3, 4]), (1 << 32) + 1).tolist() == [(1 << 32) + 3, (1 << 32) + 4]
    assert _unwrapped(np.array([5, 99, 6, 7]), 4).tolist() == [5, 99, 6, 7]
    assert _unwrapped(np.array([], np.int64), 4).tolist() == []


def lives(run):
    return [(log.process.rank, log.process.pid) for log in run.logs]


LATER = BEGAN + 60_000 * MS


def test_an_elastic_restart(tmp_path):
    first = Process(rank=0, pid=10, restart=0).train(28)
    again = Process(rank=0, pid=20, restart=1, began=LATER).train(16)
    run = load(run_directory(tmp_path, again, first))
    assert lives(run) == [(0, 20)]
    assert run.logs[0].later
    assert ["rank 0 started again once" in warning for warning in run.warnings] == [True]


def test_a_copy_of_a_folder_is_no_restart(tmp_path):
    run = run_directory(tmp_path, Process().train(20))
    shutil.copytree(node_of(run), run / "node-copy")
    loaded = load(run)
    assert len(loaded.logs) == 1
    assert loaded.warnings == ()


def test_a_life_that_hardly_trained_is_not_judged(tmp_path):
    first = Process(rank=0, pid=10, restart=0).train(50)
    again = Process(rank=0, pid=20, restart=1, began=LATER).train(2)
    run = load(run_directory(tmp_path, again, first))
    assert lives(run) == [(0, 10)]
    assert not run.logs[0].later
    assert "the last of them that trained for a while is judged" in run.warnings[-1]


def test_lives_of_two_attempts_are_not_mixed(tmp_path):
    before = [Process(rank, 10 + rank, 2, restart=0).train(50) for rank in range(2)]
    after = [Process(0, 20, 2, restart=1, began=LATER).train(10), Process(1, 21, 2, restart=1, began=LATER).train(9)]
    assert lives(load(run_directory(tmp_path, *before, *after))) == [(0, 20), (1, 21)]


def test_a_rank_that_was_not_started_again_is_left_out(tmp_path):
    before = [Process(rank, 10 + rank, 2, restart=0).train(50) for rank in range(2)]
    run = load(run_directory(tmp_path, *before, Process(0, 20, 1, restart=1, began=LATER).train(20)))
    assert lives(run) == [(0, 20)]
    assert "rank 1 trained only before the others started again: left out." in run.warnings


def test_two_jobs_at_once_are_no_restart(tmp_path):
    run = load(
        run_directory(tmp_path, Process(rank=0, pid=10).train(8), Process(rank=0, pid=20, began=BEGAN + 5).train(6))
    )
    assert len(run.logs) == 1
    assert "at the same time and say that they are rank 0" in run.warnings[0]


def test_a_last_life_without_training_is_not_judged(tmp_path):
    first = Process(rank=0, pid=10).train(8)
    again = Process(rank=0, pid=20, began=BEGAN + 60_000 * MS)
    again.batch(3)
    run = load(run_directory(tmp_path, again, first))
    assert [log.process.pid for log in run.logs] == [10]


def test_processes_without_rank_are_different_jobs(tmp_path):
    run = load(run_directory(tmp_path, Process(None, 10).train(8), Process(None, 20).train(9)))
    assert [log.process.pid for log in run.logs] == [20]
    assert "not judged: 10" in run.warnings[0]


def test_several_machines_are_one_run(tmp_path):
    for number, host in enumerate(("one", "two")):
        Machine(host, [Process(number, 4000, 2).train(4)]).write(tmp_path)
    run = load(tmp_path)
    assert [log.process.rank for log in run.logs] == [0, 1]
    assert len({log.process.node for log in run.logs}) == len(run.nodes) == 2


def clock(seconds):
    return {"mono_ns": BEGAN, "wall_ns": WALL + BEGAN + seconds * 10**9}


def side_by_side(path, seconds=0, host="box", rank=0, command="python train.py", ended=100, name="a"):
    told = {
        "clock": clock(seconds), "command": command.split(),
        "ended": {"mono_ns": BEGAN + ended * 10**9, "exit_code": 0, "signal": None},
    }  # fmt: skip
    return Machine(host, [Process(rank, 4000, 2).train(4)], told=told).write(path / name)


def test_runs_that_lie_side_by_side_are_not_one(tmp_path):
    for number in range(3):
        side_by_side(tmp_path, number * 1000, name=f"run-{number}", command=f"python train.py --lr {number}")
    with pytest.raises(WhyIdleError) as refused:
        load(tmp_path)
    first, *lines = refused.value.message.splitlines()
    assert first == "3 runs lie there, and whyidle judges one at a time:"
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == ["run-2", "run-1", "run-0"]
    assert "python train.py --lr 2, started 2023-11-15 00:10:00 UTC" in lines[0]
    assert refused.value.hint == f"whyidle {tmp_path / 'run-2'}   # the newest"
    assert len(load([tmp_path / "run-2"]).logs) == 1
    with pytest.raises(WhyIdleError):
        load([tmp_path / "run-1", tmp_path / "run-2"])


def test_the_folder_of_a_sweep_is_known_as_one(tmp_path):
    for number in range(3):
        side_by_side(tmp_path, number * 1000, name=f"cell-0{number}-x={number}", command=f"job {number}")
    (tmp_path / "sweep.json").write_text("{}", "utf-8")
    with pytest.raises(WhyIdleError) as refused:
        load(tmp_path)
    first, *lines = refused.value.message.splitlines()
    assert first == f"{tmp_path} is the folder of a sweep, with a run in each cell:"
    assert [line.rpartition("/")[2] for line in lines] == ["cell-00-x=0", "cell-01-x=1", "cell-02-x=2"]
    assert refused.value.hint.startswith(f"whyidle sweep --resume {tmp_path} ")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('{"status": "ok", "why": "known to 2%"}', ["The sweep ended the job: known to 2%."]),
        ('{"status": "ok", "why": "it ended by itself"}', ["The job was ended by signal 15 (SIGTERM)."]),
        ('{"status": "failed", "why": "ended by signal 15"}', ["The job was ended by signal 15 (SIGTERM)."]),
        ("nonsense", ["The job was ended by signal 15 (SIGTERM)."]),
    ],
)
def test_a_job_that_its_sweep_ended(cell, said, tmp_path):
    told = {"clock": clock(0), "ended": {"mono_ns": BEGAN + 10**9, "exit_code": None, "signal": 15}}
    Machine("box", [Process(0, 4000, 2).train(4)], told=told).write(tmp_path / "cell-01")
    folder = next(path.parent for path in tmp_path.rglob("node.json")).parent
    (folder / "cell.json").write_text(cell, "utf-8")
    assert list(end(load(folder))) == said


@pytest.mark.parametrize(
    ("other", "together"),
    [
        ({"host": "two", "rank": 1, "seconds": 5}, True),
        ({"host": "two", "rank": 1, "command": "torchrun --node-rank 1 train.py"}, True),
        ({"host": "two", "rank": 1, "command": "torchrun --node_rank=1 train.py"}, True),
        ({"host": "two", "rank": 1, "seconds": 500}, False),  # one after the other
        ({"host": "two", "rank": 1, "command": "python eval.py"}, False),
        ({"host": "two", "rank": 0}, False),  # the same rank twice
        ({"host": "box", "rank": 1, "seconds": 5}, False),  # one machine
        ({"seconds": 0}, True),  # a copy of the same
    ],
)
def test_what_makes_folders_of_several_machines_one_job(tmp_path, other, together):
    command = "torchrun --node-rank 0 train.py" if "torchrun" in other.get("command", "") else "python train.py"
    side_by_side(tmp_path, command=command, name="a")
    side_by_side(tmp_path, name="b", **other)
    if together:
        assert len(load(tmp_path).nodes) == 2
    else:
        with pytest.raises(WhyIdleError, match="2 runs lie there"):
            load(tmp_path)


def test_a_process_that_used_pytorch_and_never_trained(tmp_path):
    run = load(run_directory(tmp_path, Process()))
    assert [len(log) for log in run.logs] == [0]


def test_workers_are_no_processes_of_their_own(tmp_path, process):
    folder = node_of(run_directory(tmp_path, process))
    (folder / "4001-1.facts.json").write_text('{"version": 1, "pid": 4001, "worker_of": 4000}')
    assert len(load(tmp_path).logs) == 1


def test_rings_in_a_local_folder(tmp_path, process):
    local = tmp_path / "local"
    local.mkdir()
    run = run_directory(tmp_path / "run", process, told={"rings": str(local)})
    (node_of(run) / f"{process.identity}.events").write_bytes(process.events(0, 12))
    (local / f"{process.identity}.ring").write_bytes(process.ring())
    (log,) = load(run).logs
    assert len(log) == 20


def test_counters(tmp_path, process):
    gpu = (("time_ns", "gpu", "utilization_percent", "power_w"), [(1, 0, 50, None), (2, 0, 70, None), (1, 1, 10, 90.5)])
    processes = (("time_ns", "pid", "role", "cpu_s"), [(1, 7, "rank", 1.0), (2, 7, "rank", 2.0)])
    run = run_directory(tmp_path, process, csv={"gpu.csv": gpu, "processes.csv": processes})
    with (node_of(run) / "gpu.csv").open("a") as file:
        file.write("3,0,x,1\n4,0\n5,0,1")  # damaged twice, and half written
    read = load(run)
    told = {(one.name, one.device, one.pid, one.role): one.value.tolist() for one in read.series}
    assert told == {
        ("utilization_percent", 0, None, ""): [50, 70],
        ("utilization_percent", 1, None, ""): [10],
        ("power_w", 1, None, ""): [90.5],
        ("cpu_s", None, 7, "rank"): [1, 2],
    }
    assert ["2 of 5 samples are damaged" in warning for warning in read.warnings] == [True]


def test_long_counters_are_read_from_their_end(tmp_path, process, monkeypatch):
    monkeypatch.setattr("whyidle.read.counters.MOST_BYTES", 60)
    rows = [(time, time / 2) for time in range(100)]
    run = load(run_directory(tmp_path, process, csv={"host.csv": (("time_ns", "cpu_busy_s"), rows)}))
    (series,) = run.series
    assert series.time[-1] == 99
    assert 3 < len(series.time) < 20
    assert "are read" in run.warnings[0]


def test_wrong_types_leave_the_rest(tmp_path, process):
    process.facts = {
        "settings": [{"name": "a", "value": 1}, {"name": 5}, 7, {"name": "b", "value": [1]}],
        "syncs": "no",
        "rank": "zero",
        "new": {"x": 1},
    }
    run = load(run_directory(tmp_path, process, told={"clock": 5, "gpus": "none", "ended": None}))
    (log,) = run.logs
    assert log.facts == (Fact("a", 1),)
    assert log.process.rank == 0
    assert any("syncs" in warning for warning in log.warnings)
    assert any("3 of 4 entries" in warning for warning in log.warnings)
    assert any("clock, gpus" in warning for warning in run.warnings)


def test_a_newer_version_is_said(tmp_path, process):
    process.facts["version"] = 2
    run = load(run_directory(tmp_path, process, told={"whyidle_run": 3}))
    assert "newer whyidle (version 3)" in run.warnings[0]
    assert "newer whyidle (version 2)" in run.logs[0].warnings[0]


def test_larger_files_than_the_format_allows_are_refused(tmp_path, process, monkeypatch):
    monkeypatch.setattr("whyidle.read.typed.MOST_JSON", 100)
    monkeypatch.setattr("whyidle.read.records.MOST_BYTES", 4096 + 10 * 32)
    run = load(run_directory(tmp_path, process))
    assert "larger than" in run.warnings[0]
    (log,) = run.logs
    assert len(log) == 10
    assert sum("larger than" in warning for warning in log.warnings) == 2


def test_errors_inside_the_recording_are_said(tmp_path, process):
    (node_of(run_directory(tmp_path, process)) / "errors.txt").write_text("Traceback")
    assert any("errors.txt" in warning for warning in load(tmp_path).warnings)


def test_facts_have_a_type(tmp_path, process):
    process.setting("flag", True).setting("lr", 0.1)
    values: list[Value] = [fact.value for fact in load(run_directory(tmp_path, process)).logs[0].facts]
    assert values == [True, 0.1]


WORDS = (
    "version pid rank settings name value loaders loader syncs steps sites profile dynamo breaks machine gpus clock "
    "mono_ns ended command rings fetches fetch_s sum stacks frames count not_captured warnings cpus"
)
NAMES = WORDS.split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)
SUFFIXES = [".events", ".facts.json", ".ring", ".worker-0-0.json", "node.json", "gpu.csv", "host.csv", "processes.csv"]
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


@pytest.fixture
def whole(tmp_path):
    """Return a node folder with one of everything."""
    process = Process().train(3)
    process.workers[0, 0] = {"fetches": 1, "fetch_s": {"sum": 1.0}}
    rows = [(BEGAN, 0, 1.5), (BEGAN + 1, 0, 2.5)]
    csv = {
        "gpu.csv": (("time_ns", "gpu", "power_w"), rows),
        "processes.csv": (("time_ns", "pid", "cpu_s"), rows),
        "host.csv": (("time_ns", "load_1m", "cpu_busy_s"), rows),
    }
    folder = node_of(run_directory(tmp_path, process, csv=csv))
    (folder / f"{process.identity}.ring").write_bytes(process.ring(capacity=64))
    return folder


@given(st.sampled_from(SUFFIXES), st.binary(max_size=200), st.integers(0, 6000), st.booleans())
@FUZZ
def test_damage_never_crashes(whole, suffix, noise, place, cut):
    path = files_of(whole, suffix)
    good = path.read_bytes()
    path.write_bytes(good[:place] + noise + (b"" if cut else good[place + len(noise) :]))
    try:
        run = load(whole)
        assert all(len(log.sequence) == len(np.unique(log.sequence)) for log in run.logs)
        assert all((log.duration >= 0).all() for log in run.logs)
    finally:
        path.write_bytes(good)


@given(st.sampled_from([".facts.json", ".worker-0-0.json", "node.json"]), JSON)
@FUZZ
def test_json_of_other_types_never_crashes(whole, suffix, value):
    path = files_of(whole, suffix)
    good = path.read_bytes()
    path.write_text(json.dumps(value))
    try:
        assert len(load(whole).nodes) == 1
    finally:
        path.write_bytes(good)


def test_nesting_without_end_never_crashes(whole):
    for suffix in (".facts.json", "node.json", ".worker-0-0.json"):
        files_of(whole, suffix).write_text('{"settings": ' + "[" * 100_000 + "]" * 100_000 + "}")
    run = load(whole)
    assert sum("damaged" in warning for warning in (*run.warnings, *run.logs[0].warnings)) == 3


def test_the_writer_of_the_tests_writes_what_the_contract_says(tmp_path):
    process = Process()
    process.batch(1, loader=3, samples=8, tokens=77, workers=True)
    process.step(2)
    (log,) = load(run_directory(tmp_path, process)).logs
    assert log.kind.tolist() == [BATCH, STEP]
    assert log.flags[0] == 2
    assert log.value[0] == 3 << 56 | 8 << 32 | 77
    assert log.process.started == BEGAN
    assert load(tmp_path).nodes[0].wall - load(tmp_path).nodes[0].started == WALL


def test_a_folder_that_goes_while_it_is_read_is_listed(tmp_path, process, monkeypatch):
    side_by_side(tmp_path, name="a")
    goes = side_by_side(tmp_path, name="b", seconds=900)
    from whyidle.read import node

    look = node.file_as

    def go(path, kind, warnings):
        if path.parent == goes:
            shutil.rmtree(goes)
        return look(path, kind, warnings)

    monkeypatch.setattr(node, "file_as", go)
    run = load(tmp_path)
    assert [one.path for one in run.ignored] == [str(goes)]
    assert len(run.logs) == 1
