"""Networks as the operators and kernels of one training step; families.py has those of the jobs.

A network is built layer by layer; each layer adds to the forward pass and puts its gradient in front of the backward
pass. What a fault changes about the work of the GPU (precision, layout, casts, what is computed twice) is decided here,
layer by layer, by `Work`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from world.kernels import Kernel, Maker, Op
from world.machine import Gpu

LEVEL_US = 3.2  # of host time for each operator that a call passes through
REDUCE = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::sum_functor<float> > >"
NLL = "void at::native::(anonymous namespace)::nll_loss_{}_reduce_cuda_kernel_2d<float, float, long>"
NODE = "autograd::engine::evaluate_function: "
TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "tf32": "float"}


@dataclass(frozen=True, slots=True)
class Work:
    """What the GPU is asked to do. Shares are of layers, in an even spread over the network."""

    precision: str = "bf16"
    batch_scale: float = 1.0  # of the family's batch
    compiled: bool = False  # chains of elementwise operators are one kernel each
    eager_share: float = 0.0  # of those chains that are not
    plain_share: float = 0.0  # of products in fp32 beside the tensor cores
    odd_share: float = 0.0  # of products with sizes that tensor cores do not like
    odd_factor: float = 2.6  # how much longer those take
    cast_share: float = 0.0  # of products whose weights and inputs are cast first
    cast_passes: float = 1.0  # how often each of them is
    layout_share: float = 0.0  # of convolutions between conversions of the layout
    layout_passes: float = 1.0
    recompute_share: float = 0.0  # of the forward pass that runs again in the backward pass
    underfill: float = 1.0  # how many times smaller the pieces are in which the same work is done


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of one layer: its operators, and the sizes of the parameters whose gradients are then ready."""

    ops: tuple[Op, ...]
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Net:
    """One step's work: the forward pass, the backward pass in its order, and the parameters."""

    forward: tuple[Op, ...]
    backward: tuple[Gradient, ...]
    input_bytes: int
    samples: int

    @property
    def parameters(self) -> tuple[int, ...]:
        """Return the sizes of all parameters, in elements."""
        return tuple(size for gradient in self.backward for size in gradient.parameters)


def call(*names: str, kernels: tuple[Kernel, ...] = (), shapes: str = "", us: float = 0.0) -> Op:
    """Return a call that passes through these operators."""
    return Op(names, us + LEVEL_US * (len(names) + 1), kernels, shapes)


def node(name: str, *names: str, kernels: tuple[Kernel, ...] = (), shapes: str = "") -> Op:
    """Return the evaluation of one node of the autograd graph."""
    return call(NODE + name, name, *names, kernels=kernels, shapes=shapes)


ACCUMULATE = call(NODE + "torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad", us=-3.0)


