"""Kernels by name and duration, as PyTorch launches them on each kind of GPU.

A duration is what the arithmetic or the memory traffic takes, whichever is longer, with a floor of two microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from world.machine import Gpu

FLOOR_US = 2.0
TILE = 128  # of a product's output, one block each
PER_BLOCK = 1024  # elements of an elementwise kernel


class Kernel(NamedTuple):
    """One kernel launch: what a stream runs."""

    name: str
    us: float
    blocks: int
    threads: int = 256
    kind: str = "kernel"  # or memset, or memcpy
    size: int = 0  # bytes, of a copy or a fill


class Op(NamedTuple):
    """One call from Python: the operators it passes through, outermost first, and the kernels it launches."""

    names: tuple[str, ...]
    us: float  # of host time, launches not counted
    kernels: tuple[Kernel, ...] = ()
    shapes: str = ""  # "Input Dims" and "Input type" of the innermost operator, as JSON, where somebody may ask


ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}, std::array<char*, {1}ul> >"
    "(int, at::native::{0}, std::array<char*, {1}ul>)"
)
UNROLLED = "void at::native::unrolled_elementwise_kernel<at::native::{0}, std::array<char*, 2ul>, 4>"
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<{1}>, at::native::(anonymous namespace)::{0}<float, {1}, 1, 0> >"
)
NORMS = {
    "layer": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<{0}, float>(int, float, {0} const*)",
    "layer_grad": "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<{0}, float>",
    "layer_params": "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<{0}, float>(long, long)",
    "batch": "void cudnn::bn_fw_tr_1C11_kernel_NCHW<{0}, float, int, 512, true, 1, true>",
    "batch_grad": "void cudnn::bn_bw_1C11_kernel_new<{0}, float, float2, 512, true, 1>",
    "group": "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<{0}>(long, float, {0} const*)",
    "softmax": "void (anonymous namespace)::softmax_warp_forward<{0}, {0}, float, 10, false, false>",
    "softmax_grad": "void (anonymous namespace)::softmax_warp_backward<{0}, {0}, float, 10, false, false>",
}  # fmt: skip
C_TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "tf32": "float"}
WIDTH = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4}


@dataclass(frozen=True)
class Maker:
    """Makes kernels for one GPU and one precision: "bf16", "fp16", "tf32" or "fp32"."""

    gpu: Gpu
    precision: str

    @property
    def width(self) -> int:
        """Return the bytes of a value."""
        return WIDTH[self.precision]

    @property
    def type(self) -> str:
        """Return the C++ name of the type."""
        return C_TYPES[self.precision]

    def product(self, m: int, n: int, k: int, batch: int = 1, flavour: str = "tn") -> Kernel:
        """Return a matrix product of m x k with k x n, `batch` times."""
        blocks = batch * -(-m // TILE) * -(-n // TILE)
        if blocks < self.gpu.multiprocessors:  # cuBLAS deals out a long inner dimension, too
            blocks = min(2 * self.gpu.multiprocessors, blocks * max(1, k // 512))
        us = self.busy_us(2 * m * n * k * batch, (m * k + k * n + m * n) * batch, blocks)
        return Kernel(self.product_name(flavour), us, blocks)

    def convolution(self, elements: int, patch: int, channels: int, way: str) -> Kernel:
        """Return a convolution of so many outputs, each a sum of `patch` products; way is fprop, dgrad or wgrad."""
        blocks = max(1, elements // (TILE * TILE))
        us = self.busy_us(2 * elements * patch, elements + elements // max(channels, 1), blocks)
        return Kernel(self.convolution_name(way), us, blocks)

    def elementwise(self, functor: str, elements: int, tensors: int = 2, width: int | None = None) -> Kernel:
        """Return a kernel that reads and writes so many tensors of so many elements."""
        us = self.memory_us(elements * tensors * (width or self.width))
        return Kernel(ELEMENTWISE.format(functor, tensors), us, max(1, elements // PER_BLOCK))

    def norm(self, kind: str, elements: int, passes: int) -> Kernel:
        """Return a normalization, or a part of its gradient, that goes over its data so many times."""
        us = self.memory_us(elements * passes * self.width)
        return Kernel(NORMS[kind].format(self.type), us, max(1, elements // PER_BLOCK))

    def attention(self, batch: int, heads: int, length: int, width: int, backward: bool) -> Kernel:
        """Return a fused attention over `heads` of so much width; backward does two and a half times the products."""
        flops = 4 * batch * heads * length * length * width * (2.5 if backward else 1.0)
        blocks = batch * heads * -(-length // TILE)
        way = "bwd_dq_dk_dv_loop_seqk_parallel" if backward else "fwd"
        name = (
            f"void pytorch_flash::flash_{way}_kernel<Flash_{way[:3]}_kernel_traits<{width}, 64, 128, 4>, true, false>"
        )
        return Kernel(name, self.busy_us(0.6 * flops / 0.36, 4 * batch * heads * length * width, blocks), blocks)

    def gather(self, rows: int, width: int, backward: bool) -> Kernel:
        """Return an embedding lookup, or its gradient."""
        name = "embedding_backward_feature_kernel" if backward else "indexSelectLargeIndex"
        us = self.memory_us(rows * width * 4 * (3 if backward else 2)) * 1.6  # rows lie apart
        return Kernel(
            f"void at::native::(anonymous namespace)::{name}<float, long, unsigned int, 2, 2, -2, true>",
            us,
            max(1, rows * width // PER_BLOCK),
        )

    def foreach(self, functor: str, tensors: int, elements: int) -> Kernel:
        """Return a kernel of a foreach or fused optimizer over fp32 values."""
        return Kernel(FOREACH.format(functor, tensors), self.memory_us(elements * 4 * tensors), 320, 512)

    def fill(self, elements: int) -> Kernel:
        """Return a kernel that writes zeros."""
        return self.elementwise("FillFunctor<float>", elements, 1, 4)

    def cast(self, elements: int, source: str, target: str) -> Kernel:
        """Return a kernel that copies values into another type."""
        us = self.memory_us(elements * (WIDTH[source] + WIDTH[target]))
        functor = {"bf16": "bfloat16_copy_kernel_cuda", "fp16": "float16_copy_kernel_cuda"}.get(target)
        inner = (
            f"{functor}(at::TensorIteratorBase&)::{{lambda(float)#1}}" if functor else "direct_copy_kernel_cuda(float)"
        )
        return Kernel(UNROLLED.format(inner), us, max(1, elements // PER_BLOCK))

    def layout(self, elements: int, to: str) -> Kernel:
        """Return a conversion between channels first and channels last; `to` is NHWC or NCHW."""
        source = "nchwToNhwc" if to == "NHWC" else "nhwcToNchw"
        half = "__half" if self.width == 2 else "float"
        name = f"void cudnn::ops::{source}Kernel<{half}, {half}, float, false, true, (cudnnKernelDataType_t)0>"
        return Kernel(name, self.memory_us(2.6 * elements * self.width), max(1, elements // PER_BLOCK))

    def at(self, precision: str) -> Maker:
        """Return a maker for the same GPU and another precision."""
        return replace(self, precision=precision)

    def memory_us(self, size: float) -> float:
        """Return how long moving so many bytes takes."""
        return max(FLOOR_US, size / self.gpu.memory_bps * 1e6)

    def busy_us(self, flops: float, elements: float, blocks: int) -> float:
        """Return how long a product takes: by arithmetic, with the multiprocessors that it fills, or by memory."""
        filled = min(1.0, blocks / self.gpu.multiprocessors)
        return max(FLOOR_US, flops / (self.rate * filled) * 1e6, elements * self.width / self.gpu.memory_bps * 1e6)

    @property
    def rate(self) -> float:
        """Return the FLOP/s that products reach."""
        gpu = self.gpu
        if self.precision == "tf32" and gpu.tf32_flops:
            return gpu.tf32_flops
        return gpu.tensor_flops if self.width == 2 else gpu.fp32_flops

    @property
    def on_tensor_cores(self) -> bool:
        """Return whether products run on tensor cores."""
        return self.width == 2 or (self.precision == "tf32" and self.gpu.tf32_flops > 0)

    def product_name(self, flavour: str) -> str:
        """Return the name that cuBLAS gives such a product."""
        major = self.gpu.capability[0]
        if not self.on_tensor_cores:
            return f"{'volta' if major == 7 else 'ampere'}_sgemm_128x64_{flavour}"
        if major == 7:
            return f"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_{flavour}"
        kind = {"bf16": "bf16_s16816gemm_bf16", "fp16": "fp16_s16816gemm_fp16", "tf32": "tf32f32_s1688gemm_f32"}[
            self.precision
        ]
        if major == 8:
            return f"ampere_{kind}_128x128_ldg8_f2f_stages_32x5_{flavour}"
        hopper = {"bf16": "tst_192x128_64x5", "fp16": "hsh_192x128_64x5", "tf32": "sss_128x128_32x4"}[self.precision]
        return f"nvjet_{hopper}_2x1_v_bz_{flavour.upper()}"

    def convolution_name(self, way: str) -> str:
        """Return the name that cuDNN gives such a convolution."""
        major = self.gpu.capability[0]
        if not self.on_tensor_cores:
            tail = "relu_interior_nn_v1" if way == "fprop" else "stridedB_splitK_small_nn_v1"
            return f"{'volta' if major == 7 else 'ampere'}_scudnn_128x64_{tail}"
        if major == 7:
            return f"volta_fp16_s884cudnn_fp16_256x64_ldg8_{'relu_f2f_exp' if way == 'fprop' else way}_small_nhwc_tn_v1"
        kind = {"bf16": "bf16bf16_bf16f32_f32", "fp16": "f16f16_f16f32_f32", "tf32": "tf32f32_tf32f32_f32"}[
            self.precision
        ]
        sm = {8: "sm80", 9: "sm90"}[major]
        tile = "tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16"
        return f"{sm}_xmma_{way}_implicit_gemm_{kind}_nhwckrsc_nhwc_{tile}_kernel_cudnn"
