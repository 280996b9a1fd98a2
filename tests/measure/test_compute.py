"""What the GPU computes: by the names of kernels, the shapes of operators, and who launched what."""

from __future__ import annotations

import pytest

from tests.traces import AUTOGRAD, Recording, measured
from whyidle.measure.alignment import Sizes
from whyidle.measure.compute import is_cast, tensor_units
from whyidle.measure.products import product
from whyidle.model.evidence import Gpu

SGEMM = "ampere_sgemm_128x64_tn"
HALF = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
TENSOR = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"
FP32 = '["float","float"]'
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"
BF16 = '["c10::BFloat16","c10::BFloat16"]'
HALF3 = '["c10::Half","c10::Half","c10::Half","Scalar","Scalar"]'
DIRECT = (
    "void at::native::%s<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
    "::{lambda()#10}::operator()() const::{lambda(%s)#1}, %s>"
)
TO_HALF = DIRECT % ("unrolled_elementwise_kernel", "c10::Half", "LoadWithCast<1>, StoreWithCast<1>")


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
        ([Gpu(0, "AMD Instinct MI300X", 304, None)], "xf32"),
        ([Gpu(0, "AMD Instinct MI325X", 304, None)], "xf32"),
        ([Gpu(0, "AMD Instinct MI355X", 256, None)], ""),  # CDNA 4 has no such units
        ([Gpu(0, "AMD Instinct MI210", 104, None)], ""),
        ([Gpu(0)], ""),
        ([], ""),
    ],
)
def test_what_a_gpu_offers_fp32_work(gpus, units):
    assert tensor_units(tuple(gpus), [gpu.device for gpu in gpus]) == units


def test_only_gpus_that_worked_say_what_there_is():
    """A display adapter sits idle in the same machine; where the numbers do not fit, all count."""
    gpus = (Gpu(0, "NVIDIA A100-SXM4-80GB", 108, (8, 0)), Gpu(1, "NVIDIA GeForce GT 1030", 3, (6, 1)))
    assert tensor_units(gpus, [0]) == "tf32"
    assert tensor_units(gpus, [1]) == "none"
    assert tensor_units(gpus, [7]) == "none"
    assert measured(Recording().kernel(0, 10, name=SGEMM).analysis(gpus=gpus))["tensor_cores"] == "tf32"


class TestElementwise:
    def test_the_optimizer_s_kernels_are_not_merged_by_compiling_the_model(self):
        """Of 100 us: 20 elementwise in the model, 30 plain and 20 fused ones in the optimizer, 30 a product."""
        r = Recording().op("aten::add", 0, 10).kernel(10, 30, launched=5, name=ADD).kernel(30, 60, name=SGEMM)
        r.range("Optimizer.step#AdamW.step", 20, 40).kernel(60, 90, launched=25, name=ADD)
        adam = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
        assert measured(r.kernel(90, 110, launched=30, name=adam).analysis())["elementwise_share"] == pytest.approx(0.2)

    def test_a_step_with_a_closure_is_no_optimizer_s_work(self):
        """Lightning's step runs forward and backward inside: the 20 us of them stay."""
        r = Recording().range("Optimizer.step#AdamW.step", 0, 60)
        r.op("aten::add", 5, 15).kernel(20, 40, launched=10, name=ADD).op("AddBackward0", 20, 30)
        assert measured(r.kernel(80, 120, name=SGEMM).analysis())["elementwise_share"] == pytest.approx(0.2)


class TestUnderfilled:
    def test_time_times_empty_multiprocessors(self):
        """Window 100 us: 40 us at a quarter of the blocks (30 us empty), 60 us with more than enough."""
        m = measured(Recording().kernel(0, 40, blocks=0.25).kernel(40, 100, blocks=3.0).analysis())
        assert m["underfilled_share"] == pytest.approx(0.3)

    @pytest.mark.parametrize(("blocks", "saved"), [(0.25, 0.5), (0.5, 0.5), (0.8, 0.2), (1.0, 0.0), (7.0, 0.0)])
    def test_twice_the_blocks_save_at_most_half_of_the_time_per_item(self, blocks, saved):
        """At 0.25 two items take as long as one; at 0.8 twice 0.8 takes 1.6 times as long, 0.8 per item."""
        m = measured(Recording().kernel(0, 100, blocks=blocks).analysis())
        assert m["underfilled_twice_share"] == pytest.approx(saved)

    def test_the_kernels_of_the_optimizer_do_not_grow_with_the_batch(self):
        r = Recording().range("Optimizer.step#SGD.step", 0, 10).kernel(20, 70, launched=5, blocks=0.5)
        m = measured(r.kernel(70, 120, launched=15, blocks=0.5).analysis())
        assert m["underfilled_share"] == pytest.approx(0.5)
        assert m["underfilled_twice_share"] == pytest.approx(0.25)

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


