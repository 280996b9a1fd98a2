"""What two traces do not run alike: known pairs of recordings, and traces written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import Recording
from whyidle.compare.difference import Spent, changes, identity, per, what
from whyidle.measure import Measured, measure
from whyidle.model.comparison import Change
from whyidle.model.evidence import Kind, Run
from whyidle.read import load

RESNET = "kineto/resnet50_num_workers_{}/worker0.{}.pt.trace.json.gz"
STEP = 10_000  # us


def measured(recording: Recording) -> Measured:
    return measure(Run(traces=(recording.trace(),)))


def steps(*, gemm: str = "ampere_sgemm_128x64_tn", took: float = 3000, adds: int = 2, item: float = 0, count: int = 6):
    """Return a trace in which each step has a product, some additions, and maybe a read of one value."""
    made = Recording()
    for number in range(count):
        at = number * STEP
        made.step(number, at, at + STEP)
        made.op("aten::linear", at, at + 50).op("aten::addmm", at + 5, at + 45)
        made.kernel(at + 60, at + 60 + took, launched=at + 10, name=gemm)
        for index in range(adds):
            begin = at + 100 + 50 * index
            made.op("aten::add", begin, begin + 40)
            made.kernel(at + 4000 + 400 * index, at + 4300 + 400 * index, launched=begin + 5)
        if item:
            made.op("aten::item", at + 1000, at + 1000 + item)
    return measured(made)


def told(before: Measured, after: Measured) -> list[tuple[str, str, str]]:
    return [(change.kind, change.name, change.what) for change in changes(before, after)]


def test_a_trace_does_not_differ_from_itself() -> None:
    assert changes(steps(), steps()) == ()


def test_more_of_the_same_kernel() -> None:
    found = changes(steps(adds=2), steps(adds=4))
    assert [(one.kind, one.what, one.count_before, one.count_after) for one in found] == [
        ("kernel", "more often", 2, 4),
        ("operator", "more often", 2, 4),
    ]
    assert [one.name for one in found if one.kind == "operator"] == ["aten::add"]
    assert found[0].seconds_after - found[0].seconds_before == pytest.approx(600e-6)


def test_another_tile_of_a_product_is_one_change_under_its_operator() -> None:
    found = changes(steps(), steps(gemm="ampere_sgemm_64x64_tn", took=2000))
    kernel = next(one for one in found if one.kind == "kernel")
    assert (kernel.name, kernel.now, kernel.what) == ("ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_tn", "faster")
    assert kernel.operator == "aten::linear"
    assert ("operator", "aten::linear", "faster") in told(steps(), steps(gemm="ampere_sgemm_64x64_tn", took=2000))


def test_another_tile_that_takes_as_long_is_no_news() -> None:
    assert changes(steps(), steps(gemm="ampere_sgemm_64x64_tn")) == ()


def test_what_comes_and_what_goes() -> None:
    assert told(steps(adds=0), steps()) == [
        ("kernel", "at::native::vectorized_elementwise_kernel<4>", "added"),
        ("operator", "aten::add", "added"),
    ]
    assert {one for _, _, one in told(steps(), steps(adds=0))} == {"removed"}


def test_a_read_of_one_value_is_told_by_the_time_of_the_host() -> None:
    (found,) = changes(steps(item=4000), steps())
    assert (found.kind, found.on, found.name, found.what) == ("operator", "host", "aten::item", "removed")
    assert found.seconds_before == pytest.approx(4e-3)


def test_an_operator_that_a_full_queue_holds_up_is_no_change() -> None:
    late = Recording()
    for number in range(6):
        late.step(number, number * STEP, (number + 1) * STEP)
        late.op("aten::add", number * STEP, number * STEP + 5000)
        late.kernel(number * STEP + 4000, number * STEP + 4300, launched=number * STEP + 3900)
    quick = Recording()
    for number in range(6):
        quick.step(number, number * STEP, (number + 1) * STEP)
        quick.op("aten::add", number * STEP, number * STEP + 50)
        quick.kernel(number * STEP + 4000, number * STEP + 4300, launched=number * STEP + 5)
    assert changes(measured(late), measured(quick)) == ()


def test_less_than_a_hundredth_of_a_step_is_no_news() -> None:
    assert changes(steps(took=3000), steps(took=3099)) == ()
    assert changes(steps(took=3000), steps(took=3102)) != ()


def test_what_varies_from_step_to_step_is_no_news() -> None:
    def varied(more: float) -> Measured:
        made = Recording()
        for number in range(9):
            at = number * STEP
            made.step(number, at, at + STEP)
            made.kernel(at + 60, at + 1060 + more + 1000 * (number % 3), launched=at + 10, name="sgemm")
        return measured(made)

    assert changes(varied(0), varied(500)) == ()
    assert [one.what for one in changes(varied(0), varied(1500))] == ["slower"]


def test_what_nobody_launched_has_no_operator() -> None:
    def bare(count: int) -> Measured:
        made = Recording()
        for number in range(5):
            made.step(number, number * STEP, (number + 1) * STEP)
            for index in range(count):
                begin = number * STEP + 100 + 500 * index
                made.work(Kind.KERNEL, "fused", begin, begin + 400)
        return measured(made)

    (found,) = changes(bare(4), bare(6))
    assert (found.kind, found.what, found.operator) == ("kernel", "more often", "")


def test_operators_that_went_into_a_graph() -> None:
    """The time of operators is all there before and after: the graph's launch stands for what it holds."""
    made = Recording()
    for number in range(6):
        at = number * STEP
        made.step(number, at, at + STEP)
        made.kernel(at + 60, at + 3060, launched=at + 10, call="cudaGraphLaunch", name="ampere_sgemm_128x64_tn")
        for index in range(2):
            made.kernel(at + 4000 + 400 * index, at + 4300 + 400 * index, launched=at + 16, call="cudaGraphLaunch")
    found = changes(steps(adds=2), measured(made))
    assert {(one.kind, one.name, one.what) for one in found} == {
        ("operator", "cudaGraphLaunch", "added"),
        ("operator", "aten::linear", "removed"),
        ("operator", "aten::add", "removed"),
    }
    assert sum(one.seconds_after - one.seconds_before for one in found) == pytest.approx(0)


