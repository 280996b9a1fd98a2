"""A command with other values: what is there is replaced, what is not is added, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.sweep.command import option_in, ranks_in, spelled, with_flag, with_option, with_override
from whyidle.sweep.script import place

WORD = st.text(alphabet="abc-_=.{}1", max_size=6)
COMMANDS = st.lists(WORD, max_size=6).map(lambda rest: ["python", "train.py", *rest])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python t.py", "python t.py --num-workers 8"),
        ("python t.py --epochs 1", "python t.py --epochs 1 --num-workers 8"),
        ("python t.py --num-workers 3 --epochs 1", "python t.py --num-workers 8 --epochs 1"),
        ("python t.py --num_workers=3 x", "python t.py --num_workers=8 x"),
        ("python t.py --num_workers --epochs 1", "python t.py --num_workers 8 --epochs 1"),
        ("python t.py --num_workers", "python t.py --num_workers 8"),
        ("python t.py --num_workers -1", "python t.py --num_workers 8"),
        ("python t.py x -- y", "python t.py x --num-workers 8 -- y"),
        ("python t.py -- --num-workers 3", "python t.py --num-workers 8 -- --num-workers 3"),
        ("python t.py --num-workers 3 --num-workers 4", "python t.py --num-workers 8 --num-workers 8"),
        ("python t.py --num-workers-max 3", "python t.py --num-workers-max 3 --num-workers 8"),
    ],
)
def test_an_option_gets_its_value(before: str, after: str) -> None:
    assert with_option(before.split(), 1, "--num-workers", "8") == after.split()


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("python t.py", 1),
        ("torchrun --nproc-per-node 4 t.py", 4),
        ("python -m torch.distributed.run --nnodes=1 --nproc_per_node=2 t.py --nproc-per-node 8", 2),
        ("torchrun --nproc-per-node gpu t.py", 1),
        ("accelerate launch --num_processes 8 -m package.train", 8),
        ("python t.py --num-processes 8", 1),
    ],
)
def test_the_ranks_that_a_launcher_starts(command: str, ranks: int) -> None:
    words = command.split()
    assert ranks_in(words, place(words)[0]) == ranks


def test_an_option_of_the_launcher_is_not_the_scripts() -> None:
    command = ["torchrun", "--num-workers", "2", "t.py"]
    assert option_in(command, 3, "num_workers") is None
    assert with_option(command, 3, "--num-workers", "8") == [*command, "--num-workers", "8"]


def test_a_value_that_looks_like_an_option_is_joined() -> None:
    assert with_option(["t.py"], 0, "--lr", "-1e-3") == ["t.py", "--lr=-1e-3"]
    assert with_option(["t.py", "-j", "2"], 0, "-j", "8") == ["t.py", "-j", "8"]


def test_overrides_keep_their_prefix() -> None:
    assert with_override(["t.py", "++data.n=3"], 0, "data.n", "8") == ["t.py", "++data.n=8"]
    assert with_override(["t.py", "data.nn=3"], 0, "data.n", "8") == ["t.py", "data.nn=3", "data.n=8"]


def test_a_flag_is_there_or_not() -> None:
    assert with_flag(["t.py", "x"], 0, "--use-amp", on=True) == ["t.py", "x", "--use-amp"]
    assert with_flag(["t.py", "--use_amp", "x"], 0, "--use-amp", on=True) == ["t.py", "--use_amp", "x"]
    assert with_flag(["t.py", "--use_amp", "x"], 0, "--use-amp", on=False) == ["t.py", "x"]


def test_a_flag_with_an_opposite_is_one_or_the_other() -> None:
    assert with_flag(["t.py", "--amp"], 0, "--amp/--no-amp", on=False) == ["t.py", "--no-amp"]
    assert with_flag(["t.py", "--no-amp", "x"], 0, "--amp/--no-amp", on=True) == ["t.py", "x", "--amp"]
    assert with_flag(["t.py", "--no_amp"], 0, "--amp/--no-amp", on=False) == ["t.py", "--no_amp"]


@pytest.mark.parametrize(("name", "option"), [("num_workers", "--num-workers"), ("j", "-j"), ("d.n_w", "--d.n_w")])
def test_names_are_spelled_as_options(name: str, option: str) -> None:
    assert spelled(name) == option


@given(COMMANDS, st.sampled_from(["1", "abc", "0.5"]))
def test_laws_of_an_option(command: list[str], value: str) -> None:
    once = with_option(command, 1, "--num-workers", value)
    assert option_in(once, 1, "num_workers") is not None
    assert with_option(once, 1, "--num-workers", value) == once
    other = with_option(once, 1, "--num-workers", "2")
    assert with_option(other, 1, "--num-workers", value) == once


@given(COMMANDS)
def test_laws_of_a_flag(command: list[str]) -> None:
    off = with_flag(command, 1, "--amp", on=False)
    assert "--amp" not in (off[2 : off.index("--")] if "--" in off else off[2:])
    assert with_flag(with_flag(off, 1, "--amp", on=True), 1, "--amp", on=False) == off
