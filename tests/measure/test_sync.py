"""Waits of the host for the GPU: what kind each is, and what idle time behind it would go away without it."""

from __future__ import annotations

import pytest

from tests.traces import AUTOGRAD, Recording, measured
from whyidle.measure import questions
from whyidle.measure.sync import MEASURED, find, held_up
from whyidle.model.evidence import Kind

READ_BACK = "Memcpy DtoH (Device -> Pageable)"
UPLOAD = "Memcpy HtoD (Pageable -> Device)"


def waits(recording):
    """Return (number, lost share) of each kind that occurs."""
    a = recording.analysis()
    m, kinds = measured(a), list(find(a).kind)
    both = {kind: (kinds.count(kind), m[f"sync_{kind}_lost_share"]) for kind in MEASURED}
    return {kind: values for kind, values in both.items() if values != (0, 0)}


def busy(until=200):
    """The GPU works 0-200 on what was launched before."""
    return Recording().op("aten::add", -20, -10).kernel(0, until, launched=-15)


def read(r, start, end, copied, *operators):
    """A read in operators around each other: a copy of 5 us that the GPU makes at `copied`, then a wait for it."""
    for depth, name in enumerate(operators):
        r.op(name, start + depth * 0.1, end - depth * 0.1)
    r.copy(READ_BACK, copied, copied + 5, launched=start + 1, took=4, size=4)
    return r.call("cudaStreamSynchronize", start + 5, end - 1)


def item(r, start, end, copied):
    return read(r, start, end, copied, "aten::item", "aten::_local_scalar_dense")


class TestLoss:
    def test_is_the_idle_time_behind(self):
        """The host stands 21-205 while the GPU works, and launches at 300: idle 205-300. It stood longer, so all of
        these 95 us go away, of 400. The copy and the wait are one read."""
        r = item(busy(), 20, 211, copied=200).kernel(310, 400, launched=300)
        assert waits(r) == {"scalar": (1, pytest.approx(95 / 400))}

    def test_is_bounded_by_the_time_that_the_host_stood(self):
        """It comes at 190 and stands, with the GPU at work, 191-195 and 195-205: 14 us of the 95."""
        r = item(busy(), 190, 211, copied=200).kernel(310, 400, launched=300)
        assert waits(r) == {"scalar": (1, pytest.approx(14 / 400))}

    def test_there_is_none_without_idle_time(self):
        """Work on another stream outlasts the read and what the host does after it."""
        r = item(busy(), 20, 211, copied=200).kernel(0, 400, launched=-12, stream=9)
        assert waits(r.kernel(400, 410, launched=300)) == {"scalar": (1, 0)}

    def test_a_call_that_does_not_wait_costs_nothing(self):
        """2 us with the GPU at work are what any call takes."""
        r = busy().op("aten::item", 150, 153).call("cudaStreamSynchronize", 151, 153).kernel(310, 400, launched=300)
        assert waits(r) == {"scalar": (1, 0)}

    def test_latency_and_time_on_the_queue_are_not_the_hosts(self):
        """The next kernel was launched at 15, before the wait, and started late: nobody's read did that."""
        r = item(busy(), 20, 211, copied=200).kernel(310, 400, launched=15)
        assert waits(r) == {"scalar": (1, 0)}

    @pytest.mark.parametrize(
        ("second", "expected"),
        [
            # without both reads the host would be 150 us ahead: all 120 us go away
            ("aten::item", {"scalar": (2, pytest.approx(0.4))}),
            # the other wait stays, and takes up what the first would have won
            ("aten::nonzero", {"scalar": (1, 0), "data_dependent": (1, pytest.approx(50 / 300))}),
        ],
    )
    def test_a_lead_adds_up_over_reads_of_one_kind(self, second, expected):
        """Waits 0-100 and 100-150 with the GPU at work; it idles 150-280, launched at 270."""
        r = busy(100).kernel(100, 150, launched=-12)
        r.op("aten::item", 0, 100).call("cudaStreamSynchronize", 0, 100)
        r.op(second, 100, 150).call("cudaStreamSynchronize", 100, 150)
        assert waits(r.kernel(280, 300, launched=270)) == expected

    def test_the_end_of_the_window_counts(self):
        """The step goes on to 400, and nothing is launched after the read: 195 us, of which it stood 184."""
        r = item(busy().step(1, 0, 400), 20, 211, copied=200)
        assert waits(r) == {"scalar": (1, pytest.approx(184 / 400))}

    def test_places_are_frames_where_there_are_any(self):
        def where(r):
            (lost,) = [m for m in questions(r.analysis()) if m.name == "sync_scalar_lost_share"]
            return [place.name for place in lost.locations]

        r = item(busy(), 20, 211, copied=200).kernel(310, 400, launched=300)
        assert where(r) == ["aten::_local_scalar_dense"]
        assert where(r.python("train.py(12): step", 0, 300)) == ["train.py(12): step"]


