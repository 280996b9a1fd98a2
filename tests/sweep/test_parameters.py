"""How a parameter's values reach a job, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle.errors import WhyIdleError
from whyidle.launch.settings import checked
from whyidle.sweep.parameters import MOST_VALUES, applied, parse

KNOWS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--use_amp", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--scale", choices=["off", "on"])
"""
COMMAND = ("python", "train.py", "--epochs", "1")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(KNOWS, "utf-8")
    (tmp_path / "plain.py").write_text("DataLoader(data, num_workers=2)\n", "utf-8")
    return tmp_path


CASES = [
    (COMMAND, ["num_workers=0,4,8"]),
    (COMMAND, ["num-workers=0..2"]),
    (("torchrun", "--nproc-per-node", "2", "train.py", "--num-workers=3"), ["num_workers=0,4"]),
    (("python", "plain.py"), ["num_workers=0,4", "batch_size=1..16*2", "pin_memory=off,on", "prefetch_factor=2..8+3"]),
    (("python", "plain.py"), ["compile=off,reduce-overhead", "tf32=off,on", "threads=1,2", "channels_last=off,on"]),
    (COMMAND, ["compile=off,on", "scale=off,on", "loader:num_workers=1,2"]),
    ((*COMMAND, "--compile"), ["compile=off,on"]),
    ((*COMMAND, "--use_amp"), ["use-amp=on,off"]),
    (COMMAND, ["flag:fast=on,off", "env:OMP_NUM_THREADS=1,2"]),
    (COMMAND, ["lr=0.1,-1"]),
    (("python", "plain.py", "lr=3", '{"a": {lr}}'), ["lr=0.1,0.2"]),
    (("python", "plain.py", "lr=3", '{"a": 1}'), ["lr=0.1,0.2"]),
    (("bash", "train.sh"), ["num_workers=0,4", "lr=1,2"]),
    (("bash", "-c", "python plain.py --lr {lr}"), ["num_workers=0,4", "lr=1,2"]),
]


@pytest.mark.parametrize(("command", "texts"), CASES, ids=" ".join)
def test_where_values_go(command: tuple[str, ...], texts: list[str], here: Path, snapshot: SnapshotAssertion) -> None:
    parameters = parse(texts, command, here)
    job = applied(parameters, {one.name: one.values[-1] for one in parameters}, command)
    told = [f"{one.name}={','.join(one.values)}: {one.said}" for one in parameters]
    words = " ".join([*(f"{name}={value}" for name, value in job.environment.items()), *job.command])
    assert "\n".join([*told, words, *(f"--set {name}={value}" for name, value in job.settings.items())]) == snapshot
    for name, value in job.settings.items():
        checked(name, value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no parameter is given"),
        (["=1"], "-p takes NAME=VALUE,VALUE, not '=1'"),
        (["num_workers="], "a value is missing"),
        (["num_workers=1,,2"], "a value is missing"),
        (["num_workers=1,1"], "1 is there twice"),
        (["num_workers=0..4,3"], "3 is there twice"),
        (["num_workers=x"], "-p num_workers is a whole number, 0 to 1,048,576, not 'x'"),
        (["foo:bar=1"], "there is no such kind of parameter"),
        (["flag:=on"], "there is no such kind of parameter"),
        (["loader:numworkers=1"], "no setting is called 'loader:numworkers'"),
        (["loader:pin_memory=on,true"], "on and true are the same"),
        (["torch:autocast=off,on"], "autocast cannot be set from outside"),
        (["amp=off,on"], "autocast cannot be set from outside"),
        (["env:1x=2"], "no variable can be called '1x'"),
        (["env:WHYIDLE_OPTIONS=2"], "no variable can be called"),
        (["x=5..1"], "5..1 is no range"),
        (["x=0..8*2"], "0..8*2 is no range"),
        (["x=0..8+0"], "0..8+0 is no range"),
        (["x=1..1000"], f"more than {MOST_VALUES} values"),
        (["flag:fast=1,2"], "is off or on, not '1'"),
        (["a b=1"], "that is no name"),
        (["lr=1", "lr=2"], "are the same"),
        (["num_workers=1", "num-workers=2"], "are the same"),
    ],
)
def test_a_slip_is_told(texts: list[str], message: str, here: Path) -> None:
    with pytest.raises(WhyIdleError) as error:
        parse(texts, COMMAND, here)
    assert message in error.value.message
    assert error.value.hint


def test_what_has_no_place_is_told(here: Path) -> None:
    with pytest.raises(WhyIdleError, match="the shell's command has no place for it"):
        parse(["lr=1,2"], ("bash", "-c", "python train.py"), here)


@given(st.lists(st.text(alphabet="ab1.-:/ ", min_size=1).map(str.strip).filter(bool), min_size=1, unique=True))
def test_a_placeholder_gets_each_value_as_it_is(values: list[str]) -> None:
    ordinary = [value for value in values if ".." not in value]
    if not ordinary or len(ordinary) > MOST_VALUES:
        return
    command = ("job", "--x={v}", "{other}", '{"v": 1}')
    (parameter,) = parameters = parse([f"v={','.join(ordinary)}"], command, Path("nowhere"))
    assert parameter.values == tuple(ordinary)
    for value in ordinary:
        job = applied(parameters, {"v": value}, command)
        assert job.command == ("job", f"--x={value}", "{other}", '{"v": 1}')


def test_a_name_alone_leaves_the_values_to_a_search(here: Path) -> None:
    (parameter,) = parse(["num_workers"], COMMAND, here)
    assert (parameter.values, parameter.how, parameter.target) == ((), "option", "--num_workers")
    assert applied([parameter], {"num_workers": "3"}, COMMAND).command == (*COMMAND, "--num_workers", "3")
