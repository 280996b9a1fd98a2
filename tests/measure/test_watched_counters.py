"""What counters, facts and workers' files tell of a watched job."""

from __future__ import annotations

import pytest

from tests import recorded
from tests.recorded import BEGAN, GPU_OF_MACHINE, MS, Process, run_directory
from whyidle.measure import measure
from whyidle.read import load

SECOND = 1000  # ms


@pytest.fixture
def process():
    process = Process().setting("device", "cpu")
    process.loaders.append(
        {
            "loader": 0, "where": "/code/train.py:12", "num_workers": 2, "persistent_workers": False,
            "prefetch_factor": 2, "file_system": "nfs4", "length": 100, "batch_size": 32, "pin_memory": True,
        }
    )  # fmt: skip
    return process.train(101, data=30, other=14, workers=True)  # 10 s


@pytest.fixture
def values(tmp_path, process):
    def read(**machine):
        m = measure(load(run_directory(tmp_path, process, **machine)))
        read.found = m.measurements
        read.measured = m
        return {one.name: one.value for one in m.measurements if not one.subject}

    return read


def times(step=SECOND, until=10 * SECOND):
    return [BEGAN + ms * MS for ms in range(0, until + 1, step)]


def test_the_training_loader(values):
    told = values()
    assert told["num_workers"] == 2
    assert told["persistent_workers"] is False
    assert (told["prefetch_factor"], told["batches_per_epoch"], told["data_file_system"]) == (2, 100, "nfs4")
    (place,) = values.found.one("lost_data_workers_share").locations
    assert (place.file, place.line) == ("/code/train.py", 12)
    assert values.measured.settings["batch_size"] == 32
    assert values.measured.settings["pin_memory"] is True


def test_workers(values, process):
    for worker in range(2):
        process.workers[0, worker] = {
            "fetches": 50, "fetch_s": {"sum": 5.0, "sum_of_squares": 0.625}, "cpu_s": 2.0, "run_delay_s": 0.5,
            "cpus_allowed": 2 + worker, "threads": 1,
        }  # fmt: skip
    process.workers[1, 0] = {"fetches": 50, "fetch_s": {"sum": 50.0, "sum_of_squares": 600}, "cpu_s": 50.0}
    told = values()
    assert told["batch_seconds"] == pytest.approx(0.1)
    assert told["batch_spread"] == pytest.approx(0.5)
    assert told["batch_cpu_share"] == pytest.approx(0.4)
    assert told["batch_run_delay_share"] == pytest.approx(0.1)
    assert told["batch_blocked_share"] == pytest.approx(0.5)
    assert told["worker_cpus_allowed"] == 2
    assert "look_site" not in told


def test_where_workers_are_found(values, process):
    library = "/venv/lib/python3.11/site-packages/PIL/Image.py:5:load"
    process.workers[0, 0] = {
        "fetches": 1, "fetch_s": {"sum": 1.0},
        "stacks": [
            {"frames": [library, "/code/data.py:7:decode"], "count": 6, "state": "cpu"},
            {"frames": ["/code/data.py:3:open"], "count": 3, "state": "read"},
            {"frames": [], "count": 1, "state": "lock"},
        ],
    }  # fmt: skip
    told = values()
    assert told["look_site"] == "/code/data.py:7 decode"
    assert (told["look_read_share"], told["look_lock_share"]) == (0.3, 0.1)


def test_without_workers_the_process_makes_batches_itself(tmp_path):
    process = Process().setting("device", "cpu")
    for _ in range(20):
        process.train(1, data=10).train(1, data=30)
    told = {m.name: m.value for m in measure(load(run_directory(tmp_path, process))).measurements}
    assert told["batch_seconds"] == pytest.approx(0.02, rel=0.05)
    assert told["batch_spread"] == pytest.approx(0.5, rel=0.05)


def test_a_process_that_makes_its_batches_itself_tells_how(tmp_path):
    process = Process().setting("device", "cpu").setting("torch_threads", 2).train(20)
    process.workers[0, -1] = {
        "fetches": 20, "fetch_s": {"sum": 0.2, "sum_of_squares": 0.002}, "cpu_s": 0.05, "run_delay_s": 0.1,
        "cpus_allowed": 2, "threads": 2,
    }  # fmt: skip
    told = {m.name: m.value for m in measure(load(run_directory(tmp_path, process))).measurements}
    assert told["batch_seconds"] == pytest.approx(0.01)
    assert told["batch_blocked_share"] == pytest.approx(0.25)
    assert told["compute_threads"] == 2
    assert "worker_cpus_allowed" not in told