def test_without_steps_it_is_the_whole_recording() -> None:
    def bare(count: int) -> Measured:
        made = Recording()
        for index in range(count):
            made.kernel(100 * index, 100 * index + 80, name="sgemm")
        return measured(made)

    assert per(bare(3), bare(5)) == "recording"
    assert per(bare(3), steps()) is None
    assert changes(bare(3), steps()) == ()
    (found,) = changes(bare(3), bare(5))
    assert (found.count_before, found.count_after, found.what) == (3, 5, "more often")


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, {}> >{}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ADD.format("3ul", "(int, at::native::CUDAFunctor_add<float>)"), ADD.format("3", "(int)").replace(", ", ",")),
        ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu_3"),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::(anonymous namespace)::f<{lambda(int)#1}>>(int)",
            "void at::native::elementwise_kernel<128, 2, at::native::f<{lambda(int)#2}> >(int)",
        ),
    ],
)
def test_builds_of_a_kernel_are_the_same_kernel(one: str, other: str) -> None:
    assert identity(one) == identity(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_tn"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("void f<float>(int)", "void f<c10::Half>(int)"),
        ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_0"),
    ],
)
def test_other_work_is_another_kernel(one: str, other: str) -> None:
    assert identity(one) != identity(other)


SPENT = st.builds(
    Spent,
    st.floats(0.1, 1e4, allow_nan=False),
    st.floats(1e-6, 1.0, allow_nan=False),
)


@given(SPENT, SPENT)
def test_what_is_said_agrees_with_the_numbers(was: Spent, now: Spent) -> None:
    said = what(was, now)
    assert (said in {"more often", "slower"}) == (now.seconds > was.seconds)
    if said == "more often":
        assert now.count > was.count
    if said == "slower":
        assert now.seconds / now.count > was.seconds / was.count


def pair(corpus, before: str, after: str) -> tuple[Change, ...]:
    return changes(*(measure(load([corpus / name])) for name in (before, after)))


def test_workers_take_the_loader_out_of_the_training_process(corpus) -> None:
    found = pair(corpus, RESNET.format(0, "1623143089861"), RESNET.format(4, "1623212756351"))
    first = found[0]
    assert first.name == "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert (first.what, first.on) == ("removed", "host")
    assert first.seconds_before == pytest.approx(0.0694, abs=0.001)
    assert all("aten::" not in one.name for one in found)  # the model is the same


def test_pinned_memory_in_the_demo() -> None:
    demo = Path(__file__).parents[2] / "src" / "whyidle" / "demo"
    found = changes(*(measure(load([demo / f"{name}.json.gz"])) for name in ("before", "after")))
    assert [(one.kind, one.what, one.on) for one in found] == [
        ("operator", "removed", "host"),  # the loader works in processes of its own
        ("kernel", "faster", "device"),
        ("operator", "faster", "device"),
    ]
    assert found[1].name == "Memcpy HtoD (Pageable -> Device)"
    assert found[1].now == "Memcpy HtoD (Pinned -> Device)"


def test_a_model_that_was_compiled(corpus) -> None:
    """HTA's own pair of traces for its TraceDiff."""
    found = pair(corpus, "kineto/trace_diff/control", "kineto/trace_diff/test")
    operators = {one.name: one for one in found if one.kind == "operator"}
    assert operators["CompiledFunction"].what == "added"
    assert operators["CompiledFunctionBackward"].what == "added"
    assert operators["AddmmBackward0"].what == "less often"
    assert (operators["AddmmBackward0"].count_before, operators["AddmmBackward0"].count_after) == (99, 30)
    assert operators["aten::item"].on == "host"
    copies = next(one for one in found if one.name == "Memcpy DtoD (Device -> Device)")
    assert (copies.what, copies.count_after) == ("more often", 768)
    assert list(found) == sorted(found, key=lambda one: -abs(one.seconds_after - one.seconds_before))