class TestChains:
    """Kernels one after another on a stream, each from where the last one ended."""

    @staticmethod
    def share(*kernels, **more):
        """Return the share that would go; a kernel is a name and a length in us, or with a stream, of 1000 us."""
        r, ends = Recording(), {}
        for name, took, *where in kernels:
            stream = where[0] if where else 7
            start = ends.get(stream, 0)
            r.kernel(start, start + took, name=name, stream=stream, **more)
            ends[stream] = start + took
        return measured(r.kernel(999, 1000, name=HALF, stream=99).analysis())["mergeable_share"]

    def test_of_a_chain_all_but_the_longest_go(self):
        assert self.share((ADD, 50), (ADD, 80), (ADD, 30), (HALF, 100)) == pytest.approx(80 / 1000)

    def test_single_ones_between_products_stay(self):
        assert self.share((ADD, 50), (HALF, 100), (ADD, 80), (HALF, 100)) == 0

    def test_one_stays_for_each_reduction(self):
        """A norm, an add, a norm and a product: the two longest, of 80 and 60, stay."""
        assert self.share((NORM, 80), (ADD, 30), (NORM, 60), (HALF, 100)) == pytest.approx(30 / 1000)
        assert self.share((NORM, 80), (ADD, 90), (NORM, 60), (HALF, 100)) == pytest.approx(60 / 1000)

    def test_a_chain_is_of_one_stream(self):
        """Two on each of two streams, in turns: 50-80 and 40-60 go, 40 us."""
        chain = ((ADD, 50, 7), (ADD, 40, 8), (ADD, 30, 7), (ADD, 20, 8))
        assert self.share(*chain) == pytest.approx(40 / 1000)

    def test_what_torch_compile_made_stays(self):
        assert self.share(("triton_poi_fused_gelu_1", 50), ("triton_poi_fused_add_2", 80)) == 0
        assert self.share((ADD, 50), ("triton_poi_fused_add_2", 80)) == pytest.approx(50 / 1000)

    def test_casts_and_the_sums_of_gradients_are_not_counted(self):
        r = Recording().op("aten::to", 0, 9).op("aten::copy_", 1, 8, types='["c10::Half","float","Scalar"]')
        r.kernel(100, 150, launched=2, name=TO_HALF).kernel(150, 250, launched=20, name=ADD)
        assert measured(r.analysis())["mergeable_share"] == 0  # an add and a cast that takes less
        r.kernel(250, 550, launched=3, name=TO_HALF).kernel(550, 600, launched=21, name=ADD)
        assert measured(r.analysis())["mergeable_share"] == pytest.approx(50 / 500)  # the lesser add of add, cast, add
        r = Recording().op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 0, 50, AUTOGRAD)
        for start in (100, 150):
            r.kernel(start, start + 50, launched=start / 10, thread=AUTOGRAD, name=ADD)
        assert measured(r.analysis())["mergeable_share"] == 0


class TestProduct:
    @pytest.mark.parametrize(
        ("operator", "shapes", "types", "expected"),
        [
            ("mm", "[[64,512],[512,50257]]", BF16, "[64, 512] @ [512, 50257]"),
            ("mm", "[[64,512],[512,8],[64,8]]", BF16, "[64, 512] @ [512, 8]"),  # out=
            ("addmm", "[[512],[64,512],[512,512],[],[]]", HALF3, "[64, 512] @ [512, 512]"),
            ("addmm", "[[64,16],[64,512],[512,16],[],[]]", HALF3, "[64, 512] @ [512, 16]"),
            ("bmm", "[[96, 197, 64], [96, 64, 197]]", BF16, "[96, 197, 64] @ [96, 64, 197]"),
            ("baddbmm", "[[4,5,7],[4,5,6],[4,6,7],[],[]]", HALF3, "[4, 5, 6] @ [4, 6, 7]"),
            ("mm", "[[64,512],[512,50257]]", '["float","float"]', None),
            ("bmm", "[[4,5,6],[4,6,7]]", '["float","c10::Half"]', None),  # autocast's outer call
            ("mm", "[[64,512],[511,50257]]", BF16, None),
            ("mm", "[[64,512]]", BF16, None),
            ("mm", "[]", BF16, None),
            ("mm", "", "", None),
        ],
    )
    def test_sizes(self, operator, shapes, types, expected):
        found = product(f"aten::{operator}", shapes, types)
        assert (found and str(found)) == expected


