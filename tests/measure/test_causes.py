"""Each cause of idle time from the smallest recording that has it, with its length worked out by hand."""

from __future__ import annotations

import pytest

from tests.traces import AUTOGRAD, MAIN, US, Recording
from whyidle.measure.sanity import doubts
from whyidle.model.evidence import Kind
from whyidle.model.finding import CAUSES

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
READ_BACK = "Memcpy DtoH (Device -> Pageable)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def idle(recording, device=0):
    """Return the idle time of a device by cause, us."""
    (a,) = [a for a in recording.analysis().devices if a.device == device]
    assert sum(a.totals.values()) == a.high - a.low - a.busy.total
    return {cause: time / US for cause, time in a.totals.items() if time}


def late(thread=MAIN, **more):
    """One gap, 200-1000 us. The host launches at 990, so 790 us are the host's and 10 us are launch latency."""
    r = Recording()
    r.op("aten::add", 80, 100).kernel(100, 200, launched=90)
    return r.kernel(1000, 1100, launched=990, thread=thread, **more)


def warm():
    """Five gaps of 10 us, each 5 us host and 5 us latency, so that a usual launch takes 5 us. Ends at 110 us."""
    r = Recording().op("aten::add", 0, 1)
    for i in range(6):
        r.kernel(i * 20, i * 20 + 10, launched=max(i * 20 - 5, 0), took=3)
    return r


WARM = {"python": 25, "launch_latency": 25}


@pytest.mark.parametrize(
    ("cause", "kind", "name"),
    [
        ("data_wait", "range", LOADER),
        ("data_wait", "range", "## load_batch ##"),
        ("data_wait", "python", "torch/utils/data/dataloader.py(701): __next__"),
        ("checkpoint", "python", "torch/serialization.py(850): save"),
        ("checkpoint", "range", "save_checkpoint"),
        ("evaluation", "range", "validation_step"),
        ("evaluation", "python", "train.py(90): evaluate"),
        ("logging", "python", "wandb/sdk/wandb_run.py(1700): log"),
        ("sync_return", "call", "cudaDeviceSynchronize"),
        ("allocator", "call", "cudaMalloc"),
        ("gc", "python", "<built-in function collect>"),
        ("compile", "range", "compile_fx_inner (dynamo_timed)"),
        ("compile", "call", "cuModuleLoadData"),
        ("optimizer_host", "range", "Optimizer.step#SGD.step"),
        ("autograd_host", "op", "AddmmBackward0"),
        ("dispatch", "op", "aten::mul"),
        ("dispatch", "call", "cudaFuncSetAttribute"),
        # names that stand for nothing special
        ("python", "range", "checkpoint_wrapper"),
        ("dispatch", "op", "CheckpointFunction"),
        ("python", "python", "torch/nn/modules/module.py(2600): eval"),
        ("python", "range", "forward"),
        ("python", "python", "train.py(3): main"),
    ],
)
def test_what_the_host_did_before_it_launched(cause, kind, name):
    """The slice covers 150-950 us, of the gap 750 us; the 40 us up to the launch are bare Python."""
    r = late()
    getattr(r, kind)(name, 150, 950)
    if cause == "compile" and kind == "call":
        assert idle(r) == {"compile": 750, "python": 40, "launch_latency": 10}
    elif cause == "python":
        assert idle(r) == {"python": 790, "launch_latency": 10}
    else:
        assert idle(r) == {cause: 750, "python": 40, "launch_latency": 10}


def test_nothing_recorded_of_the_host_is_not_python():
    """Without operators and frames there is no telling Python from dispatch: 790 us of unknown."""
    r = Recording().kernel(100, 200, launched=90).kernel(1000, 1100, launched=990)
    assert idle(r) == {"unknown": 790, "launch_latency": 10}


def test_an_operation_whose_launch_was_not_recorded():
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90).kernel(1000, 1100, launched=None)
    assert idle(r) == {"unknown": 800}


@pytest.mark.parametrize(
    ("cause", "start", "more"),
    [
        ("kernel_gap", 230, {}),  # 30 us, the limit
        ("queue_stall", 231, {}),
        ("stream_wait", 208, {"stream": 9}),  # 8 us, the limit
        ("kernel_gap", 209, {"stream": 9}),
        ("kernel_gap", 208, {}),  # the same stream waits for nothing
        ("peer_wait", 900, {"name": NCCL}),
        ("queue_stall", 900, {}),
    ],
)
def test_launched_in_time_and_yet_idle(cause, start, more):
    """The second kernel was launched at 150 us, before the first ended at 200."""
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90)
    r.kernel(start, start + 50, launched=150, **more)
    assert idle(r) == {cause: start - 200}


