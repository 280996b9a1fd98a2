"""What edits speak of: the rows that measurements rest on, and host time by cause."""

from __future__ import annotations

import numpy as np
import pytest

import world
from tests.traces import AUTOGRAD, Recording
from whyidle.measure import measure
from whyidle.measure.late import members, named
from whyidle.model.evidence import Kind
from whyidle.model.finding import CAUSES, Edit
from whyidle.model.intervals import clip
from whyidle.read import load
from whyidle.replay.select import Selection, concerns, host_parts, replayable, select
from whyidle.rules import all_rules, ask

IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
UP, DOWN = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
GEMM, REDUCE = "ampere_fp16_s16816gemm_fp16_128x128", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

EDITS = {
    f"{rule.id}: {edit.kind} {dict(edit.selector)}": edit
    for rule in all_rules()
    for case in rule.cases
    if case.fires
    for finding in rule().diagnose(case.measurements())
    for fix in finding.fixes
    for edit in fix.edits
}


def spans(intervals, unit=1000):
    """Return [start, end) in us."""
    return [(int(s) // unit, int(e) // unit) for s, e in zip(intervals.start, intervals.end, strict=True)]


def names_of(a, rows, side="device"):
    table = getattr(a.t, side)
    return [a.t.trace.strings[code] for code in table.name[rows].tolist()]


def starts(a, rows, side="device"):
    return (getattr(a.t, side).start[rows] // 1000).tolist()


def scale_host(a, **selector):
    return spans(select(a, Edit("scale_host", selector)).host)


def device(a, kind="scale_device", **selector):
    return select(a, Edit(kind, selector)).device


def small():
    """Two steps of 100 us, each with an operator that launches a kernel."""
    r = Recording()
    for start in (0, 100):
        r.step(start // 100, start, start + 100).op("aten::add", start + 10, start + 20)
        r.kernel(start + 30, start + 90, launched=start + 12)
    return r


class TestEveryEdit:
    @pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
    def test_is_understood(self, edit):
        """A rule whose selector nobody knows fails here: give select.py a function of measure/ for it."""
        found = select(small().analysis(), edit)
        assert len(found.device) == len(found.time)
        assert np.isin(found.launches, small().analysis().t.launching).all()

    def test_of_what_no_trace_shows_nothing_is_selected(self):
        """They are those of the start of a job, of work that a CPU does for a GPU, and of environments."""
        apart = {name.split(":")[0] for name, edit in EDITS.items() if not replayable(edit)}
        assert apart == {"pause.startup", "env.cpu_fallback", "rl.env_bound"}
        for edit in EDITS.values():
            assert replayable(edit) or not len(select(small().analysis(), edit).host)

    @pytest.mark.parametrize(
        ("kind", "selector"),
        [
            ("scale_host", {"cause": "daydreams"}),
            ("scale_host", {"cause": "gc", "step": "last"}),
            ("scale_host", {"range": "lunch"}),
            ("remove_sync", {"kind": "social"}),
            ("remove_sync", {}),
            ("scale_device", {"class": "cast", "size": "large"}),
            ("scale_device", {}),
            ("merge_launches", {"range": "evaluation"}),
            ("larger_batch", {"per": "sample"}),
            ("paint_device", {"class": "cast"}),
        ],
    )
    def test_of_words_that_nobody_knows_is_a_mistake(self, kind, selector):
        with pytest.raises(KeyError):
            select(small().analysis(), Edit(kind, selector))

    def test_is_found_once(self):
        selection = Selection(small().analysis())
        first = selection.select(Edit("scale_device", {"class": "compute"}, {"factor": 0.5}))
        assert selection.select(Edit("scale_device", {"class": "compute"}, {"factor": 0.2})) is first


class TestHostParts:
    def test_are_exclusive_and_the_whole_window(self):
        """A garbage collection in the loader is the loader's: that has priority. Between two operators it is Python."""
        r = small().range(IN_PROCESS, 30, 60).python("built-in function gc.collect", 40, 70)
        parts = host_parts(r.analysis())
        assert tuple(parts) == CAUSES
        assert spans(parts["data_wait"]) == [(30, 60)]
        assert spans(parts["gc"]) == [(60, 70)]
        assert spans(parts["dispatch"]) == [(10, 20), (110, 120)]
        assert spans(parts["python"]) == [(0, 10), (20, 30), (70, 110), (120, 200)]
        assert sum(part.total for part in parts.values()) == 200_000

    def test_autograd_fills_in_where_the_main_thread_does_nothing(self):
        """It works 20-60; the main thread is in an operator 50-70."""
        r = small().op("aten::mul", 50, 70)
        r.op("autograd::engine::evaluate_function: MulBackward0", 20, 60, AUTOGRAD)
        r.kernel(90, 95, launched=25, thread=AUTOGRAD)
        parts = host_parts(r.analysis())
        assert spans(parts["autograd_host"]) == [(20, 50)]
        assert (50, 70) in spans(parts["dispatch"])

    def test_threads_that_drive_nothing_do_not_count(self):
        r = small().range("logging", 30, 60, thread="1/9")
        assert not len(host_parts(r.analysis())["logging"])

    def test_where_no_launch_is_known_nobody_knows(self):
        parts = host_parts(Recording().step(0, 0, 100).kernel(20, 50).analysis())
        assert spans(parts["unknown"]) == [(0, 100)]

    def test_the_host_is_what_is_no_wait_and_no_pause(self):
        """The work of the training thread: what takes longer once workers want the same CPUs."""
        r = small().range(IN_PROCESS, 30, 60).range("save_checkpoint", 60, 80).call("cudaDeviceSynchronize", 80, 90)
        assert scale_host(r.analysis(), cause="host") == [(0, 30), (90, 200)]

    def test_without_operators_what_is_between_calls_may_be_theirs(self):
        r = Recording().step(0, 0, 100).kernel(20, 50, launched=10).kernel(60, 80, launched=40)
        assert scale_host(r.analysis(), cause="dispatch") == [(0, 100)]
        assert scale_host(r.analysis(), cause="python") == []


class TestHostTime:
    def test_of_several_causes(self):
        r = small().range(IN_PROCESS, 30, 60).python("built-in function gc.collect", 70, 80)
        assert scale_host(r.analysis(), cause="data_wait,gc") == [(30, 60), (70, 80)]

    def test_of_first_batches(self):
        """The first batch takes 40 us, and as long in the fourth step: two epochs. The others take 5."""
        r = Recording().op("aten::add", 0, 0.5)
        for number, took in enumerate((40, 5, 5, 40, 5, 5)):
            start = 100 * number
            r.step(number, start, start + 100).range(WORKERS, start + 1, start + 1 + took)
            r.kernel(start + 60, start + 90, launched=start + 50)
        assert scale_host(r.analysis(), cause="data_wait", step="first") == [(1, 41), (301, 341)]

    def test_in_long_gaps_between_launches(self):
        """An operator of 1.5 ms is a stall; one of 0.1 ms is a launch that takes its time."""
        r = Recording().step(0, 0, 3000).op("aten::add", 0, 95).kernel(110, 120, launched=90)
        r.op("aten::unique", 200, 1695).kernel(1800, 1900, launched=1690)
        assert scale_host(r.analysis(), cause="dispatch", gap="long") == [(200, 1690)]

    def test_of_zero_grad(self):
        r = small().range("Optimizer.zero_grad#SGD.zero_grad", 40, 55)
        assert scale_host(r.analysis(), range="zero_grad") == [(40, 55)]

    def test_that_makes_small_tensors(self):
        """From the launch before, at 12-17, to the end of the small copy's call, but for the loader."""
        r = small().copy(UP, 60, 61, launched=55, size=64).range(IN_PROCESS, 20, 30)
        assert scale_host(r.analysis(), copy="HtoD", size="small") == [(17, 20), (30, 60)]
        assert starts(r.analysis(), device(r.analysis(), copy="HtoD", size="small")) == [60]


class TestWaits:
    def batch(self, between=()):
        """A batch of 1 MiB and its labels of 64 bytes, each copied from pageable memory with a wait behind it."""
        r = Recording().step(0, 0, 400).op("aten::add", 0, 5).kernel(10, 100, launched=1)
        for start, size in ((20, 1 << 20), (120, 64)):
            r.op("aten::copy_", start, start + 90).copy(
                UP, 102 if size > 64 else 150, 160, launched=start + 1, size=size
            )
            r.call("cudaStreamSynchronize", start + 10, start + 88)
        for start in between:
            r.op("aten::mul", start, start + 8).kernel(161, 170, launched=start + 1)
        return r.kernel(300, 390, launched=290).analysis()

    def waits(self, a, kind):
        return starts(a, select(a, Edit("remove_sync", {"kind": kind})).waits, "host")

    def test_for_a_batch_are_those_for_its_labels_too(self):
        """Without the first the host would stand in the second."""
        assert self.waits(self.batch(), "upload") == [21, 30, 121, 130]

    def test_what_is_copied_after_other_work_is_no_part_of_the_batch(self):
        a = self.batch(between=[111])
        assert self.waits(a, "upload") == [21, 30]
        assert self.waits(a, "small_upload") == [121, 130]

    def test_of_a_read_are_the_copy_and_the_synchronization(self):
        r = small().op("aten::item", 40, 95).op("aten::_local_scalar_dense", 41, 94)
        r.copy(DOWN, 90, 92, launched=42, size=4).call("cudaStreamSynchronize", 50, 93)
        r.call("cudaDeviceSynchronize", 150, 199)
        a = r.analysis()
        assert self.waits(a, "scalar,readback") == [42, 50]
        assert self.waits(a, "framework") == [150]

    def test_for_memory_are_those_of_threads_that_drive_the_device(self):
        r = small().call("cudaFree", 40, 60).call("cudaHostAlloc", 61, 62, thread="1/9")
        assert self.waits(r.analysis(), "allocator") == [40]


class TestDeviceRows:
    def test_collectives_wait_beyond_the_fastest(self):
        """The same message in three steps takes 10, 30 and 10 us: the second waits 20."""
        r = Recording().op("aten::add", 0, 1)
        for number, took in enumerate((10, 30, 10)):
            start = 100 * number
            r.step(number, start, start + 100).kernel(start + 5, start + 9, launched=start + 1)
            r.kernel(start + 20, start + 20 + took, launched=start + 10, name=REDUCE, message=1000)
        found = select(r.analysis(), Edit("scale_device", {"class": "collective_wait"}))
        assert starts(r.analysis(), found.device) == [120]
        assert found.time.tolist() == [20_000]

    def test_what_a_compiled_model_launches(self):
        """Not the optimizer's kernels, nor copies from the host, nor collectives; nor what another thread launches."""
        r = small().range("Optimizer.step#SGD.step", 20, 30).kernel(91, 92, launched=22)
        r.copy(UP, 92, 93, launched=40).kernel(93, 94, launched=50, name=REDUCE)
        r.kernel(94, 95, launched=60, thread="1/9").copy("Memcpy DtoD (Device -> Device)", 95, 96, launched=70)
        a = r.analysis()
        found = select(a, Edit("merge_launches", {"range": "step"}))
        assert starts(a, found.device) == [30, 95, 130]
        assert starts(a, found.launches, "host") == [12, 70, 112]
        assert starts(a, device(a, "merge_launches", range="Optimizer.step")) == [91]

    def test_a_call_that_launches_something_else_too_stays(self):
        """One launch of a graph runs both kernels; only the other conversion's call has nothing left to do."""
        r = Recording().step(0, 0, 100).op("aten::conv2d", 0, 30).kernel(40, 50, launched=1, name=GEMM)
        r.device.append((50_000, 55_000, Kind.KERNEL, "nchwToNhwcKernel", *r.device[-1][4:]))
        r.kernel(60, 65, launched=20, name="nhwcToNchwKernel")
        a = r.analysis()
        found = select(a, Edit("remove_device", {"class": "layout"}))
        assert starts(a, found.device) == [50, 60]
        assert starts(a, found.launches, "host") == [20]

    def test_of_a_search_the_algorithm_that_is_chosen_stays(self):
        """The second step's call tries five algorithms for 8 us each; an ordinary one takes 8."""
        r = Recording()
        for number, tried in enumerate((1, 5, 1)):
            start = 200 * number
            r.step(number, start, start + 200).op("aten::cudnn_convolution", start, start + 100, shapes="[[1]]")
            for i in range(tried):
                begin = start + 20 + 10 * i
                r.kernel(begin, begin + 8, launched=start + 1 + 10 * i, name=f"ampere_scudnn_128x{i}_relu")
        a = r.analysis()
        assert starts(a, device(a, "remove_device", **{"class": "conv_search"})) == [220, 230, 240, 250]

    def test_without_an_update_nothing_is_exchanged_again(self):
        """A backward pass with its exchange, and no Optimizer.step behind it."""
        r = small().op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 40, 60)
        a = r.kernel(91, 95, launched=45, name=REDUCE, message=1000).analysis()
        again = device(a, "remove_device", **{"class": "collective", "pass": "all but the last of an update"})
        assert len(device(a, **{"class": "collective"})) == 1
        assert not len(again)

    def test_a_batch_is_kernels_and_its_copies(self):
        """But for the optimizer's kernels and collectives, and for small copies."""
        r = small().range("Optimizer.step#SGD.step", 20, 30).kernel(91, 92, launched=22)
        r.copy(UP, 92, 93, launched=40).copy(UP, 93, 94, launched=50, size=8).kernel(94, 95, launched=60, name=REDUCE)
        assert starts(r.analysis(), select(r.analysis(), Edit("larger_batch", {})).device) == [30, 92, 130]

    def test_copies_that_are_not_known_to_be_pinned(self):
        r = small().copy(UP, 91, 92, launched=40).copy("Memcpy HtoD (Pinned -> Device)", 92, 93, launched=50)
        r.copy("Memcpy HtoD", 93, 94, launched=60).copy(DOWN, 94, 95, launched=70)
        a = r.analysis()
        assert starts(a, device(a, copy="HtoD", pinned=False)) == [91, 93]
        assert starts(a, device(a, "overlap_copies", copy="HtoD")) == [91, 92, 93]
        assert starts(a, device(a, **{"class": "copy"})) == [91, 92, 93, 94]


class TestLateRanks:
    def test_are_read_as_they_are_written(self):
        analyses = [small().analysis(rank=rank) for rank in range(12)]
        late = [1, 2, 3, 7, 11]
        text = named(np.array(late), analyses)
        assert text == "1-3, 7, 11"
        assert members(text) == set(late)
        assert members("") == set()

    def test_others_do_not_change(self):
        late, all_ranks = (Edit("scale_host", {"cause": "data_wait", **more}) for more in ({"rank": "late"}, {}))
        a = small().analysis(rank=2)
        assert [concerns(a, late, ranks) for ranks in ("1-3", "3", "")] == [True, False, True]
        assert concerns(a, all_ranks, "3")

    def test_of_one_the_edit_speaks_of_its_host(self):
        r = small().range(IN_PROCESS, 30, 60)
        assert scale_host(r.analysis(), cause="data_wait", rank="late") == [(30, 60)]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Return a function that simulates a job with a fault worth a seventh of its step, and finds it."""

    def job(fault, family, ranks=1):
        out = tmp_path_factory.mktemp("jobs") / "run"
        world.simulate(family, {fault: 0.15}, ranks=ranks, seed=1, steps=6, out=out)
        found = measure(load(out))
        fixes = [fix for finding in ask(found.measurements)[0] if finding.rule == fault for fix in finding.fixes]
        return found, fixes[0].edits

    return job


@pytest.mark.parametrize(
    ("fault", "family", "measured"),
    [
        ("compute.channels_last", "resnet", "layout_share"),
        ("compute.recompute", "gpt", "recompute_share"),
        ("compute.dtype_cast", "gpt", "cast_share"),
        ("compute.misaligned_dims", "gpt", "misaligned_share"),
        ("compute.fp32_no_tensorcore", "gpt", "fp32_share"),
        ("compute.zero_grad_fill", "bert", "zero_grad_share"),
    ],
)
def test_what_changes_is_what_was_measured(simulated, fault, family, measured):
    found, edits = simulated(fault, family)
    (a,) = found.analyses
    rows = select(a, edits[0]).device
    assert len(rows)
    assert a.device_share(rows) == pytest.approx(found.measurements.number(measured))


@pytest.mark.parametrize(
    ("fault", "cause"),
    [("input.workers_zero", "data_wait"), ("host.gc_pause", "gc"), ("pause.checkpoint_sync", "checkpoint")],
)
def test_a_pause_of_the_host_holds_the_idle_time_that_it_explains(simulated, fault, cause):
    found, edits = simulated(fault, "bert")
    (a,) = found.analyses
    host, idle = select(a, edits[0]).host, found.measurements.number(f"idle_{cause}_share")
    low, high = a.t.whole_window
    assert idle > 0.05
    assert clip(host, low, high).total >= idle * (high - low) * (1 - 1e-9)


def test_reads_are_as_many_as_were_put_in(simulated):
    """Seed 1 reads twice per step, each a copy and a wait behind it; the loss that is logged may be read beside it."""
    found, edits = simulated("sync.scalar_read", "bert")
    (a,) = found.analyses
    waits = select(a, edits[0]).waits
    assert 2 * 2 * 6 <= len(waits) <= 2 * 3 * 6
    assert set(a.t.host.thread[waits].tolist()) == {a.devices[0].crew[0]}


def test_gradients_are_exchanged_again_in_all_passes_but_the_last(simulated):
    found, edits = simulated("dist.accumulation_sync", "bert", ranks=2)
    m = found.measurements
    for a, part in zip(found.analyses, m.each("grad_sync_again_share"), strict=True):
        assert a.exposed_share(select(a, edits[0]).device) == pytest.approx(part.value)