def odd(*forward, of=None, backward=False):
    """Return which size of the last product (or of `of`) breaks the alignment."""
    products = [product("aten::bmm" if len(left) == 3 else "aten::mm", str([left, right]), BF16)
                for left, right in forward]  # fmt: skip
    asked = product("aten::mm", str(list(of)), BF16) if of else products[-1]
    return Sizes.of(products).odd(asked, backward=backward)


class TestAlignment:
    def test_columns_and_inner_of_a_linear_layer(self):
        assert odd(([64, 512], [512, 50257])) == "outputs"
        assert odd(([64, 500], [500, 512])) == "hidden"
        assert odd(([64, 512], [512, 300]), ([64, 300], [300, 512])) == "hidden"
        assert odd(([64, 512], [512, 50304])) == ""

    def test_rows_follow_the_data(self):
        """5185 patches, 1003 tokens, 141 tokens: any number does."""
        assert odd(([5185, 1024], [1024, 1024])) == ""
        assert odd(([1003, 4096], [4096, 4096])) == ""
        assert odd(([1003, 512], [512, 1003])) == ""  # similarities of items with items

    def test_a_product_with_a_vector_is_none_of_tensor_cores(self):
        assert odd(([5184, 1024], [1024, 1])) == ""

    def test_backward_multiplies_in_every_order(self):
        """Of 50257 outputs: gradients of the input [64,50257] @ [50257,512], of the weight [50257,64] @ [64,512]."""
        layer = ([64, 512], [512, 50257])
        assert odd(layer, of=([64, 50257], [50257, 512]), backward=True) == "outputs"
        assert odd(layer, of=([50257, 64], [64, 512]), backward=True) == "outputs"
        tokens = ([141, 512], [512, 512])
        assert odd(tokens, of=([512, 141], [141, 512]), backward=True) == ""  # a weight's gradient sums over tokens
        assert odd(tokens, of=([512, 77], [77, 512]), backward=True) == ""  # of what else it sums over is not known

    def test_attention_has_lengths_that_follow_the_data_and_heads_that_do_not(self):
        layer = ([3137, 768], [768, 768])
        assert odd(layer, ([96, 3137, 64], [96, 64, 3137])) == ""
        assert odd(layer, ([96, 3137, 3137], [96, 3137, 64])) == ""
        assert odd(([512, 720], [720, 720]), ([36, 128, 20], [36, 20, 128])) == "heads"
        assert odd(layer, ([96, 50, 64], [96, 64, 77])) == ""
        assert odd(layer, ([192, 12, 64], [192, 64, 12])) == ""  # 12 tokens or 64 heads of 12: not certain


def test_misaligned_share_is_the_time_of_the_products_kernels():
    """Of 100 us 25 belong to the product with 50257 columns; 10 others, of other columns, take less than those."""
    r = Recording().op("aten::mm", 0, 10, shapes="[[8,64],[64,50257]]", types=BF16).kernel(20, 45, launched=5)
    r.op("aten::mm", 10, 20, shapes="[[8,64],[64,64]]", types=BF16).kernel(45, 120, launched=15)
    m = measured(r.analysis())
    assert m["misaligned_share"] == pytest.approx(0.25)
    assert (m["misaligned_size"], m["misaligned_product"]) == ("outputs", "[8, 64] @ [64, 50257]")


def test_the_size_that_is_named_is_that_of_most_time():
    r = Recording()
    for start, columns, took in ((0, 10, 5), (10, 10, 5), (20, 30522, 30), (30, 10, 5)):
        shapes = f"[[8,64],[64,{columns}]]"
        r.op("aten::mm", start, start + 8, shapes=shapes, types=BF16).kernel(start + 40, start + 40 + took, start + 2)
    assert measured(r.analysis())["misaligned_product"] == "[8, 64] @ [64, 30522]"