def test_h2d_preparation_is_the_operator_around_the_copy():
    """aten::copy_ runs 300-1005 and launches at 990: 690 us are preparation, 100 before it Python, 10 latency."""
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90)
    r.op("aten::copy_", 300, 1005).copy(PAGEABLE, 1000, 1100, launched=990)
    assert idle(r) == {"h2d_prep": 690, "python": 100, "launch_latency": 10}


@pytest.mark.parametrize(
    ("expected", "took", "more"),
    [
        ({"dispatch": 400 - 50}, 400, {}),
        ({"compile": 1500 - 50}, 1500, {}),
        ({"h2d_prep": 1500 - 50}, 1500, {"name": PAGEABLE}),
    ],
)
def test_a_launch_call_that_takes_long(expected, took, more):
    """Launched at 150 us, 40 after the last kernel ended. The first 50 us count as latency, five usual ones at least;
    what the call takes beyond is no launch; 10 us later the operation starts."""
    r = warm()
    add = r.copy if more else r.kernel
    start = 150 + took + 10
    add(*more.values(), start, start + 50, launched=150, took=took)
    wanted = {**expected, "python": 25 + 40, "launch_latency": 25 + 50 + 10}
    assert idle(r) == wanted


def test_a_launch_that_returned_long_before_its_kernel_started():
    """Launched at 150, returned at 155: 50 us are latency at most, the 750 after it a stall."""
    r = warm().kernel(950, 1000, launched=150, took=5)
    assert idle(r) == {"python": 65, "launch_latency": 25 + 50, "queue_stall": 750}


@pytest.mark.parametrize(("took", "cause"), [(500, "dispatch"), (2000, "compile")])
def test_a_launch_call_that_began_before_the_gap_and_returned_inside_it(took, cause):
    """The call runs from 100 us, the GPU is dry from 110 on; after the call returned it takes 10 us."""
    r = warm().kernel(100 + took + 10, 100 + took + 50, launched=100, took=took)
    assert idle(r) == {"python": 25, "launch_latency": 25 + 10, cause: took - 10}


class TestPriority:
    def test_a_loader_that_uses_operators_is_a_loader(self):
        r = late().range(LOADER, 150, 950)
        for start in range(200, 900, 100):
            r.op("aten::stack", start, start + 90)
        assert idle(r) == {"data_wait": 750, "python": 40, "launch_latency": 10}

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("range", "validation"), ("range", "Optimizer.step#SGD.step")),
            (("range", LOADER), ("call", "cudaStreamSynchronize")),
            (("range", LOADER), ("range", "validation")),
            (("call", "cudaMalloc"), ("op", "aten::empty")),
            (("range", "Optimizer.step#SGD.step"), ("op", "aten::_foreach_add_")),
        ],
    )
    def test_the_first_cause_that_applies(self, first, second):
        """Both cover 300-900: 600 us of the more telling one, never of both."""
        r = late()
        for kind, name in (first, second):
            getattr(r, kind)(name, 300, 900)
        alone = late()
        getattr(alone, first[0])(first[1], 300, 900)
        assert idle(r) == idle(alone)

    def test_what_the_launching_thread_does_wins_over_autograd(self):
        """Main dispatches 200-600 itself; autograd runs operators 200-900, which count after."""
        r = late().op("aten::mul", 200, 600).op("AddmmBackward0", 200, 900, thread=AUTOGRAD)
        assert idle(r) == {"dispatch": 400, "autograd_host": 300, "python": 90, "launch_latency": 10}

    def test_a_thread_that_only_prefetches_holds_up_nobody(self):
        """Main runs Python 200-990. A prefetcher sits in its loader meanwhile, a batch ahead, and launches a copy."""
        r = late().kernel(1000, 1100, launched=995).kernel(1200, 1300, launched=1195)
        r.copy("Memcpy HtoD (Pinned -> Device)", 1400, 1410, launched=1350, thread="1/9").range(
            LOADER, 200, 1340, thread="1/9"
        )
        assert "data_wait" not in idle(r)

    def test_a_step_that_is_given_a_closure_is_not_all_optimizer(self):
        """Lightning passes one: forward and backward run inside Optimizer.step, and are what they are elsewhere."""
        r = late().range("Optimizer.step#AdamW.step", 150, 1200).op("aten::mul", 200, 300)
        r.op("AddmmBackward0", 400, 500).range("Optimizer.zero_grad#AdamW.zero_grad", 600, 700)
        wanted = {"dispatch": 100, "autograd_host": 100, "optimizer_host": 100, "python": 490, "launch_latency": 10}
        assert idle(r) == wanted

    def test_a_thread_that_launches_nothing_does_not_count(self):
        r = late().range(LOADER, 200, 900, thread="1/7")
        assert idle(r) == {"python": 790, "launch_latency": 10}

    def test_autograd_launches_while_main_waits_for_it(self):
        """autograd runs operators 300-995 on its own thread; main only waits in a range of its own."""
        r = late(thread=AUTOGRAD)
        r.range("## backward ##", 190, 1200).op("AddmmBackward0", 300, 995, thread=AUTOGRAD)
        assert idle(r) == {"autograd_host": 690, "python": 100, "launch_latency": 10}

    def test_main_loads_while_autograd_has_nothing_to_do(self):
        """The launch comes from autograd at 990, but until 900 main was in the loader."""
        r = late(thread=AUTOGRAD).range(LOADER, 200, 900).op("AddmmBackward0", 950, 995, thread=AUTOGRAD)
        assert idle(r) == {"data_wait": 700, "autograd_host": 40, "python": 50, "launch_latency": 10}