def test_cpus(values, process):
    machine = {"cpus": 16, "cpus_allowed": [0, 1, 2, 3], "cpu_quota": 2.5, "quota_from": "cgroup v2 cpu.max"}
    rows = [
        (time, 4000, "rank", index * 1.0, index * 0.25, index * 0.5, 10 * index, 2)
        for index, time in enumerate(times())
    ]
    rows += [(time, 4001, "worker", index * 0.5, 0, None, 90 * index, 2) for index, time in enumerate(times())]
    columns = (
        "time_ns", "pid", "role", "cpu_s", "run_delay_s", "main_thread_cpu_s", "read_bytes", "cpus_allowed",
    )  # fmt: skip
    host = [(time, index * 4e5, index * 1e5, index * 2e5, index * 10, index * 1) for index, time in enumerate(times())]
    names = ("time_ns", "cpu_pressure_us", "io_pressure_us", "throttled_us", "periods", "throttled_periods")
    told = values(told={"machine": machine}, csv={"processes.csv": (columns, rows), "host.csv": (names, host)})
    assert (told["cpus_online"], told["cpu_quota"], told["cpus_allowed"]) == (16, 2.5, 2.5)
    assert told["job_cpu_share"] == pytest.approx(1.5 / 2.5)
    assert told["storage_read_bytes_per_s"] == pytest.approx(100)
    assert told["main_run_delay_share"] == pytest.approx(0.25)
    assert told["main_cpu_share"] == pytest.approx(0.5)
    assert told["affinity_narrowed"] is True
    assert told["cpu_pressure_share"] == pytest.approx(0.4)
    assert told["io_pressure_share"] == pytest.approx(0.1)
    assert told["cpu_throttled_share"] == pytest.approx(0.1)  # a tenth of the periods, on two CPUs at once


def test_workers_that_each_epoch_starts_again_count_from_their_start(values):
    rows = [(time, 4000, "rank", 1.0, 0) for time in times()]
    for index, time in enumerate(times()[1:], 1):  # each lives for one sample, and had used a CPU since it began
        rows.append((time, 5000 + index, "worker", 1.0, 10))
    told = values(csv={"processes.csv": (("time_ns", "pid", "role", "cpu_s", "read_bytes"), rows)})
    assert told["job_cpu_share"] == pytest.approx(1 / 8)
    assert told["storage_read_bytes_per_s"] == pytest.approx(10)


