"""Files and folders as one run: which trace of a rank is judged, what is left out, and what a person is told."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from kineto_events import kernel, op

from tests.traces import Recording
from whyidle.errors import WhyIdleError
from whyidle.read import Reader, files, load
from whyidle.read.files import rank_in_name
from whyidle.read.kineto import Kineto


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes a file into a folder, `age` seconds ago."""

    def write(name, content=None, *, rank=None, age=1000):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            content = json.dumps({"distributedInfo": {} if rank is None else {"rank": rank}, "traceEvents": [op()]})
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (1_700_000_000 - age,) * 2)
        return path

    write.path = tmp_path
    return write


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.json", 3),
        ("trace_rank3.json.gz", 3),
        ("graph_capture_rank_0.1773709742341309550.pt.trace.json.gz", 0),
        ("worker3_step_12.1694128201557.pt.trace.json.gz", 3),
        ("bs_32_rank0.json.gz", 0),
        ("RANK12.json", 12),
        ("trace_8_rank_1.json", 1),
        ("host_1234.1694128201557.pt.trace.json", None),
        ("frank3.json", None),
        ("rank_non_gpu.json", None),
        ("tp_rank0_pp_rank1.json", None),
    ],
)
def test_rank_in_a_name(name, rank):
    assert rank_in_name(Path(name)) == rank


def test_a_folder_is_one_run(folder):
    folder("rank1.json", rank=1)
    folder("deep/er/rank0.json.gz", gzip.compress(b'{"traceEvents": [%s]}' % json.dumps(op()).encode()))
    folder("notes.md", "# what I tried")
    folder("config.json", '{"lr": 1}')
    folder("report.nsys-rep", b"\x00\x01")
    folder("smi.txt", "Failed to initialize NVML: Driver/library version mismatch\n")
    folder(".git/rank7.json", rank=7)
    run = load([folder.path])
    assert [trace.rank for trace in run.traces] == [0, 1]
    assert {Path(item.path).name: item.why for item in run.ignored} == {
        "config.json": "JSON, but not a trace (no traceEvents).",
        "notes.md": "text of no format that whyidle knows.",
        "report.nsys-rep": "an Nsight Systems report, which whyidle does not read yet.",
        "smi.txt": "an error message of nvidia-smi, no recording.",
    }
    assert run.warnings == ()


def test_the_newest_trace_of_a_rank_is_judged(folder):
    old = folder("a.rank0.json", rank=0, age=2000)
    new = folder("b.rank0.json", rank=0, age=1000)
    run = load([folder.path])
    assert [trace.path for trace in run.traces] == [str(new)]
    assert [item.path for item in run.ignored] == [str(old)]
    (warning,) = run.warnings
    assert f"{new} is judged" in warning
    assert str(old) in warning


def test_of_traces_of_one_second_the_name_tells_the_newest(folder):
    folder("worker0.1623143089861.pt.trace.json")
    folder("worker0.9999999999.pt.trace.json")  # seconds
    folder("worker0.1623143089862.pt.trace.json")
    (trace,) = load([folder.path]).traces
    assert trace.path.endswith("worker0.9999999999.pt.trace.json")


def test_older_traces_of_a_known_rank_are_not_read(folder, monkeypatch):
    folder("new.json", rank=0)
    folder("old.json", '{"distributedInfo": {"rank": 0}, "traceEvents": [' + "broken" * 100, age=5000)
    read = []
    run = load([folder.path], lambda path, done, total: read.append(path.name))
    assert set(read) == {"new.json"}
    assert len(run.ignored) == 1


def test_traces_without_a_rank_are_one(folder):
    for number in range(5):
        folder(f"{number}.json", age=number)
    run = load([folder.path])
    assert [Path(trace.path).name for trace in run.traces] == ["0.json"]
    assert "5 traces that do not say their rank" in run.warnings[0]
    assert "and 1 more" in run.warnings[0]


def test_a_name_that_contradicts_the_content_is_told(folder):
    path = folder("rank5.json", rank=2)
    run = load([path])
    assert run.traces[0].rank == 2
    assert run.warnings == (f"{path}: named for rank 5, but recorded by rank 2.",)


def test_a_file_named_twice_is_read_once(folder):
    path = folder("rank0.json", rank=0)
    run = load([path, folder.path, str(path)])
    assert (len(run.traces), run.ignored, run.warnings) == (1, (), ())


def test_of_several_paths_the_bad_ones_are_told_and_the_rest_is_judged(folder):
    good = folder("rank0.json", rank=0)
    empty = folder("rank1.json", "")
    missing = folder.path / "missing.json"
    run = load([good, empty, missing])
    assert len(run.traces) == 1
    assert {item.path for item in run.ignored} == {str(empty), str(missing)}
    assert sorted(run.warnings) == sorted([f"{empty}: an empty file.", f"{missing}: no such file or folder."])


