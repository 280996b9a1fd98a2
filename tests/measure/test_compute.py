"""What the GPU computes: by the names of kernels, the shapes of operators, and who launched what."""

from __future__ import annotations

import pytest

from tests.traces import AUTOGRAD, Recording, measured
from whyidle.measure.compute import is_misaligned, tensor_units
from whyidle.model.evidence import Gpu

SGEMM = "ampere_sgemm_128x64_tn"
HALF = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"
BF16 = '["c10::BFloat16","c10::BFloat16"]'


def test_shares_by_class_of_kernel():
    """Of 100 us: 40 fp32 products, 20 fp16 ones, 10 elementwise, 30 layout. Tensor cores: 20 of 60."""
    r = Recording().kernel(0, 40, name=SGEMM).kernel(40, 60, name=HALF).kernel(60, 70, name=ADD)
    m = measured(r.kernel(70, 100, name=LAYOUT).analysis())
    assert m["matmul_share"] == pytest.approx(0.6)
    assert m["tensor_core_share"] == pytest.approx(1 / 3)
    assert m["elementwise_share"] == pytest.approx(0.1)
    assert m["layout_share"] == pytest.approx(0.3)
    assert m["compiled"] is False


def test_tensor_cores_of_no_matrix_product_are_not_measured():
    assert "tensor_core_share" not in measured(Recording().kernel(0, 10, name=ADD).analysis())


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("triton_poi_fused_add_0", "kernel", True),
        ("Torch-Compiled Region: 0/0", "op", True),
        ("cudaGraphLaunch", "call", False),  # a graph of one's own is no torch.compile
        ("aten::add", "op", False),
    ],
)
def test_compiled(name, kind, expected):
    r = Recording().kernel(0, 10, name=name) if kind == "kernel" else Recording().kernel(0, 10)
    if kind != "kernel":
        getattr(r, kind)(name, 0, 5)
    assert measured(r.analysis())["compiled"] is expected


@pytest.mark.parametrize(
    ("gpus", "units"),
    [
        ([Gpu(0, "Tesla P100-PCIE-16GB", 56, (6, 0))], "none"),
        ([Gpu(0, "Tesla V100-SXM2-16GB", 80, (7, 0))], "fp16"),
        ([Gpu(0, "Tesla T4", 40, (7, 5))], "fp16"),
        ([Gpu(0, "NVIDIA A100-SXM4-80GB", 108, (8, 0))], "tf32"),
        ([Gpu(0, "NVIDIA H100", 132, (9, 0)), Gpu(1, "Tesla V100", 80, (7, 0))], "fp16"),  # the lesser of the two
        ([Gpu(0, "AMD Instinct MI300X", 304, None)], "tf32"),
        ([Gpu(0, "AMD Instinct MI210", 104, None)], ""),
        ([Gpu(0)], ""),
        ([], ""),
    ],
)
def test_what_a_gpu_offers_fp32_work(gpus, units):
    assert tensor_units(tuple(gpus)) == units