def test_a_process_whose_role_becomes_known_counts_once_and_a_number_that_is_used_again_twice(values):
    rows = [(time, 4001, "other" if index < 3 else "worker", index) for index, time in enumerate(times())]
    rows += [(time, 4002, "worker", index % 4) for index, time in enumerate(times())]
    told = values(csv={"processes.csv": (("time_ns", "pid", "role", "cpu_s"), rows)})
    count = len(times()) - 1
    assert told["job_cpu_share"] == pytest.approx((count + count - count // 4) / count / 8, rel=0.1)


def test_without_the_jobs_processes_the_gpus_that_did_something_are_its(values, process):
    process.settings[0]["value"] = "cuda:1"
    rows = [(time, gpu, 50 if gpu == 1 else 0) for time in times() for gpu in range(4)]
    gpus = [GPU_OF_MACHINE | {"index": index} for index in range(4)]
    told = values(gpus=gpus, csv={"gpu.csv": (("time_ns", "gpu", "utilization_percent"), rows)})
    assert told["utilization_mean_share"] == pytest.approx(0.5)
    assert told["gpus_on_host"] == 4


def test_without_a_quota_the_machines_cpus_are_it(values):
    told = values()
    assert (told["cpus_online"], told["cpu_quota"], told["cpus_allowed"]) == (8, 8, 8)
    assert "cpu_throttled_share" not in told
    assert "job_cpu_share" not in told


def test_compute_threads(values, process):
    process.setting("torch_threads", 8)
    for worker in range(2):
        process.workers[0, worker] = {"fetches": 1, "fetch_s": {"sum": 1.0}, "threads": 3}
    assert values()["compute_threads"] == 14


def gpu_samples(**columns):
    names = ("time_ns", "gpu", *columns)
    rows = [
        (time, 0, *(cells[index % len(cells)] for cells in columns.values())) for index, time in enumerate(times(500))
    ]
    return {"gpu.csv": (names, rows)}


def test_gpus(values, process):
    process.settings.clear()
    process.setting("device", "cuda:0")
    csv = gpu_samples(
        utilization_percent=[80, 0], sm_clock_mhz=[1128, 210], throttle_reasons=[0x4 | 0x20, 1], temperature_c=[85, 40],
        processes_of_job=[1], processes_foreign=[1, 0], memory_foreign_bytes=[1 << 30, 0],
    )  # fmt: skip
    gpu = {**GPU_OF_MACHINE, "power_limit_w": 200, "pcie_width": 8}
    told = values(gpus=[gpu], csv=csv)
    assert told["utilization_mean_share"] == pytest.approx(0.4, rel=0.1)
    assert told["clock_share"] == pytest.approx(0.8)
    assert told["throttle_thermal_share"] == told["throttle_power_share"] == 1
    assert (told["temperature_c"], told["power_limit_share"], told["pcie_width_share"]) == (85, 0.5, 0.5)
    assert told["foreign_share"] == pytest.approx(0.5, rel=0.1)
    assert told["foreign_memory_bytes"] == 1 << 30
    assert told["gpus_on_host"] == 1
    assert [(gpu.name, gpu.count) for gpu in values.measured.gpus] == [("NVIDIA A100-SXM4-80GB", 1)]


def test_gpus_of_a_job_that_does_not_use_them(values):
    told = values(gpus=[GPU_OF_MACHINE], csv=gpu_samples(utilization_percent=[0]))
    assert told["on_gpu"] is False
    assert told["gpus_on_host"] == 1
    assert "utilization_mean_share" not in told
    assert values.measured.gpus == ()


def test_torchs_own_counters(values, process):
    for second in range(11):
        for counter, value in ((1, second), (2, 10 * second), (3, 4), (4, 2), (5, second // 8), (6, second * 10**7)):
            process.count(counter, value, at=second * SECOND)
    process.facts["dynamo"] = {"breaks": {"print": 2, "item": 5}, "recompilations": {"size changed": 1}}
    told = values()
    assert told["alloc_retries"] == 10
    assert told["device_allocations_per_step"] == pytest.approx(1.0, rel=0.25)
    assert (told["graphs"], told["graph_breaks"], told["graph_break_reason"]) == (4, 2, "item")
    assert (told["recompilations_late"], told["recompile_reason"]) == (1, "size changed")
    assert told["compile_late_share"] == pytest.approx(0.005, rel=0.25)


def test_peak_memory_is_the_most_that_was_ever_told(values, process):
    for second, value in enumerate((0, 5 << 30, 7 << 30, 6 << 30)):
        process.count(7, value, at=second * SECOND)
    assert values()["peak_memory_bytes"] == 7 << 30


def test_lines_that_synchronise(values, process):
    sites = [
        {"file": "train.py", "line": 30, "function": "main", "operation": "aten::item", "count": 6},
        {"file": "train.py", "line": 9, "function": "log", "operation": "", "count": 9},
    ]
    process.facts["syncs"] = {"steps": 3, "sites": sites}
    values()
    found = values.found.each("sync_site")
    assert [(m.subject, m.value) for m in found] == [("train.py:9", 3.0), ("train.py:30", 2.0)]
    assert [(m.locations[0].line, m.locations[0].name) for m in found] == [(9, "log"), (30, "aten::item")]


def test_what_was_not_measured_is_absent(tmp_path):
    told = {m.name for m in measure(load(run_directory(tmp_path, Process().train(20)))).measurements}
    assert not told & {
        "alloc_retries", "graphs", "sync_site", "utilization_mean_share", "batch_cpu_share", "tracing",
        "compute_threads", "loading_thread_slowdown", "main_cpu_share", "numa_mismatch", "cpu_pressure_share",
        "num_workers", "peak_memory_bytes",
    }  # fmt: skip


def test_counters_that_jump_are_no_negative_rates(values, process):
    for second, value in enumerate((5, 9, 1)):
        process.count(recorded.BATCH, value, at=second * SECOND)
    assert values()["alloc_retries"] == 0


@pytest.mark.parametrize(
    ("affinity", "near", "away"), [("0-3", "16-31", True), ("0-31", "16-31", False), ("3,16", "16-31", False)]
)
def test_a_process_that_may_not_run_near_its_gpu(values, process, affinity, near, away):
    process.setting("affinity", affinity)
    told = values(gpus=[{"index": 0, "name": "A100", "numa_node": 1, "numa_cpus": near}])
    assert told["numa_mismatch"] is away


def test_batches_of_a_step(values):
    assert values()["loader_batches_per_step"] == pytest.approx(1.0)


def test_cpus_of_other_programs(values):
    machine = {"cpus": 4, "cpus_allowed": [0, 1]}
    rows = [(time, 4000, "rank", index * 0.5) for index, time in enumerate(times())]
    host = [(time, 1000 + index * 2.1) for index, time in enumerate(times())]
    files = {
        "processes.csv": (("time_ns", "pid", "role", "cpu_s"), rows),
        "host.csv": (("time_ns", "cpu_busy_s"), host),
    }
    assert values(told={"machine": machine}, csv=files)["cpus_taken"] == pytest.approx(1.6)


def test_without_samples_of_the_job_nobody_knows_what_is_of_other_programs(values):
    host = [(time, 1000 + index * 2.1) for index, time in enumerate(times())]
    assert "cpus_taken" not in values(csv={"host.csv": (("time_ns", "cpu_busy_s"), host)})


def test_workers_that_samples_miss_are_not_taken_for_other_programs(values, process):
    for second in range(10):
        process.put(recorded.ITERATE, 5, 2, 2, at=second * SECOND + 1)
    rows = [(time, 4000, "rank", index * 0.5) for index, time in enumerate(times())]
    host = [(time, 1000 + index * 2.1) for index, time in enumerate(times())]
    names = {"processes.csv": ("time_ns", "pid", "role", "cpu_s"), "host.csv": ("time_ns", "cpu_busy_s")}
    told = values(csv={"processes.csv": (names["processes.csv"], rows), "host.csv": (names["host.csv"], host)})
    assert "job_cpu_share" in told
    assert "cpus_taken" not in told