@dataclass
class Builder:
    """Collects layers."""

    gpu: Gpu
    work: Work
    forward: list[Op] = field(default_factory=list)
    backward: list[Gradient] = field(default_factory=list)  # in the order of the layers; turned round at the end
    chain: list[tuple[Op, Op]] = field(default_factory=list)  # elementwise operators that may become one kernel
    elements: int = 0  # of the chain
    products: int = 0
    chains: int = 0

    def __post_init__(self) -> None:
        self.make = Maker(self.gpu, self.work.precision)

    def product(self, m: int, k: int, n: int, *, bias: bool = True) -> None:
        """Add a linear layer over m rows."""
        self.flush()
        shapes = self._shapes([[n], [m, k], [k, n]])
        dx, dw = self._shapes([[m, n], [n, k]]), self._shapes([[n, m], [m, k]])
        names = ("aten::linear", "aten::addmm") if bias else ("aten::linear", "aten::matmul", "aten::mm")
        weight = self._casts((m * k + k * n,))
        ways = [self._products(self.make.product(m, n, k), flavour) for flavour in ("tn", "nn", "nt")]
        ways[1] = self._products(self.make.product(m, k, n), "nn")
        ways[2] = self._products(self.make.product(k, n, m), "nt")
        self.products += 1
        self.forward += [*weight, call(*names, kernels=ways[0], shapes=shapes)]
        name = "AddmmBackward0" if bias else "MmBackward0"
        ops = [node(name, "aten::mm", kernels=ways[1], shapes=dx), call("aten::mm", kernels=ways[2], shapes=dw)]
        if bias:
            ops.append(call("aten::sum", kernels=(Kernel(REDUCE, self.make.memory_us(m * n * self.make.width), 512),)))
        self._gradient(ops, (k * n, n) if bias else (k * n,))

    def convolution(self, batch: int, channels_in: int, channels: int, size: int, kernel: int) -> None:
        """Add a convolution without bias; `size` is a side of its output in pixels."""
        self.flush()
        elements, patch = batch * channels * size * size, channels_in * kernel * kernel
        source = batch * channels_in * size * size
        around = self._layouts(source), self._layouts(elements)
        self.products += 1
        shapes = self._shapes([[batch, channels_in, size, size], [channels, channels_in, kernel, kernel]])
        names = ("aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution")
        ways = {way: self._convolution(elements, patch, channels, way) for way in ("fprop", "dgrad", "wgrad")}
        kernels = (*around[0], *ways["fprop"], *around[1])
        self.forward += [*self._casts((source,)), call(*names, kernels=kernels, shapes=shapes)]
        back = (*around[1], *ways["dgrad"], *ways["wgrad"], *around[0])
        op = node("ConvolutionBackward0", "aten::convolution_backward", kernels=back, shapes=shapes)
        self._gradient([op._replace(us=op.us + 10)], (patch * channels,))

    def batch_norm(self, elements: int, channels: int) -> None:
        """Add a batch normalization."""
        fw, bw = self.make.norm("batch", elements, 3), self.make.norm("batch_grad", elements, 5)
        forward = call("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::cudnn_batch_norm", kernels=(fw,))
        self._normalize(
            forward, node("CudnnBatchNormBackward0", "aten::cudnn_batch_norm_backward", kernels=(bw,)), channels
        )

    def layer_norm(self, rows: int, width: int) -> None:
        """Add a layer normalization."""
        elements = rows * width
        fw = call("aten::layer_norm", "aten::native_layer_norm", kernels=(self.make.norm("layer", elements, 2),))
        back = self.make.norm("layer_grad", elements, 3), self.make.norm("layer_params", elements, 2)
        self._normalize(fw, node("NativeLayerNormBackward0", "aten::native_layer_norm_backward", kernels=back), width)

    def group_norm(self, elements: int, channels: int) -> None:
        """Add a group normalization."""
        scale = self.make.elementwise("BinaryFunctor<float, MulFunctor>", elements, 2)
        fw = call("aten::group_norm", "aten::native_group_norm", kernels=(self.make.norm("group", elements, 1), scale))
        back = (
            self.make.norm("group", elements, 2),
            self.make.elementwise("BinaryFunctor<float, AddFunctor>", elements, 3),
        )
        self._normalize(
            fw, node("NativeGroupNormBackward0", "aten::native_group_norm_backward", kernels=back), channels
        )

    def pointwise(self, name: str, elements: int, tensors: int = 2) -> None:
        """Add an elementwise operator that reads and writes so many tensors."""
        functor = f"{name}_functor"
        fw = call(f"aten::{name}", kernels=(self.make.elementwise(functor, elements, tensors),))
        title = name.strip("_").title().replace("_", "") + "Backward0"
        bw = node(
            title,
            f"aten::{name.strip('_')}_backward",
            kernels=(self.make.elementwise(functor + "_backward", elements, tensors + 1),),
        )
        self.elements = max(self.elements, elements)
        self.chain.append((fw, bw))

    def attention(self, batch: int, heads: int, length: int, width: int) -> None:
        """Add a fused attention."""
        self.flush()
        names = (
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention",
            "aten::_flash_attention_forward",
        )
        if self.gpu.capability[0] < 8:
            self._attention_by_products(batch, heads, length, width)
            return
        fw = self.make.attention(batch, heads, length, width, backward=False)
        bw = self.make.attention(batch, heads, length, width, backward=True)
        self.forward.append(call(*names, kernels=(fw,)))
        name = "ScaledDotProductFlashAttentionBackward0"
        self._gradient([node(name, "aten::_scaled_dot_product_flash_attention_backward", kernels=(bw,))], ())

    def embedding(self, rows: int, width: int, parameters: int) -> None:
        """Add a table lookup."""
        self.flush()
        self.forward.append(
            call("aten::embedding", "aten::index_select", kernels=(self.make.gather(rows, width, backward=False),))
        )
        back = self.make.gather(rows, width, backward=True)
        self._gradient([node("EmbeddingBackward0", "aten::embedding_dense_backward", kernels=(back,))], (parameters,))

    def loss(self, rows: int, classes: int) -> None:
        """Add a cross entropy."""
        self.flush()
        make, elements = self.make.at("fp32"), rows * classes
        soft, back = make.norm("softmax", elements, 2), make.norm("softmax_grad", elements, 3)
        nll = Kernel(NLL.format("forward"), 4.0, 1, 32), Kernel(NLL.format("backward"), 4.0, 1, 32)
        outer = ("aten::cross_entropy_loss", "aten::log_softmax", "aten::_log_softmax")
        self.forward.append(call(*outer, kernels=(soft,)))
        self.forward.append(call("aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward", kernels=nll[:1]))
        of_nll = node("NllLossBackward0", "aten::nll_loss_backward", kernels=nll[1:])
        of_soft = node("LogSoftmaxBackward0", "aten::_log_softmax_backward_data", kernels=(back,))
        self._gradient([of_nll, of_soft], ())

    def done(self, input_bytes: int, samples: int) -> Net:
        """Return the network."""
        self.flush()
        backward = tuple(reversed(self._recomputed()))
        net = Net(tuple(self.forward), backward, input_bytes, samples)
        return self._in_pieces(net) if self.work.underfill > 1 else net

    def flush(self) -> None:
        """End a chain of elementwise operators: one kernel if compiled, one each if not."""
        if not self.chain:
            return
        eager = chosen(self.work.eager_share, self.chains) if self.work.compiled else 1.0
        self.chains += 1
        if eager < 1:
            fw, bw = self._merged(0, 1 - eager), self._merged(1, 1 - eager)
            self.forward.append(fw)
            self._gradient([bw], ())
        if eager > 0:
            for fw, bw in self.chain:
                self.forward.append(part(fw, eager))
                self._gradient([part(bw, eager)], ())
        self.chain, self.elements = [], 0

    def _merged(self, way: int, share: float) -> Op:
        """Return the chain's operators as the one kernel that Inductor makes of them; way 0 is forward, 1 backward."""
        kernels = [kernel for ops in self.chain for kernel in ops[way].kernels]
        words = "_".join(ops[0].names[0].removeprefix("aten::").strip("_") for ops in self.chain)
        us = max(2.0, max(kernel.us for kernel in kernels) * 1.1)
        fused = Kernel(
            f"triton_{'red' if 'norm' in words else 'poi'}_fused_{words}_{way}", us * share, kernels[0].blocks
        )
        region = "CompiledFunctionBackward" if way else "Torch-Compiled Region: 0/0"
        return call(region, f"triton_fused_{words}", kernels=(fused,), us=-2.0)

    def _normalize(self, forward: Op, backward: Op, channels: int) -> None:
        if self.work.compiled:
            self.chain.append((forward, backward))
            self._gradient([], (channels, channels))
            return
        self.flush()
        self.forward.append(forward)
        self._gradient([backward], (channels, channels))

    def _gradient(self, ops: list[Op], parameters: tuple[int, ...]) -> None:
        self.backward.append(Gradient((*ops, *[ACCUMULATE] * len(parameters)), parameters))

    def _attention_by_products(self, batch: int, heads: int, length: int, width: int) -> None:
        scores = self.make.product(length, length, width, batch * heads)
        values = self.make.product(length, width, length, batch * heads)
        elements = batch * heads * length * length
        self.forward.append(call("aten::matmul", "aten::bmm", kernels=(scores,)))
        self._gradient([node("BmmBackward0", "aten::bmm", kernels=(scores,)), call("aten::bmm", kernels=(scores,))], ())
        soft, back = self.make.norm("softmax", elements, 2), self.make.norm("softmax_grad", elements, 3)
        self.forward.append(call("aten::softmax", "aten::_softmax", kernels=(soft,)))
        self._gradient([node("SoftmaxBackward0", "aten::_softmax_backward_data", kernels=(back,))], ())
        self.forward.append(call("aten::matmul", "aten::bmm", kernels=(values,)))
        self._gradient([node("BmmBackward0", "aten::bmm", kernels=(values,)), call("aten::bmm", kernels=(values,))], ())

    def _products(self, kernel: Kernel, flavour: str) -> tuple[Kernel, ...]:
        """Return a product as it runs: on tensor cores, beside them, or with sizes that they do not like."""
        kernel = kernel._replace(name=self.make.product_name(flavour))
        plain = chosen(self.work.plain_share, self.products)
        if plain:
            make = self.make.at("fp32")
            slow = kernel._replace(name=make.product_name(flavour), us=kernel.us * self.make.rate / make.rate)
            return split(kernel, slow, plain)
        odd = chosen(self.work.odd_share, self.products)
        slow = kernel._replace(
            us=kernel.us * self.work.odd_factor, name=kernel.name.replace("ldg8", "ldg1").replace("128x128", "128x64")
        )
        return split(kernel, slow, odd)

    def _convolution(self, elements: int, patch: int, channels: int, way: str) -> tuple[Kernel, ...]:
        kernel = self.make.convolution(elements, patch, channels, way)
        plain = chosen(self.work.plain_share, self.products)
        slow = self.make.at("fp32").convolution(elements, patch, channels, way)
        return split(kernel, slow, plain)

    def _casts(self, sizes: tuple[int, ...]) -> list[Op]:
        """Return what casts the operands of a product, if they come in fp32."""
        share = chosen(self.work.cast_share, self.products)
        if not share or self.make.width != 2:
            return []
        types = f'"Input type": ["{self.make.type}", "float", "Scalar"]'
        ops = []
        for size in sizes:
            kernel = self.make.cast(size, "fp32", self.work.precision)
            kernel = kernel._replace(us=kernel.us * share * self.work.cast_passes)
            ops.append(
                call(
                    "aten::to",
                    "aten::_to_copy",
                    "aten::copy_",
                    kernels=(kernel,),
                    shapes=f'"Input Dims": [[{size}], [{size}], []], {types}',
                )
            )
        return ops

    def _layouts(self, elements: int) -> tuple[Kernel, ...]:
        share = chosen(self.work.layout_share, self.products)
        if not share:
            return ()
        kernel = self.make.layout(elements, "NHWC")
        return (kernel._replace(us=max(2.0, kernel.us * share * self.work.layout_passes)),)

    def _recomputed(self) -> list[Gradient]:
        """Return the gradients, with as much of the forward pass before them as is computed again."""
        share = self.work.recompute_share
        if not share:
            return self.backward
        gradients = list(self.backward)
        count = max(1, len(self.forward) // 12)
        pieces = [self.forward[i : i + count] for i in range(0, len(self.forward) - 2, count)]
        step = len(gradients) / len(pieces)
        for row, piece in enumerate(pieces):
            again = chosen(share, row)
            if again:
                around = (NODE + "CheckpointFunctionBackward", "CheckpointFunctionBackward")
                ops = [part(op._replace(names=(*around, *op.names)), again) for op in piece]
                at = min(int((row + 1) * step), len(gradients) - 1)
                gradients[at] = Gradient((*ops, *gradients[at].ops), gradients[at].parameters)
        return gradients

    def _in_pieces(self, net: Net) -> Net:
        """Return the same work in smaller pieces, each of which fills fewer multiprocessors."""
        few = max(4, int(self.gpu.multiprocessors / self.work.underfill))

        def smaller(op: Op) -> Op:
            kernels = (k._replace(us=k.us * self.work.underfill, blocks=min(k.blocks, few)) for k in op.kernels)
            return op._replace(kernels=tuple(kernels))

        backward = tuple(Gradient(tuple(map(smaller, g.ops)), g.parameters) for g in net.backward)
        return Net(tuple(map(smaller, net.forward)), backward, net.input_bytes, net.samples)

    def _shapes(self, dims: list[list[int]]) -> str:
        """Return dims and types of an operator; odd sizes where the layer has them."""
        if chosen(self.work.odd_share, self.products) > 0.5:
            dims = [[size + 1 if size > 64 else size for size in operand] for operand in dims]
        types = ", ".join(f'"{TYPES[self.work.precision]}"' for _ in dims)
        return f'"Input Dims": {dims}, "Input type": [{types}]'


def chosen(share: float, row: int) -> float:
    """Return how much of layer `row` belongs to the share: layers are taken in an even spread, the last one in part.

    Summed over n layers it is `share` times n, to within one layer, and it grows with the share for each layer.
    """
    if share <= 0:
        return 0.0
    place = (row * 7 % 16) / 16  # the order in which layers are taken
    return min(1.0, max(0.0, (share - place) * 16))


def split(first: Kernel, second: Kernel, share: float) -> tuple[Kernel, ...]:
    """Return a piece of work of which a share runs the second way."""
    if share <= 0:
        return (first,)
    if share >= 1:
        return (second,)
    return (first._replace(us=first.us * (1 - share)), second._replace(us=second.us * share))


def part(op: Op, share: float) -> Op:
    """Return a part of an operator's work."""
    return op if share >= 1 else op._replace(kernels=tuple(k._replace(us=k.us * share) for k in op.kernels))