def test_a_product_of_which_no_kernel_is_known():
    r = Recording().op("aten::mm", 0, 10, shapes="[[8,64],[64,50257]]", types=BF16).kernel(20, 45)
    m = measured(r.analysis())
    assert (m["misaligned_share"], m["misaligned_size"], m["misaligned_product"]) == (0, "", "")


def test_the_product_counts_that_is_computed_not_the_call_around_it():
    """linear sees 197 rows in each of 8 items; what it computes has all 8 x 197 = 1576 rows, a multiple of 8."""
    r = Recording().op("aten::linear", 0, 10, shapes="[[8,197,768],[768,768]]", types=BF16)
    r.op("aten::mm", 1, 9, shapes="[[1576,768],[768,768]]", types=BF16).kernel(20, 120, launched=5)
    assert measured(r.analysis())["misaligned_share"] == 0


def rates(*calls):
    """Return what is measured where products of [rows, inner] @ [inner, columns] take so many us by such kernels."""
    r, at = Recording(), 1000
    for i, (rows, inner, columns, took, name) in enumerate(calls):
        shapes = f"[[{rows},{inner}],[{inner},{columns}]]"
        r.op("aten::mm", 10 * i, 10 * i + 8, shapes=shapes, types=BF16 if "sgemm" not in name else FP32)
        r.kernel(at, at + took, launched=10 * i + 2, name=name)
        at += took
    return measured(r.analysis())


def test_misaligned_products_at_the_rate_of_aligned_ones():
    """1024 x 512 x 1024 take 100 us; 1024 x 512 x 2047 would take 199.9 at that rate, and take 300."""
    m = rates((1024, 512, 1024, 100, TENSOR), (1024, 512, 2047, 300, TENSOR))
    assert m["misaligned_share"] == m["misaligned_compared_share"] == pytest.approx(300 / 400)
    assert m["misaligned_slow_share"] == pytest.approx((300 - 100 * 2047 / 1024) / 400)


def test_misaligned_products_that_are_as_fast_lose_nothing():
    assert rates((1024, 512, 1024, 100, TENSOR), (1024, 512, 2047, 190, TENSOR))["misaligned_slow_share"] == 0


@pytest.mark.parametrize(
    "calls",
    [
        [(1024, 512, 2047, 300, TENSOR)],
        [(1024, 512, 248, 100, TENSOR), (1024, 512, 2047, 300, TENSOR)],
        [(1024, 512, 1024, 100, TENSOR), (1024, 512, 255, 300, TENSOR)],
        [(1024, 512, 1024, 29, TENSOR), (1024, 512, 2047, 300, TENSOR)],
        [(1024, 512, 1024, 100, "simt_gemm"), (1024, 512, 2047, 300, TENSOR)],
    ],
    ids=["none aligned", "aligned, but small", "misaligned, but small", "too few aligned", "no tensor cores"],
)
def test_only_large_products_on_tensor_cores_are_compared(calls):
    m = rates(*calls)
    assert m["misaligned_share"] > 0
    assert "misaligned_slow_share" not in m


def test_products_of_a_thread_that_only_computes_gradients_are_of_the_backward_pass():
    """1003 tokens: the gradient of a weight sums over them, also where its operator stands beside its node."""
    r = Recording().op("aten::mm", 0, 8, shapes="[[1003,512],[512,512]]", types=BF16).kernel(100, 110, launched=2)
    r.op("autograd::engine::evaluate_function: MmBackward0", 20, 30, AUTOGRAD)
    r.op("aten::mm", 31, 38, AUTOGRAD, shapes="[[512,1003],[1003,512]]", types=BF16)
    m = measured(r.kernel(110, 210, launched=32, thread=AUTOGRAD).analysis())
    assert m["misaligned_share"] == 0


def test_fp32_products_beside_16_bit_ones():
    """As large as those that take 100 us, they take 400: 300 of 500 beyond. Of products a fifth is in 16 bits."""
    m = rates((1024, 512, 1024, 100, HALF), (1024, 512, 1024, 400, SGEMM))
    assert m["half_share"] == pytest.approx(1 / 5)
    assert m["fp32_share"] == m["fp32_compared_share"] == pytest.approx(400 / 500)
    assert m["fp32_slow_share"] == pytest.approx(300 / 500)


