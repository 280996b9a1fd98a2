"""Losses that a job is recorded with, held against those that it tells itself: see losing.py.

On an accelerator that is a double: that a real GPU does the same shows test_cuda.py, where there is one.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.capture.injecting import environment, python
from tests.capture.reading import errors, rings
from tests.doubles import fakegpu
from whyidle.measure.loss import losses
from whyidle.read import load

pytest.importorskip("torch")

HERE = Path(__file__).parent


class Told(NamedTuple):
    """A training: what it says that it lost, what was recorded, and with which flags."""

    said: list[float]
    recorded: list[float]
    flags: set[int]


def job(folder: Path, *arguments: str | Path, asked: bool = True) -> tuple[dict[str, Told], int]:
    """Run all trainings, and return them by name, and how often the host waited for the device."""
    done = python(
        HERE / "losing.py", *arguments, env=environment(folder, trace=False, losses=asked), cwd=folder, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert errors(folder) == ""
    (ring,) = rings(folder)
    found, first, stalls = {}, 0, 0
    for line in done.stdout.splitlines():
        told = json.loads(line)
        own = [one for one in ring.records if one.kind == "LOSS" and first <= one.sequence < told["last"]]
        values = [struct.unpack("<d", struct.pack("<q", one.value))[0] for one in own]
        found[told["name"]] = Told(told["losses"], values, {one.flags for one in own})
        first, stalls = told["last"], told["stalls"]
    return found, stalls


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    return job(tmp_path_factory.mktemp("cpu"), "cpu")[0]


@pytest.fixture(scope="module")
def on_device(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Told]:
    if why := fakegpu.missing():
        pytest.skip(why)
    built = request.config.cache.mkdir("fakegpu")
    arguments = ("fakegpu", built, HERE.parent / "doubles")
    told, stalls = job(tmp_path_factory.mktemp("device"), *arguments)
    _, without = job(tmp_path_factory.mktemp("bare"), *arguments, asked=False)
    assert stalls == without  # nobody waits for the device for us
    return told


@pytest.mark.parametrize(
    "name", ["plain", "accumulated", "scaled", "broken", "let_go", "bfloat16", "scaled_there", "infinite"]
)
def test_losses_are_those_that_the_job_saw(on_cpu: dict[str, Told], name: str) -> None:
    told = on_cpu[name]
    assert told.flags == {0}
    assert np.array_equal(told.recorded, told.said, equal_nan=True)


@pytest.mark.parametrize("name", ["plain", "accumulated", "broken", "let_go", "scaled_there"])
def test_losses_on_a_device_are_copied_behind_what_computes_them(on_device: dict[str, Told], name: str) -> None:
    told = on_device[name]
    assert told.flags == {0}
    assert np.array_equal(told.recorded, told.said, equal_nan=True)


def test_what_multiplied_a_loss_and_is_not_known_is_said(on_cpu: dict[str, Told]) -> None:
    assert on_cpu["divided"].flags == {1}


def test_what_a_scale_alone_made_infinite_is_not_known(on_cpu: dict[str, Told]) -> None:
    """In float16; any other type holds so large numbers that an infinite loss was so before."""
    told = on_cpu["infinite_float16"]
    assert told.flags == {0, 1}
    assert told.recorded[:10] == told.said[:10]


def test_passes_that_begin_with_no_loss_have_none(on_cpu: dict[str, Told]) -> None:
    assert on_cpu["others"].recorded == []


def test_modes_of_the_job_do_not_see_us(on_cpu: dict[str, Told]) -> None:
    assert set(on_cpu["in_a_mode"].recorded) == set(on_cpu["in_a_mode"].said)


def test_nothing_is_recorded_that_was_not_asked_for(tmp_path: Path) -> None:
    told, _ = job(tmp_path, "cpu", asked=False)
    assert all(one.recorded == [] for one in told.values())


def test_a_step_has_the_mean_of_its_passes(tmp_path: Path) -> None:
    (tmp_path / "node-a").mkdir()
    (tmp_path / "node-a" / "node.json").write_text('{"whyidle_run": 1, "host": "a"}')
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "p = torch.nn.Parameter(torch.zeros(()))\n"
        "o = torch.optim.SGD([p], 0.1)\n"
        "for step in range(12):\n"
        "    for half in (1.0, 3.0):\n"
        "        (p * 0 + half * step).backward()\n"
        "    o.step()\n"
    )
    done = python(script, env=environment(tmp_path / "node-a", trace=False, losses=True), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = losses(load([tmp_path]))
    assert found is not None
    assert found.step.tolist() == list(range(1, 13))
    assert found.loss.tolist() == [2.0 * step for step in range(12)]