class TestUnderfilled:
    def test_time_times_empty_multiprocessors(self):
        """Window 100 us: 40 us at a quarter of the blocks (30 us empty), 60 us with more than enough."""
        m = measured(Recording().kernel(0, 40, blocks=0.25).kernel(40, 100, blocks=3.0).analysis())
        assert m["underfilled_share"] == pytest.approx(0.3)

    def test_kernels_beside_each_other_fill_the_gpu_together(self):
        """Four streams at 0.2 blocks each, all 0-100: 0.8 filled, 0.2 empty; not four times 0.8."""
        r = Recording()
        for stream in range(4):
            r.kernel(0, 100, blocks=0.2, stream=stream)
        assert measured(r.analysis())["underfilled_share"] == pytest.approx(0.2)

    def test_kernels_that_overlap_in_part(self):
        """0-50 and 25-75 at 0.5: empty 0.5 in 0-25 and 50-75, none between; the window is 100 with 25 idle."""
        r = Recording().kernel(0, 50, blocks=0.5).kernel(25, 75, blocks=0.5, stream=8).kernel(99, 100, blocks=1)
        assert measured(r.analysis())["underfilled_share"] == pytest.approx(0.25)

    def test_only_inside_the_window(self):
        """The step is 100-200; of the kernel 50-150 half lies in it, at 0.5."""
        r = Recording().step(1, 100, 200).kernel(50, 150, blocks=0.5).kernel(150, 200)
        assert measured(r.analysis())["underfilled_share"] == pytest.approx(0.25)

    def test_collectives_are_small_on_purpose(self):
        r = Recording().kernel(0, 50, blocks=0.1, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL").kernel(50, 100)
        assert measured(r.analysis())["underfilled_share"] == 0

    def test_a_recording_that_does_not_say_is_not_measured(self):
        r = Recording().kernel(0, 50).kernel(50, 100, blocks=float("nan"))
        assert "underfilled_share" not in measured(r.analysis())

    def test_devices_are_weighted_by_their_windows(self):
        """GPU 0: 100 us at 0.5; GPU 1: 100 us full. 50 of 200 us."""
        r = Recording().kernel(0, 100, blocks=0.5).kernel(0, 100, device=1)
        assert measured(r.analysis())["underfilled_share"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("shapes", "types", "expected"),
    [
        ("[[64,512],[512,50257]]", BF16, True),
        ("[[64,512],[512,50304]]", BF16, False),
        ("[[30,512],[512,512]]", BF16, True),
        ("[[512],[64,512],[512,512],[],[]]", '["c10::Half","c10::Half","c10::Half","Scalar","Scalar"]', False),
        ("[[513],[64,512],[512,512]]", '["c10::Half"]', False),  # a bias has one dimension: no operand of the product
        ("[[5,64,512],[5,512,64]]", BF16, False),  # of a batch the number of products may be any
        ("[[64,512],[512,50257]]", '["float","float"]', False),
        ("[]", BF16, False),
        ("", "", False),
    ],
)
def test_alignment(shapes, types, expected):
    assert is_misaligned(shapes, types) == expected


def test_misaligned_share_is_the_time_of_the_products_kernels():
    """Of 100 us 25 belong to the product with 50257 columns."""
    r = Recording().op("aten::mm", 0, 10, shapes="[[8,64],[64,50257]]", types=BF16).kernel(20, 45, launched=5)
    r.op("aten::mm", 10, 20, shapes="[[8,64],[64,64]]", types=BF16).kernel(45, 120, launched=15)
    assert measured(r.analysis())["misaligned_share"] == pytest.approx(0.25)


def test_the_product_counts_that_is_computed_not_the_call_around_it():
    """linear sees 197 rows in each of 8 items; what it computes has all 8 x 197 = 1576 rows, a multiple of 8."""
    r = Recording().op("aten::linear", 0, 10, shapes="[[8,197,768],[768,768]]", types=BF16)
    r.op("aten::mm", 1, 9, shapes="[[1576,768],[768,768]]", types=BF16).kernel(20, 120, launched=5)
    assert measured(r.analysis())["misaligned_share"] == 0


def test_misalignment_needs_shapes():
    r = Recording().op("aten::mm", 0, 10).kernel(20, 120, launched=5)
    assert "misaligned_share" not in measured(r.analysis())


class TestCasts:
    def test_kernels_of_to(self):
        """Two casts of 10 us each in 100 us, over one step."""
        r = Recording().step(1, 0, 100)
        for start in (10, 40):
            r.op("aten::to", start, start + 10).op("aten::_to_copy", start + 1, start + 9)
            r.op("aten::copy_", start + 2, start + 8).kernel(start + 10, start + 20, launched=start + 3)
        m = measured(r.analysis())
        assert m["cast_share"] == pytest.approx(0.2)
        assert m["casts_per_step"] == 2

    def test_to_that_changes_the_device_or_nothing_is_no_cast(self):
        """A copy is no kernel, and nothing is nothing."""
        r = Recording().step(1, 0, 100).op("aten::to", 0, 20).op("aten::to", 60, 62)
        r.copy("Memcpy HtoD (Pinned -> Device)", 30, 50, launched=10).kernel(70, 80, launched=65)
        m = measured(r.analysis())
        assert (m["cast_share"], m["casts_per_step"]) == (0, 0)


class TestRecompute:
    def test_without_reentry_the_forward_operators_inside_backward(self):
        """linear runs again under AddmmBackward0: 30 of 100 us. The gradient's own kernel (20 us) is none of it."""
        r = Recording().kernel(0, 10).op("AddmmBackward0", 0, 50, AUTOGRAD)
        r.op("aten::linear", 10, 20, AUTOGRAD).kernel(20, 50, launched=15, thread=AUTOGRAD)
        r.op("aten::mm", 30, 40, AUTOGRAD).kernel(50, 70, launched=35, thread=AUTOGRAD).kernel(95, 100)
        assert measured(r.analysis())["recompute_share"] == pytest.approx(0.3)

    def test_with_reentry_everything_but_the_nested_backward(self):
        """CheckpointFunctionBackward recomputes linear (30 us) and gelu (10 us), then runs their backward (20 us)."""
        r = Recording().kernel(0, 10)
        r.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 0, 60, AUTOGRAD)
        r.op("CheckpointFunctionBackward", 1, 59, AUTOGRAD)
        r.op("aten::linear", 10, 15, AUTOGRAD).kernel(20, 50, launched=12, thread=AUTOGRAD)
        r.op("aten::gelu", 15, 20, AUTOGRAD).kernel(50, 60, launched=17, thread=AUTOGRAD)
        r.op("autograd::engine::evaluate_function: GeluBackward0", 30, 50, AUTOGRAD)
        r.op("GeluBackward0", 31, 49, AUTOGRAD).kernel(60, 80, launched=40, thread=AUTOGRAD).kernel(95, 100)
        assert measured(r.analysis())["recompute_share"] == pytest.approx(0.4)

    def test_frames_of_torch_utils_checkpoint(self):
        """With stacks the unpack hook shows where it recomputes: here a GELU, 10 of 100 us."""
        r = Recording().kernel(0, 10).op("AddmmBackward0", 0, 50, AUTOGRAD)
        r.python("torch/utils/checkpoint.py(1111): unpack_hook", 5, 30, AUTOGRAD)
        r.op("aten::gelu", 10, 20, AUTOGRAD).kernel(20, 30, launched=15, thread=AUTOGRAD)
        r.op("aten::mm", 35, 40, AUTOGRAD).kernel(50, 70, launched=37, thread=AUTOGRAD).kernel(95, 100)
        assert measured(r.analysis())["recompute_share"] == pytest.approx(0.1)

    def test_a_plain_backward_recomputes_nothing(self):
        r = Recording().op("aten::linear", 0, 10).kernel(10, 20, launched=5)
        r.op("AddmmBackward0", 0, 50, AUTOGRAD).op("aten::mm", 10, 20, AUTOGRAD)
        assert measured(r.kernel(20, 30, launched=15, thread=AUTOGRAD).analysis())["recompute_share"] == 0


class TestConvolutionSearch:
    @staticmethod
    def convolution(r, start, kernels):
        r.op("aten::cudnn_convolution", start, start + 50)
        for i in range(kernels):
            r.kernel(start + 50 + i, start + 51 + i, launched=start + i)
        return r

    @pytest.mark.parametrize(("kernels", "expected"), [(8, 0), (9, 9 / 200)])
    def test_many_kernels_in_one_call_after_the_first_step(self, kernels, expected):
        r = self.convolution(Recording().step(1, 0, 100).step(2, 100, 200), 110, kernels)
        assert measured(r.analysis())["conv_search_share"] == pytest.approx(expected)

    def test_the_first_step_may_search(self):
        r = self.convolution(Recording().step(1, 0, 100).step(2, 100, 200), 10, 20).kernel(150, 160)
        assert measured(r.analysis())["conv_search_share"] == 0