def test_fp32_products_as_fast_as_16_bit_ones_cannot_be():
    """What the operators say is not what ran."""
    m = rates((1024, 512, 1024, 100, HALF), (1024, 512, 1024, 90, SGEMM))
    assert m["fp32_share"] == pytest.approx(90 / 190)
    assert "fp32_compared_share" not in m


@pytest.mark.parametrize(
    ("kernel", "fp32", "half"),
    [
        (SGEMM, 1, 0),
        ("volta_scudnn_128x128_stridedB_splitK_small_nn_v1", 1, 0),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false>(int)", 1, 0),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(Params)", 1, 0),
        ("ampere_fp16_sgemm_fp16_32x128_tn", 0, 0),
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false>(Params)", 0, 0),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128>(Params)", 0, 0),
        (HALF, 0, 1),
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_tn", 0, 1),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", 0, 1),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN", 0, 1),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(Params)", 0, 0),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", 0, 0),
    ],
)
def test_precision_by_the_name_of_a_kernel(kernel, fp32, half):
    m = measured(Recording().kernel(0, 100, name=kernel).analysis())
    assert (m["fp32_share"], m["half_share"]) == (fp32, half)


def test_misalignment_needs_shapes():
    r = Recording().op("aten::mm", 0, 10).kernel(20, 120, launched=5)
    assert "misaligned_share" not in measured(r.analysis())


