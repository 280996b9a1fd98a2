"""What operators compute and move, MFU, and what limits them: by the sizes that were recorded."""

from __future__ import annotations

import json

import pytest

from tests.traces import Recording, measured
from whyidle import load
from whyidle.measure import flops
from whyidle.measure.analysis import Analysis
from whyidle.measure.detail import detail
from whyidle.measure.work import work
from whyidle.model.evidence import Gpu

HALF, FULL = "c10::BFloat16", "float"
TENSOR = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"
TF32 = "ampere_tf32f32_s1688gemm_f32_128x128_ldg8_f2f_stages_32x5_tn"
SGEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def said(*dims, types=HALF, **more):
    """Return shapes and types of an operator whose tensors are all of one type."""
    kinds = [types if size else "Scalar" for size in dims]
    return {"shapes": json.dumps(dims), "types": json.dumps(kinds), **more}


def of(operator, *dims, arguments=(), types=HALF):
    texts = said(*dims, types=types)
    return work(operator, texts["shapes"], texts["types"], json.dumps(arguments) if arguments else "")


@pytest.mark.parametrize(
    ("operator", "dims", "flop", "bytes_"),
    [
        ("aten::mm", ([4, 8], [8, 16]), 2 * 4 * 8 * 16, 2 * (32 + 128 + 64)),
        ("aten::addmm", ([16], [4, 8], [8, 16]), 2 * 4 * 8 * 16, 2 * (32 + 128 + 64)),
        ("aten::bmm", ([3, 4, 8], [3, 8, 16]), 3 * 2 * 4 * 8 * 16, 3 * 2 * (32 + 128 + 64)),
        ("aten::baddbmm", ([3, 4, 16], [3, 4, 8], [3, 8, 16]), 3 * 2 * 4 * 8 * 16, 3 * 2 * (32 + 128 + 64)),
        ("aten::add", ([4, 8], [4, 8], []), 0, 2 * 3 * 32),
        ("aten::mul", ([4, 8], [8]), 0, 2 * (32 + 8 + 32)),  # broadcast
        ("aten::clamp_min", ([4, 8], [], [4, 8]), 0, 2 * 2 * 32),  # the last is where the result goes
        ("aten::eq", ([4, 8], [4, 8]), 0, 2 * 2 * 32 + 32),
        ("aten::copy_", ([4, 8], [4, 8], []), 0, 2 * 2 * 32),
        ("aten::fill_", ([4, 8], []), 0, 2 * 32),
        ("aten::_softmax", ([4, 8], [], []), 0, 2 * 2 * 32),
        ("aten::native_layer_norm_backward", ([4, 8], [4, 8], [], [4], [4], [8]), 0, 2 * 3 * 32),
        ("aten::sum", ([4, 8], []), 0, 2 * 32),
    ],
)
def test_work_of_an_operator(operator, dims, flop, bytes_):
    found = of(operator, *dims)
    assert found is not None
    assert found.flop == flop
    assert found.bytes == bytes_


CONV = ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1")
FIRST = ([32, 3, 224, 224], [64, 3, 7, 7])  # of a ResNet
FORWARD = 2 * 32 * 64 * 112 * 112 * 3 * 7 * 7


def test_convolutions():
    found = of("aten::convolution", *FIRST, arguments=CONV)
    assert found is not None
    assert found.flop == FORWARD
    assert found.bytes == 2 * (32 * 3 * 224 * 224 + 64 * 3 * 49 + 32 * 64 * 112 * 112)
    assert of("aten::convolution", *FIRST) is None  # no stride: what it makes is not known
    groups = of(
        "aten::convolution", [8, 64, 56, 56], [64, 1, 3, 3], arguments=(*CONV[:3], "[1]", "[1]", *CONV[5:8], "64")
    )
    assert groups is not None
    assert groups.flop == 2 * 8 * 64 * 56 * 56 * 9
    transposed = of("aten::convolution", [2, 16, 8, 8], [16, 4, 2, 2], arguments=(*CONV[:6], "True", "[0, 0]", "1"))
    assert transposed is not None
    assert transposed.flop == 2 * (2 * 16 * 8 * 8) * 4 * 4


@pytest.mark.parametrize(("mask", "times"), [("[True, True, False]", 2), ("[False, True, False]", 1), ("", 2)])
def test_gradients_of_convolutions(mask, times):
    arguments = ("", "", "", "[0]", *CONV[3:6], "False", "[0, 0]", "1", mask) if mask else ()
    found = of("aten::convolution_backward", [32, 64, 112, 112], *FIRST, arguments=arguments)
    assert found is not None
    assert found.flop == times * FORWARD


def test_gradients_of_2021_name_the_input_first():
    found = of("aten::cudnn_convolution_backward", FIRST[0], [32, 64, 112, 112], FIRST[1])
    assert found is not None
    assert found.flop == 2 * FORWARD


