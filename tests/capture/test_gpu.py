"""The device's own waits, on an accelerator of which they are known: see waits_of_gpu.py."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.capture.injecting import environment, python
from tests.capture.reading import Record, errors, rings
from tests.doubles import fakegpu

pytest.importorskip("torch")

HERE = Path(__file__).parent
WAIT_S = 0.03  # of waits_of_gpu.SLOW_BATCH_S
KERNEL_S = 0.04  # of waits_of_gpu.KERNEL_US


@pytest.fixture(scope="module")
def waits(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, tuple[dict[str, float], list[Record], list[Record]]]:
    """Return for each training what it says of itself, its GPU records, and the records that these are of."""
    if why := fakegpu.missing():
        pytest.skip(why)
    built = request.config.cache.mkdir("fakegpu")
    folder = tmp_path_factory.mktemp("gpu")
    doubles = HERE.parent / "doubles"
    job = python(HERE / "waits_of_gpu.py", built, doubles, env=environment(folder, trace=False), cwd=folder)
    assert job.returncode == 0, job.stderr
    assert errors(folder) == ""
    (ring,) = rings(folder)
    by_sequence = {record.sequence: record for record in ring.records}
    found = {}
    for line in job.stdout.splitlines():
        said = json.loads(line)
        own = [record for record in ring.records if said["first"] <= record.sequence < said["last"]]
        times = [record for record in own if record.kind == "GPU"]
        found[said["name"]] = (said, times, [by_sequence[record.value] for record in times])
    return found


Waits = dict[str, tuple[dict[str, float], list[Record], list[Record]]]


def seconds(records: list[Record]) -> float:
    return statistics.median(record.duration for record in records) / 1e9


def test_device_that_waits_for_data_is_timed(waits: Waits) -> None:
    _, times, batches = waits["input-bound"]
    assert {record.kind for record in batches} == {"BATCH"}
    assert len(times) >= 8
    assert WAIT_S * 0.8 < seconds(times) < 1.2 * seconds(batches)  # events lie just outside


def test_device_that_still_has_work_did_not_wait(waits: Waits) -> None:
    """The host waits a little for each batch; the device has 40 ms of work in its queue meanwhile."""
    _, times, batches = waits["healthy"]
    assert times
    assert sum(record.duration for record in times[2:]) < 0.5 * sum(record.duration for record in batches[2:])


def test_synchronised_device_waits_from_the_first_moment(waits: Waits) -> None:
    """`item()` empties the queue: each wait for a batch, short as it is, is the device's as well."""
    said, times, batches = waits["sync-bound"]
    assert said["stalls"] >= 12
    assert said["stalled_s"] > 12 * KERNEL_S * 0.5
    assert seconds(times) > 0.5 * seconds(batches)


def test_copy_from_pageable_memory_stalls_the_host_and_is_no_wait_for_data(waits: Waits) -> None:
    said, times, _ = waits["pageable"]
    assert said["stalls"] >= 12
    assert seconds(times) < WAIT_S / 2


def test_device_that_waits_for_a_checkpoint_is_timed(waits: Waits) -> None:
    _, times, waited = waits["checkpoint"]
    saves = [record for record, what in zip(times, waited, strict=True) if what.kind == "SAVE"]
    assert len(saves) >= 8
    assert seconds(saves) > WAIT_S * 0.8