NODE = "autograd::engine::evaluate_function: AddmmBackward0"


class TestBetweenNodes:
    """autograd launches at 95, 990 and 1195 from a thread of its own; main is in backward() all along."""

    def nodes(self):
        r = Recording().op("aten::add", 0, 10).kernel(0, 20, launched=5).range("## backward ##", 60, 1400)
        r.op(NODE, 80, 150, AUTOGRAD).kernel(100, 200, launched=95, thread=AUTOGRAD)
        return r.op(NODE, 980, 1000, AUTOGRAD).kernel(1000, 1100, launched=990, thread=AUTOGRAD)

    def test_is_the_backward_passs_own(self):
        """Of the gap 200-1000, 780 us lie before the second node; 60 us before the first are main's Python."""
        wanted = {"autograd_host": 780 + 10 + 15, "python": 60, "launch_latency": 5 + 10}
        assert idle(self.nodes()) == wanted

    @pytest.mark.parametrize(
        ("kind", "name"),
        [(Kind.OP, "aten::add"), (Kind.RUNTIME, "cudaEventQuery"), (Kind.RANGE, "step 2"), (Kind.PYTHON, "f.py(1): g")],
    )
    def test_not_where_another_thread_of_the_crew_begins_something(self, kind, name):
        """It takes 1 us, but shows that the main thread does not wait for one backward pass."""
        found = idle(self.nodes().slice(kind, name, 500, 501))
        assert found["python"] >= 60 + 779

    def test_threads_that_drive_nothing_may_do_what_they_like(self):
        assert idle(self.nodes().op("aten::stack", 500, 600, "1/9")) == idle(self.nodes())

    def test_what_the_main_thread_is_in_comes_first(self):
        """It collects garbage 70-700, since before the gap; from 700 on autograd is between nodes."""
        found = idle(self.nodes().range("gc.collect", 70, 700))
        assert (found["gc"], found["autograd_host"]) == (500 + 10, 280 + 10 + 15)

    def test_a_thread_that_also_runs_forward_is_no_engine(self):
        r = self.nodes()
        for start in range(1300, 1400, 10):
            r.op("aten::mul", start, start + 5, AUTOGRAD)
        assert idle(r)["python"] >= 780


class TestSync:
    def test_only_what_the_call_takes_after_the_gpu_finished_is_its_return(self):
        """The host stands in the call 120-600; the GPU works until 200."""
        r = late().call("cudaStreamSynchronize", 120, 600)
        assert idle(r) == {"sync_return": 400, "python": 390, "launch_latency": 10}

    def test_a_read_back_blocks_though_its_name_says_async(self):
        """cudaMemcpyAsync to pageable memory returns at 700, the copy ended at 210."""
        r = late().copy(READ_BACK, 200, 210, launched=110, took=590)
        assert idle(r) == {"sync_return": 490, "python": 290, "launch_latency": 10}

    def test_a_copy_to_the_gpu_is_preparation_also_by_a_blocking_call(self):
        """hipMemcpyWithStream from pageable memory, called at 120, back at 700; the copy ran 200-210."""
        r = late().copy(PAGEABLE, 200, 210, launched=120, took=580, call="hipMemcpyWithStream")
        assert idle(r) == {"h2d_prep": 490, "python": 290, "launch_latency": 10}


