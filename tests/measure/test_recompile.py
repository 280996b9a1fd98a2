"""Compilation after the first step: in how many steps, and what it costs."""

from __future__ import annotations

import pytest

from tests.traces import Recording, measured

INNER = "_compile.compile_inner (dynamo_timed)"


def compiling(*steps, kind="op", count=4):
    """Steps of 100 us. In each of these the host compiles from 10 to 60 and launches at 90 what runs 95-100."""
    r = Recording()
    for number in range(count):
        at = number * 100
        r.step(number, at, at + 100).kernel(at, at + 10, launched=at - 5)
        if number in steps:
            getattr(r, kind)(INNER, at + 10, at + 60)
        r.kernel(at + 95, at + 100, launched=at + 90)
    return r


@pytest.mark.parametrize("kind", ["op", "range"])
def test_what_is_compiled_after_the_first_step(kind):
    """Steps 1 and 3 of 0-3, 50 us each: 100 of 400 us, 50 of them in the second half of the later three."""
    m = measured(compiling(0, 1, 3, kind=kind).analysis())
    assert m["recompile_steps"] == 2
    assert m["recompile_share"] == pytest.approx(100 / 400)
    assert m["recompile_late_share"] == pytest.approx(50 / 400)
    assert m["idle_compile_share"] == pytest.approx(150 / 400)


def test_the_second_half_are_the_last_of_the_later_steps():
    """Of steps 1-6 these are 4-6, of steps 1-3 step 3: step 2 of three is in the first half."""
    assert measured(compiling(1, 3, count=7).analysis())["recompile_late_share"] == 0
    assert measured(compiling(1, 4, count=7).analysis())["recompile_late_share"] == pytest.approx(50 / 700)
    assert measured(compiling(1, 2).analysis())["recompile_late_share"] == 0


def test_a_first_compilation_in_the_first_step_is_none():
    m = measured(compiling(0).analysis())
    assert m["recompile_steps"] == m["recompile_share"] == m["recompile_late_share"] == 0


def test_compiling_beside_a_busy_gpu_costs_nothing():
    m = measured(compiling(1, 2, 3).kernel(0, 400, launched=-5, stream=8).analysis())
    assert m["recompile_steps"] == 3
    assert m["recompile_share"] == 0


def test_loading_code_is_no_compilation():
    """cuModuleLoadData in the third step: a kernel that is used for the first time."""
    m = measured(compiling().call("cuModuleLoadData", 210, 260).analysis())
    assert m["idle_compile_share"] == pytest.approx(50 / 400)
    assert m["recompile_steps"] == m["recompile_share"] == 0


def test_one_step_or_none_is_unknown():
    assert "recompile_share" not in measured(compiling(0, count=1).analysis())
    assert "recompile_share" not in measured(Recording().op(INNER, 0, 5).kernel(5, 10, launched=4).analysis())


def test_regions_name_the_version_that_they_run():
    """Function 0 runs in its first version, function 2 in its sixth."""
    r = compiling().op("Torch-Compiled Region: 0/0", 1, 2).op("Torch-Compiled Region: 2/5", 101, 102)
    assert measured(r.analysis())["compiled_versions"] == 6
    assert "compiled_versions" not in measured(compiling().analysis())
