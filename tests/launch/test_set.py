"""What can be set in a job from outside: names, values, and what is said to who mistypes one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.launch.looks import Looks
from whyidle.launch.settings import CATALOGUE, MOST, checked, parse

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "whyidle" / "capture"))

from _whyidle import record, switches

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"


def test_values_are_what_the_job_gets() -> None:
    found = parse(["loader:num_workers=4", "torch:tf32=TRUE", "loader:in_order=off", "torch:compile=max-autotune"])
    assert found == {
        "loader:num_workers": 4,
        "torch:tf32": True,
        "loader:in_order": False,
        "torch:compile": "max-autotune",
    }
    assert json.loads(Looks(set=found).json())["set"] == found
    assert parse([]) == {}


@pytest.mark.parametrize("name", [name for name, kind in CATALOGUE.items() if not isinstance(kind, int)])
def test_words_are_switches_or_themselves(name: str) -> None:
    kind = CATALOGUE[name]
    assert not isinstance(kind, int)
    assert [checked(name, word) for word in kind] == [{"on": True, "off": False}.get(word, word) for word in kind]


@given(st.integers(0, MOST))
def test_a_whole_number_is_taken_as_it_is(number: int) -> None:
    assert checked("loader:num_workers", str(number)) == number


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("loader:num_workers", "--set takes NAME=VALUE, not 'loader:num_workers'", "--set loader:num_workers=4"),
        ("num_workers=4", "no setting is called 'num_workers'", "did you mean loader:num_workers?"),
        ("loader:workers=4", "no setting is called 'loader:workers'", "did you mean loader:num_workers?"),
        ("torch:amp=on", "autocast cannot be set from outside", "flag:amp=off,on"),
        ("loader:num_workers=x", "loader:num_workers is a whole number, 0 to 1,048,576, not 'x'", "num_workers=4"),
        ("loader:num_workers=-1", "not '-1'", "loader:num_workers=4"),
        ("loader:batch_size=0", "loader:batch_size is a whole number, 1 to", "loader:batch_size=4"),
        ("loader:num_workers=²", "not '²'", "loader:num_workers=4"),
        ("loader:pin_memory=maybe", "loader:pin_memory is off or on, not 'maybe'", "loader:pin_memory=on"),
        ("torch:matmul_precision=low", "is highest, high or medium, not 'low'", "torch:matmul_precision=medium"),
        ("=", "no setting is called ''", "there are loader:num_workers"),
    ],
)
def test_a_slip_is_told(text: str, message: str, hint: str) -> None:
    with pytest.raises(WhyIdleError) as error:
        parse([text])
    assert message in error.value.message
    assert hint in error.value.hint


def test_one_setting_has_one_value() -> None:
    with pytest.raises(WhyIdleError, match="loader:num_workers is given twice"):
        parse(["loader:num_workers=1", "loader:num_workers=2"])


def test_the_job_knows_what_can_be_set_and_the_page_tells_it() -> None:
    names = {name.removeprefix("torch:") for name in CATALOGUE if name.startswith("torch:")}
    assert names == {*switches.SWITCHES, "compile", "channels_last"}
    assert record.DEFAULTS["set"] == {}
    page = PAGE.read_text("utf-8")
    assert [name for name in CATALOGUE if f"| `{name}` |" not in page] == []