@pytest.mark.parametrize(("causal", "part"), [("False", 1.0), ("True", 0.5), ("", 1.0)])
def test_attention(causal, part):
    heads = [2, 8, 1024, 64]
    whole = 2 * 2 * 8 * 1024 * 1024 * (64 + 64)
    forward = of("aten::_scaled_dot_product_flash_attention", *[heads] * 3, arguments=("", "", "", "0.", causal))
    assert forward is not None
    assert forward.flop == forward.executed == part * whole
    arguments = (*[""] * 10, "0.", causal)
    backward = of("aten::_scaled_dot_product_flash_attention_backward", *[heads] * 5, arguments=arguments)
    assert backward is not None
    assert backward.flop == 2 * part * whole
    assert backward.executed == 2.5 * part * whole  # one product is computed again
    other = of("flash_attn::_flash_attn_forward", *[[2, 1024, 8, 64]] * 3, arguments=("", "", "", "0.", "0.1", causal))
    assert other is not None
    assert other.flop == part * whole


@pytest.mark.parametrize(
    ("operator", "shapes", "types"),
    [
        ("aten::mm", "[[4,8],[9,16]]", ""),
        ("aten::mm", "[[4,8", ""),
        ("aten::mm", '{"a": 1}', ""),
        ("aten::mm", "[[-4,8],[8,16]]", ""),
        ("aten::convolution", "[[1e400]]", ""),
        ("aten::convolution", "[[99999999999999999999,3,4,4],[1,3,1,1]]", ""),
        ("aten::convolution_backward", "[[],[],[]]", ""),
        ("aten::nonzero", "[[4,8]]", '["float"]'),
        ("aten::add", "[[4,8],[4,8]]", ""),  # of what type?
    ],
)
def test_what_is_not_known(operator, shapes, types):
    assert work(operator, shapes, types) is None


@pytest.mark.parametrize(
    "setting",
    ["[" * 100_000, f"[{10**400}]", "[[1]]", "[null]", '["a"]', "[1e400]", "[1.5]", "{}", "[1, 1, 1, 1, 1, 1, 1]"],
)
def test_settings_that_are_none_are_not_known(setting):
    """Concrete Inputs are text inside of text, which no reader has looked at."""
    sizes = ([2, 3, 8, 8], [4, 3, 3, 3])
    for place in (3, 4, 5):
        arguments = [*CONV]
        arguments[place] = setting
        assert of("aten::convolution", *sizes, arguments=arguments) is None
    whole = of("aten::convolution_backward", [2, 4, 8, 8], *sizes)
    masked = of("aten::convolution_backward", [2, 4, 8, 8], *sizes, arguments=[""] * 10 + [setting])
    assert masked == whole


def products(kernel=TENSOR, types=HALF, size=1024, count=10, took=100, gap=0, **kernels):
    """Return a recording of steps with one product of this size each, that takes so many us."""
    r = Recording()
    for i in range(count):
        at = i * (took + gap)
        r.step(i, at, at + took + gap)
        r.op("aten::mm", at, at + 2, **said([size, size], [size, size], types=types))
        r.kernel(at, at + took, at + 0.5, name=kernel, took=1, **kernels)
    return r


def test_mfu_is_held_against_the_peak_of_the_type():
    """2 x 1024^3 FLOP in 200 us are 10.7 TFLOP/s: of an A100's 312 in bf16, 156 in TF32 and 19.5 in fp32."""
    for kernel, types, peak in ((TENSOR, HALF, 312), (TF32, FULL, 156), (SGEMM, FULL, 19.5)):
        m = measured(products(kernel, types, took=200).analysis())
        assert m["flops_per_step"] == 2 * 1024**3
        assert m["mfu"] == pytest.approx(2 * 1024**3 / 200e-6 / (peak * 1e12))
        assert m["mfu_peak"].startswith(f"{peak:g} TFLOP/s")
    half = measured(products(gap=100).analysis())
    assert half["mfu"] == pytest.approx(2 * 1024**3 / 200e-6 / 312e12)


def test_mfu_is_not_told_where_products_are_not_accounted_for():
    r = products(count=4)
    r.kernel(400, 500, 399, name=TENSOR)  # a graph's
    m = measured(r.step(9, 400, 500).analysis())
    assert m["flops_known_share"] == pytest.approx(0.8)
    assert "mfu" not in m
    assert "flops_per_step" not in m


def test_mfu_is_not_told_of_a_gpu_that_is_not_known():
    m = measured(products().analysis(gpus=[Gpu(0, "NVIDIA H100", 132, (9, 0))]))
    assert m["flops_per_step"] == 2 * 1024**3
    assert "mfu" not in m
    assert "roofline_share" not in m