class TestWindow:
    def test_gaps_at_both_ends(self):
        """The window is the step, 0-2000. Loader until 80, an operator until the launch at 90; logging 1100-1500."""
        r = late().step(1, 0, 2000).range(LOADER, 0, 80).range("log_metrics", 1100, 1500)
        assert idle(r) == {"data_wait": 80, "dispatch": 10, "python": 790 + 500, "logging": 400, "launch_latency": 20}

    def test_the_end_is_unknown_where_nothing_was_launched(self):
        r = Recording().op("aten::add", 0, 10).step(1, 0, 1000).kernel(100, 200)
        assert idle(r) == {"unknown": 900}

    def test_operations_that_straddle_the_window_count_inside_it(self):
        """Busy 100-150 and 450-500 of 100-500; the first was launched before the window began."""
        r = Recording().op("aten::add", 40, 50).step(1, 100, 500)
        r.kernel(60, 150, launched=50).kernel(450, 600, launched=440)
        assert idle(r) == {"python": 290, "launch_latency": 10}

    def test_an_operation_launched_before_the_window_is_not_the_hosts_fault(self):
        r = Recording().op("aten::add", 40, 50).step(1, 100, 500).kernel(300, 500, launched=50)
        assert idle(r) == {"queue_stall": 200}

    def test_all_work_lies_outside_the_window(self):
        r = Recording().op("aten::add", 0, 10).step(1, 1000, 2000).kernel(100, 200, launched=90)
        assert idle(r) == {"python": 1000}


def test_a_device_waits_while_another_of_its_process_works():
    """GPU 0 is busy 100-900 and hands its result to GPU 1, which waits 200-910, whatever the host does meanwhile."""
    r = Recording().kernel(100, 890, launched=90).kernel(100, 200, launched=95, device=1)
    r.copy("Memcpy PtoP (Device -> Device)", 890, 900, launched=92)
    r.op("aten::mul", 210, 600).kernel(910, 1000, launched=905, device=1)
    assert idle(r, 0) == {}
    assert idle(r, 1) == {"peer_wait": 700, "python": 5, "launch_latency": 5}


def test_that_another_device_works_does_not_make_this_one_wait_for_it():
    """Nothing passes between the two: the host feeds GPU 1 late, and that GPU 0 is busy is no excuse."""
    r = Recording().kernel(100, 1100, launched=90).kernel(100, 200, launched=95, device=1)
    r.op("aten::mul", 210, 990).kernel(1000, 1100, launched=990, device=1)
    assert idle(r, 1) == {"python": 10, "dispatch": 780, "launch_latency": 10}


def test_what_lies_between_steps_that_do_not_follow_was_not_recorded():
    """The profiler was off from 1000 to 9000: nobody knows what the host did."""
    r = Recording().step(0, 0, 1000).step(9, 9000, 10000).op("aten::mul", 0, 5)
    for start in (10, 9010):
        r.kernel(start, start + 980, launched=start - 5)
    found = idle(r)
    assert found["unknown"] == 8000


def test_kernels_of_a_graph_share_a_launch():
    """cudaGraphLaunch at 190 starts three kernels. The host was late for the first (late gap 100-200); the gaps
    between the others are the GPU's own: 20 us, and 100 us that nobody explains."""
    r = Recording().op("aten::add", 0, 10).kernel(50, 100, launched=40)
    r.kernel(200, 210, launched=190, call="cudaGraphLaunch")
    graph = r.correlation
    for start in (230, 340):
        r.kernel(start, start + 10, launched=None)
        r.device[-1] = (*r.device[-1][:6], graph, *r.device[-1][7:])
    assert idle(r) == {"python": 90, "launch_latency": 10, "kernel_gap": 20, "queue_stall": 100}


def test_device_times_are_shifted_until_nothing_starts_before_its_launch():
    """Kernels start 3 us before their launch, so device times go up by 8: then a launch takes 5 us."""
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90).kernel(1000, 1100, launched=1003)
    r.kernel(1100, 1200, launched=1103).kernel(1200, 1300, launched=1203)
    analysis = r.analysis()
    assert analysis.t.clock_offsets == {0: 8 * US}
    assert idle(r) == {"python": 795, "launch_latency": 5}
    assert any("ahead of the host's" in doubt.message for doubt in doubts(analysis))


def test_clocks_that_agree_to_a_microsecond_are_left_alone():
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90).kernel(1000, 1100, launched=1000.5)
    assert r.analysis().t.clock_offsets == {0: 0}


def test_of_operations_that_start_together_the_one_launched_first_ends_the_gap():
    """Both start at 1000. The one launched at 150 was there before the gap, so the host was not late."""
    r = Recording().op("aten::add", 80, 100).kernel(100, 200, launched=90)
    r.kernel(1000, 1100, launched=990, stream=8).kernel(1000, 1100, launched=150, stream=7)
    assert idle(r) == {"queue_stall": 800}


def test_latency_is_the_median_of_late_launches():
    """Latencies of 5 us five times, and one of 40: the median is 5."""
    (a,) = warm().kernel(200, 210, launched=160).analysis().devices
    assert a.latency == 5 * US


def test_every_cause_has_a_test():
    names = {row[0] for mark in test_what_the_host_did_before_it_launched.pytestmark for row in mark.args[1]}
    names |= {row[0] for mark in test_launched_in_time_and_yet_idle.pytestmark for row in mark.args[1]}
    assert names | {"h2d_prep", "launch_latency", "unknown"} == set(CAUSES)