class TestKind:
    @pytest.mark.parametrize(
        ("operators", "kind"),
        [
            (["aten::item", "aten::_local_scalar_dense"], "scalar"),
            (["aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"], "data_dependent"),  # if t:
            (["aten::to", "aten::_to_copy", "aten::copy_"], "readback"),  # .cpu()
            (["aten::index", "aten::nonzero"], "data_dependent"),  # x[mask]
            (["aten::masked_select"], "data_dependent"),
            (["aten::repeat_interleave", "aten::item", "aten::_local_scalar_dense"], "data_dependent"),
        ],
    )
    def test_by_operator(self, operators, kind):
        r = read(busy(), 20, 211, 200, *operators).kernel(310, 400, launched=300)
        assert waits(r) == {kind: (1, pytest.approx(95 / 400))}

    def test_a_blocking_copy_without_a_wait(self):
        """hipMemcpyWithStream stands 21-205 by itself."""
        r = busy().op("aten::_local_scalar_dense", 20, 211)
        r.copy(READ_BACK, 200, 205, launched=21, took=189, call="hipMemcpyWithStream", size=4)
        assert waits(r.kernel(310, 400, launched=300)) == {"scalar": (1, pytest.approx(95 / 400))}

    def test_outside_operators_it_is_a_framework(self):
        r = busy().call("cudaDeviceSynchronize", 20, 205).kernel(310, 400, launched=300)
        assert waits(r) == {"framework": (1, pytest.approx(100 / 400))}

    @pytest.mark.parametrize(("size", "kinds"), [(65537, ["upload"]), (65536, [])])
    def test_uploads(self, size, kinds):
        """A copy from pageable memory stands behind the work queued before it, 21-210; small ones are transfer's."""
        r = busy().op("aten::copy_", 20, 215).copy(UPLOAD, 200, 210, launched=21, took=190, size=size)
        assert list(waits(r.kernel(310, 400, launched=300))) == kinds

    @pytest.mark.parametrize("frame", [True, False])
    def test_gradient_clipping(self, frame):
        """By its frame; without frames as a read after backward and before the optimizer, a norm in between."""
        r = busy().op("AddmmBackward0", 0, 10, AUTOGRAD)
        if frame:
            r.python("torch/nn/utils/clip_grad.py(43): clip_grad_norm_", 15, 250)
        else:
            r.op("aten::linalg_vector_norm", 15, 18).range("Optimizer.step#SGD.step", 250, 290)
        r = item(r, 20, 211, copied=200).kernel(310, 400, launched=300)
        assert list(waits(r)) == ["grad_clip"]

    @pytest.mark.parametrize("lacking", ["norm", "step", "backward before"])
    def test_any_other_read_is_no_clipping(self, lacking):
        r = busy().op("AddmmBackward0", *((0, 10) if lacking != "backward before" else (220, 230)), AUTOGRAD)
        if lacking != "norm":
            r.op("aten::linalg_vector_norm", 15, 18)
        if lacking != "step":
            r.range("Optimizer.step#SGD.step", 250, 290)
        r = item(r, 20, 211, copied=200).kernel(310, 400, launched=300)
        assert list(waits(r)) == ["scalar"]


def test_per_step():
    """Three reads in two steps, and one after them."""
    r = busy(900).step(1, 0, 400).step(2, 400, 800)
    for start in (50, 150, 450, 850):
        r.op("aten::item", start, start + 20).call("cudaStreamSynchronize", start + 1, start + 19)
    assert measured(r.analysis())["sync_scalar_per_step"] == 1.5


def test_without_steps_nothing_is_counted_per_step():
    m = measured(item(busy(), 20, 211, copied=200).kernel(310, 400, launched=300).analysis())
    assert "sync_scalar_lost_share" in m
    assert not [name for name in m if name.endswith("_per_step")]