def test_more_than_the_peak_is_a_mistake():
    m = measured(products(SGEMM, FULL, size=2048).analysis())  # 172 TFLOP/s in fp32
    assert m["flops_per_step"] == 2 * 2048**3
    assert "mfu" not in m


def test_without_sizes_nothing_is_told():
    m = measured(Recording().op("aten::mm", 0, 2).kernel(5, 100, 1, name=TENSOR).analysis())
    assert not {"mfu", "flops_known_share", "roofline_share"} & set(m)


def test_what_is_computed_again_is_no_need_of_the_model():
    r = products(count=2)
    r.op("CheckpointFunctionBackward", 300, 304).op("aten::mm", 301, 303, **said([1024, 1024], [1024, 1024]))
    r.kernel(310, 400, 302, name=TENSOR, took=0.5).step(2, 300, 400)
    m = measured(r.analysis())
    assert m["recompute_share"] > 0.2
    assert m["flops_per_step"] == pytest.approx(2 * 2 * 1024**3 / 3)


def test_a_convolution_without_stride_makes_what_its_gradient_tells():
    r = Recording()
    r.op("aten::convolution", 0, 2, **said(*FIRST)).kernel(5, 105, 1, name="sm80_xmma_fprop_implicit_gemm", took=0.5)
    r.op("aten::convolution_backward", 10, 14, **said([32, 64, 112, 112], *FIRST))
    r.kernel(105, 305, 11, name="sm80_xmma_dgrad_implicit_gemm", took=0.5)
    worked = flops.Worked.of_trace(r.analysis())
    assert worked.flop.tolist() == [FORWARD, 2 * FORWARD]


def test_what_limits_an_operator():
    """On an A100 with 2.04 TB/s: a large product by arithmetic, an addition by memory, a small one by latency."""
    r = Recording().op("aten::mm", 0, 2, **said([4096, 4096], [4096, 4096])).kernel(5, 605, 1, name=TENSOR, took=0.5)
    r.op("aten::add", 3, 5, **said([4096, 4096], [4096, 4096])).kernel(605, 665, 4, name=ADD, took=0.5)
    r.op("aten::add", 6, 8, **said([64], [64])).kernel(665, 669, 7, name=ADD, took=0.5, blocks=0.01)
    m = measured(r.analysis())
    assert m["compute_bound_share"] == pytest.approx(600 / 664)
    assert m["memory_bound_share"] == pytest.approx(60 / 664)
    assert m["latency_bound_share"] == pytest.approx(4 / 664)
    product = 2 * 4096**3 / 312e12 * 1e6
    addition = 3 * 2 * 4096**2 / 2.04e12 * 1e6
    assert m["roofline_share"] == pytest.approx((product + addition) / 664, rel=1e-3)
    listed = {(one.operator, one.number): one for one in detail([r.analysis()]).rooflines}
    assert listed["aten::mm", "bf16"].bound == "compute"
    assert listed["aten::mm", "bf16"].attained_share == pytest.approx(product / 600)
    assert listed["aten::add", ""].bound == "memory"
    assert listed["aten::add", ""].calls == 2
    assert listed["aten::add", ""].flop == 0


def test_speed_of_copies():
    """64 MiB in 4 ms, of PCIe 4's 31.5 GB/s; small copies and other directions do not count."""
    r = Recording().copy("Memcpy HtoD (Pinned -> Device)", 0, 4000, size=64 << 20)
    r.copy("Memcpy HtoD (Pinned -> Device)", 4000, 4010, size=1000)
    r.copy("Memcpy DtoH (Device -> Pinned)", 5000, 5010, size=1000)
    m = measured(r.analysis())
    assert m["h2d_bytes_per_s"] == pytest.approx(64 * 2**20 / 4e-3)
    assert m["h2d_link_share"] == pytest.approx(64 * 2**20 / 4e-3 / 31.5e9)
    assert "d2h_bytes_per_s" not in m


def test_resnet50_of_2021(corpus):
    """3 x 8.18 GFLOP for each of 32 pictures (torchvision: 4.09 GMAC), the same whatever the profiler recorded."""
    for name in ("num_workers_0/worker0.1623143089861", "num_workers_4/worker0.1623212756351"):
        path = corpus / "kineto" / f"resnet50_{name}.pt.trace.json.gz"
        m = {one.name: one.value for one in flops.measure(Analysis(load([path]).traces[0]))}
        assert m["flops_per_step"] == pytest.approx(3 * 2 * 4.09e9 * 32, rel=0.01)
        assert m["flops_known_share"] > 0.99
        assert 0.2 < m["mfu"] < 0.5
        assert m["mfu_peak"] == "15.7 TFLOP/s, fp32 on V100 SXM2"