class TestCasts:
    @pytest.mark.parametrize(
        ("kernel", "types", "expected"),
        [
            # both types are recorded
            ("anything", '["c10::Half","float","Scalar"]', True),
            (TO_HALF, '["c10::Half","c10::Half","Scalar"]', False),
            (TO_HALF, '["float","long int","Scalar"]', False),
            ("anything", '["c10::Float8_e4m3fn","c10::BFloat16","Scalar"]', True),
            # only the kernel's name
            (TO_HALF, "", True),
            (TO_HALF, '["c10::Half","","Scalar"]', True),
            (DIRECT % ("unrolled_elementwise_kernel", "long", "LoadWithCast<1>, StoreWithCast<1>"), "", False),
            (DIRECT % ("unrolled_elementwise_kernel", "float", "LoadWithoutCast, StoreWithoutCast"), "", False),
            (DIRECT % ("elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast", "c10::Half", "int"), "", False),
            ("void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at)>", "", True),
            ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda", "", False),
        ],
    )
    def test_a_cast_changes_a_floating_point_type(self, kernel, types, expected):
        assert is_cast(kernel, types) == expected

    @staticmethod
    def to(types, name=TO_HALF):
        """Two calls of to() in a step of 100 us, with kernels of 10 us each."""
        r = Recording().step(1, 0, 100)
        for start in (10, 40):
            r.op("aten::to", start, start + 10, types='["float","Scalar"]')
            r.op("aten::_to_copy", start + 1, start + 9, types='["float","Scalar"]')
            r.op("aten::copy_", start + 2, start + 8, types=types)
            r.kernel(start + 10, start + 20, launched=start + 3, name=name)
        return measured(r.analysis())

    def test_a_step_casts_what_it_launches_however_late_that_runs(self):
        """Launched in the step that ends at 100; it runs at 400."""
        r = Recording().step(1, 0, 100).kernel(0, 100).op("aten::to", 10, 20).op("aten::copy_", 11, 19)
        m = measured(r.kernel(400, 410, launched=12, name=TO_HALF).analysis())
        assert m["casts_per_step"] == 1

    def test_kernels_of_to(self):
        m = self.to('["c10::Half","float","Scalar"]')
        assert m["cast_share"] == pytest.approx(0.2)
        assert m["casts_per_step"] == 2
        assert self.to("")["cast_share"] == pytest.approx(0.2)

    def test_a_change_of_layout_is_none(self):
        m = self.to('["float","float","Scalar"]')
        assert (m["cast_share"], m["casts_per_step"]) == (0, 0)
        assert self.to("", "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda")["cast_share"] == 0

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
    """Steps of 1000 us with a convolution each."""

    @staticmethod
    def job(*tried, shapes="[[8,3,224,224]]", timed=(), op="aten::cudnn_convolution", around=0):
        """Return a job in whose step i `tried[i]` different products run, and `around` other kernels, 20 us each."""
        r = Recording()
        for i, count in enumerate(tried):
            t = i * 1000
            r.step(i, t, t + 1000).op(op, t, t + 200, shapes=shapes[i] if isinstance(shapes, list) else shapes)
            for k in range(count):
                r.kernel(t + 300 + 20 * k, t + 320 + 20 * k, launched=t + 6 * k, name=f"xmma_fprop_{k}_nhwc")
            for k in range(around):
                start = t + 600 + 20 * k
                r.kernel(
                    start, start + 20, launched=t + 100 + 6 * k, name=("nchwToNhwc", "reduce_kernel")[k % 2] + f"_{k}"
                )
            if i in timed:
                r.call("cudaEventElapsedTime", t + 190, t + 192)
        return r

    def share(self, *tried, **more):
        return measured(self.job(*tried, **more).analysis()).get("conv_search_share")

    def test_the_excess_over_an_ordinary_call_of_the_same_shapes(self):
        """Of 4000 us step 2 runs 10 products instead of 1: 9 x 20 us too many."""
        assert self.share(1, 1, 10, 1) == pytest.approx(180 / 4000)

    def test_without_shapes_the_same_place_of_another_step_is_ordinary(self):
        assert self.share(1, 1, 10, 1, shapes="") == pytest.approx(180 / 4000)

    def test_what_is_the_same_in_every_step_is_no_search(self):
        assert self.share(9, 9, 9) == 0

    def test_conversions_transposes_and_reductions_are_no_products(self):
        """convolution_backward in channels first: two products, nine kernels around them; in one step only one."""
        assert self.share(2, 2, 2, op="aten::convolution_backward", around=9) == 0
        assert self.share(0, 2, 2, op="aten::convolution_backward", around=9) == 0

    def test_the_transforms_of_winograd_are_no_products(self):
        r = Recording()
        for i, parts in enumerate((0, 8)):
            t = i * 1000
            r.step(i, t, t + 1000).op("aten::convolution_backward", t, t + 200).kernel(t + 200, t + 220, launched=t)
            for k, part in enumerate(("ForwardData", "ForwardFilter", "ForwardOutput", "WgradDelta")[:parts]):
                name = f"void cudnn::winograd_nonfused::winograd{part}4x4<float, float>"
                r.kernel(t + 300 + 20 * k, t + 320 + 20 * k, launched=t + 10 + 6 * k, name=name)
        assert measured(r.analysis())["conv_search_share"] == 0

    @pytest.mark.parametrize(("tried", "expected"), [(3, 0), (4, 60 / 3000)])
    def test_many_are_more_than_three(self, tried, expected):
        assert self.share(1, tried, 1) == pytest.approx(expected)

    def test_ordinary_calls_run_at_most_half_as_many(self):
        assert self.share(5, 8, 5) == 0

    def test_the_first_step_may_search(self):
        assert self.share(10, 1, 1) == 0

    def test_two_steps_are_needed(self):
        assert self.share(10) is None

    def test_a_call_that_takes_times_is_a_search_whatever_the_others_do(self):
        """Each step has a shape of its own and searches: what counts is all but the kernel that ran last."""
        shapes = [f"[[8,3,{size},{size}]]" for size in (200, 210, 220)]
        assert self.share(6, 6, 6, shapes=shapes, timed=(0, 1, 2)) == pytest.approx(2 * 100 / 3000)
        assert self.share(6, 6, 6, shapes="", timed=(0, 1, 2)) == pytest.approx(2 * 100 / 3000)
        assert self.share(6, 6, 6, shapes=shapes) == 0

    def test_a_new_shape_is_compared_with_other_shapes_of_the_same_layer(self):
        """Every other step has a shape of its own, and tries 6 products of 20 us instead of 1."""
        shapes = [f"[[8,3,{size},224]]" for size in (224, 200, 224, 210)]
        assert self.share(1, 6, 1, 6, shapes=shapes) == pytest.approx(2 * 100 / 4000)

    def test_a_timed_call_is_compared_with_those_that_are_not(self):
        assert self.share(1, 6, 1, timed=(1,)) == pytest.approx(100 / 3000)

    def test_miopen(self):
        assert self.share(1, 5, 1, op="aten::miopen_convolution") == pytest.approx(80 / 3000)