def test_a_damaged_trace_in_a_folder_is_told(folder):
    folder("rank0.json", rank=0)
    folder("rank1.json", "")
    folder("rank2.json", '{"schemaVersion": 1, "traceEvents": [{"ph"')
    folder("__init__.py", "")
    run = load([folder.path])
    assert len(run.warnings) == 2
    assert len(run.ignored) == 3


def test_progress_counts_bytes_on_disk(folder):
    path = folder("rank0.json.gz", gzip.compress(json.dumps([kernel(ts=i + 1) for i in range(9999)]).encode()))
    told = []
    load([path], lambda *args: told.append(args))
    assert told[-1] == (path, path.stat().st_size, path.stat().st_size)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs permissions that hold for this user")
def test_a_file_that_may_not_be_read(folder):
    path = folder("rank0.json", rank=0)
    path.chmod(0)
    with pytest.raises(WhyIdleError, match="Permission denied"):
        load([path])


def test_errors_of_the_system_are_told(folder, monkeypatch):
    path = folder("rank0.json", rank=0)

    def fail(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("whyidle.read.files.head_of", fail)
    with pytest.raises(WhyIdleError, match="cannot be read: Permission denied") as told:
        load([path])
    assert told.value.hint == f"ls -l {path}"


JSON = b'{"traceEvents": []}'
BAD = [
    ("a.json", b"", "an empty file"),
    ("a.json", b" \n", "only blanks"),
    ("a.json.gz", gzip.compress(b""), "a gzip with nothing in it"),
    ("a.json.gz", gzip.compress(b"x" * 999)[:5], "cut short at its start"),
    ("a.json.gz", b"\x1f\x8b" + b"no gzip" * 9, "gzip"),
    ("a.bin", bytes(range(256)), "binary data of no format"),
    ("a.txt", b"hello", "text of no format"),
    ("a.json", b'{"lr": 1}', "JSON, but not a trace"),
    ("a.json", b"[1, 2]", "text of no format"),
    ("a.json", b'[{"lr": 1}, {"lr": 2}]', "not of trace events"),
    ("a.json", JSON, "a trace with no slice in it"),
    ("a.json", b'{"traceEvents": [', "cut short before its first slice"),
    ("a.json", b'{"schemaVersion": 1, "devicePro', "not a trace"),
    ("a.json", json.dumps([{**op(), "cat": "net"}]).encode(), "not of torch.profiler (categories: net)"),
    ("a.json", json.dumps([kernel(ts=0, dur=0)]).encode(), "1 slices all lack a time"),
    ("a.nsys-rep", b"\0\1", "an Nsight Systems report"),
    ("a.sqlite", b"SQLite format 3\0" + b"\0" * 99 + b"CREATE TABLE StringIds", "an Nsight Systems export"),
    ("a.db", b"SQLite format 3\0" + b"\0" * 99, "a SQLite database"),
    ("a.json", b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "a rocprof trace"),
    ("a.json", b'[{"name": "add", "ph": "X", "ts": 1, "dur": 1, "tid": 1, "pid": "CPU functions"}]', "legacy autograd"),
    ("a.json", b'[\n{"ph": "i", "name": "CYCLE_START", "ts": 7, "s": "g"},', "a Horovod timeline"),
    ("a.json", b'[{"ph": "M", "args": {"start_time_since_epoch_in_micros": 1}}]', "a SageMaker Debugger timeline"),
    ("a.json", b'{"metadata": {"highres-ticks": true}, "traceEvents": []}', "a TensorFlow profile"),
    ("overview_page.pb", b"\xba\x01\x02", "a TensorFlow profile"),
    ("a.log", b"host1:1:1 [0] NCCL INFO Bootstrap : Using eth0\n", "an NCCL log"),
    ("a.txt", b'Thread (idle): "MainThread"\n    wait (threading.py:359)\n', "a py-spy dump"),
    ("a.txt", b"----\n   Name    Self CPU %   Self CPU\n", "a torch.profiler table"),
    ("a.csv", b"timestamp, pid, used_gpu_memory [MiB]\n2025/01/01, 7, 99 MiB\n", "an nvidia-smi list of processes"),
    ("a.csv", b"timestamp_sec,kv_cache_usage_pct,num_requests_running\n1,2,3\n", "vLLM server metrics"),
    ("a.txt", b"Device            r/s     rkB/s\nnvme0n1  1.00  2.00\n", "an iostat listing"),
    ("a.txt", b"Successfully ran diagnostic for group.\n", "a DCGM diagnostic (dcgmi diag)"),
    ("a.parquet", b"PAR1\0\0", "a Parquet table"),
    ("a.pt", b"PK\3\4\0\0", "a PyTorch checkpoint"),
    ("snapshot.pickle", b"\x80\x04\x95", "a pickle"),
    ("a.json.zst", b"\x28\xb5\x2f\xfd\0", "Zstandard"),
    ("a.json", '{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
]


@pytest.mark.parametrize(("name", "content", "why"), BAD, ids=[why for _, _, why in BAD])
def test_files_that_give_no_evidence_are_named(folder, name, content, why):
    path = folder(name, content)
    with pytest.raises(WhyIdleError) as told:
        load([path])
    assert told.value.message.startswith(f"{path}: ")
    assert why in told.value.message
    assert told.value.hint


def test_places_that_hold_no_evidence_are_named(folder):
    with pytest.raises(WhyIdleError, match="an empty folder"):
        load([folder.path])
    with pytest.raises(WhyIdleError, match="no such file or folder"):
        load([folder.path / "missing"])
    with pytest.raises(WhyIdleError, match="No file to judge"):
        load([])
    with pytest.raises(WhyIdleError, match="not a regular file"):
        load([os.devnull])
    for number in range(5):
        folder(f"{number}.log", "hello")
    with pytest.raises(WhyIdleError, match=r"none of 5 files can be judged: 0.log is text .*; and 2 more"):
        load([folder.path])


def test_standard_input_is_refused_by_its_name() -> None:
    with pytest.raises(WhyIdleError, match="standard input is not read") as caught:
        load(["-"])
    assert "whyidle trace.json" in caught.value.hint


def test_a_reader_needs_no_more_than_a_kind_sniff_and_read_and_is_asked_before_greedy_ones(folder, monkeypatch):
    class Toy(Reader):
        kind = "toy"

        @classmethod
        def sniff(cls, head, path):
            return head.startswith(b'{"toy"')

        def read(self, path, progress=None):
            return Recording().kernel(0, 10).trace(path=str(path))

    monkeypatch.setattr(files, "discover", lambda *_: [Kineto, Toy])
    monkeypatch.setattr(files, "all_readers", files.all_readers.__wrapped__)
    folder("a.json", '{"toy": []}')
    folder("b.json", rank=1)
    assert [trace.kind for trace in load([folder.path]).traces] == ["toy", "kineto"]


def test_files_that_go_while_they_are_looked_at_are_listed(folder, monkeypatch):
    folder("rank0.json")
    goes = folder("rank1.json")
    monkeypatch.setattr(Reader, "peek_rank", classmethod(lambda _cls, _head: None))
    read = Kineto.read

    def go(self, path, progress=None):
        goes.unlink(missing_ok=True)
        return read(self, path, progress)

    monkeypatch.setattr(Kineto, "read", go)
    run = load(folder.path)
    assert [trace.path for trace in run.traces] == [str(folder.path / "rank0.json")]
    assert [(one.path, one.why) for one in run.ignored] == [(str(goes), "gone since it was found.")]
    assert run.warnings == ()


def test_files_that_go_before_they_are_opened_are_listed(folder, monkeypatch):
    folder("rank0.json")
    goes = folder("rank1.json")
    look = files.head_of

    def go(path):
        goes.unlink(missing_ok=True)
        return look(path)

    monkeypatch.setattr(files, "head_of", go)
    assert [one.path for one in load(folder.path).ignored] in ([], [str(goes)])
    assert [one.why for one in load([folder.path, goes]).ignored] == ["no such file or folder."]


def test_a_link_to_itself_is_listed(folder):
    folder("rank0.json")
    (folder.path / "loop.json").symlink_to("loop.json")
    (one,) = load(folder.path).ignored
    assert one.path.endswith("loop.json")


def test_a_folder_that_may_not_be_entered_is_no_traceback(folder, monkeypatch):
    folder("rank0.json")
    (folder.path / "private").mkdir()
    look = Path.is_file

    def refuse(path):
        if "private" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    assert len(load(folder.path).traces) == 1


def test_what_cannot_be_read_half_way_is_told(folder, monkeypatch):
    folder("rank0.json")
    other = folder("rank1.json", rank=1)
    read = Kineto.read

    def fail(self, path, progress=None):
        if path == other:
            raise OSError(5, "Input/output error", str(path))
        return read(self, path, progress)

    monkeypatch.setattr(Kineto, "read", fail)
    run = load(folder.path)
    assert [one.why for one in run.ignored] == ["cannot be read: Input/output error."]
    assert run.warnings == (f"{other}: cannot be read: Input/output error.",)


def test_a_long_search_is_told(folder, monkeypatch):
    monkeypatch.setattr(files, "TOLD_EVERY", 2)
    for number in range(5):
        folder(f"rank{number}.json", rank=number)
    told = []
    load(folder.path, lambda path, done, total: told.append((path, done, total)))
    assert [one for one in told if one[2] == 0] == [(folder.path, 2, 0), (folder.path, 4, 0)]