@pytest.mark.parametrize(("size", "kind"), [(4, "scalar"), (16, "scalar"), (4096, "readback")])
def test_without_operators_a_read_is_told_by_what_it_copies(size, kind):
    """The host stands from 20 to 210 for a copy that ends at 205, and launches 100 after it."""
    r = Recording().kernel(0, 200, launched=-5)
    r = r.copy("Memcpy DtoH (Device -> Pageable)", 201, 205, launched=20, size=size)
    r = r.call("cudaStreamSynchronize", 30, 210).kernel(310, 400, launched=300)
    m = measured(r.analysis())
    assert m[f"sync_{kind}_lost_share"] > 0.2
    assert m[f"sync_{'readback' if kind == 'scalar' else 'scalar'}_lost_share"] == 0


def test_without_operators_a_wait_that_copies_nothing_is_nobodys_read():
    r = Recording().kernel(0, 200, launched=-5).call("cudaStreamSynchronize", 20, 210).kernel(310, 400, launched=300)
    m = measured(r.analysis())
    assert m["sync_scalar_lost_share"] == m["sync_readback_lost_share"] == 0
    assert m["sync_framework_lost_share"] == pytest.approx(100 / 400)


def test_without_calls_nothing_is_known_of_waits():
    assert "sync_scalar_lost_share" not in measured(Recording().kernel(0, 200).kernel(310, 400).analysis())


def test_devices_lose_on_their_own():
    """Both GPUs run dry at 200 while the host stands 20-200, and get work launched at 300: 100 us of 400 each."""
    r = busy().kernel(0, 200, launched=-12, device=1).op("aten::item", 20, 201).call("cudaStreamSynchronize", 20, 200)
    for device in (0, 1):
        r.kernel(310, 400, launched=300, device=device)
    assert waits(r)["scalar"] == (1, pytest.approx(100 / 400))


def test_what_a_read_costs_is_no_more_than_the_busiest_device_leaves():
    """GPU 0 works all the time: without the read that GPU 1 is idle behind, no step would be shorter."""
    r = item(busy(), 20, 211, copied=200).kernel(310, 400, launched=300)
    alone = waits(r)["scalar"][1]
    r.kernel(-15, 400, launched=-18, device=1)
    assert alone > 0
    assert waits(r) == {"scalar": (1, 0)}


LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@pytest.mark.parametrize(
    ("kind", "name", "cause"),
    [
        (Kind.RANGE, LOADING, "data_wait"),
        (Kind.RANGE, "save_checkpoint", "checkpoint"),
        (Kind.RANGE, "evaluate", "evaluation"),
        (Kind.RANGE, "log_metrics", "logging"),
        (Kind.RANGE, "gc.collect", "gc"),
        (Kind.RANGE, "torch.compile", "compile"),
        (Kind.RUNTIME, "cudaMalloc", "allocator"),
    ],
)
def test_a_read_leaves_loading_and_pauses_to_the_rules_about_them(kind, name, cause):
    """The host stands 21-205, loads or pauses 212-302, and launches at 312: of 107 us of idle time that has 90."""
    r = item(busy(), 20, 211, copied=200).slice(kind, name, 212, 302)
    m = measured(r.kernel(322, 400, launched=312).analysis())
    assert m["sync_scalar_lost_share"] == m["sync_host_share"] == pytest.approx(17 / 400)
    assert m[f"idle_{cause}_share"] == pytest.approx(90 / 400)


@pytest.mark.parametrize(
    ("kind", "name"), [(Kind.RANGE, "save_checkpoint"), (Kind.RANGE, "evaluate"), (Kind.RUNTIME, "cudaFree")]
)
def test_a_wait_inside_a_pause_is_part_of_it(kind, name):
    """The pause ends at 220; of the 80 us from there to the launch at 300 no wait of the program speaks."""
    r = busy().slice(kind, name, 15, 220).call("cudaStreamSynchronize", 20, 205)
    assert waits(r.kernel(310, 400, launched=300)) == {}


@pytest.mark.parametrize(("starts", "limited"), [(1000, 0.0), (8000, 1.0)])
def test_a_long_launch_shows_a_full_queue_only_if_its_work_starts_much_later(starts, limited):
    """A launch of 2 ms on an idle GPU is the host's own slowness; behind a full queue it is the GPU's."""
    r = Recording().op("aten::add", -20, -10)
    for start in range(0, 40, 10):
        r.kernel(start, start + 10, launched=start - 5)
    r.kernel(40, max(starts, 3000), launched=35).kernel(max(starts, 3000) + 500, 9000, launched=500, took=2000)
    assert "gpu_limited_share" in measured(r.analysis())
    found = held_up(r.analysis())
    assert len(found) == (1 if limited else 0)
