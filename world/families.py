"""The six families of jobs: their networks, layer by layer, and the optimizer's step over their parameters."""

from __future__ import annotations

from collections.abc import Callable

from world.kernels import Maker, Op
from world.machine import Gpu
from world.nets import Builder, Net, Work, call


def cnn(b: Builder) -> Net:
    """A plain convolutional network on small pictures."""
    batch = max(1, round(384 * b.work.batch_scale))
    layers = (
        (3, 64, 64),
        (64, 128, 64),
        (128, 128, 32),
        (128, 256, 32),
        (256, 256, 16),
        (256, 512, 16),
        (512, 512, 8),
        (512, 512, 8),
    )
    for channels_in, channels, size in layers:
        b.convolution(batch, channels_in, channels, size, 3)
        b.batch_norm(batch * channels * size * size, channels)
        b.pointwise("relu_", batch * channels * size * size)
    b.product(batch, 512, 1000)
    b.loss(batch, 1000)
    return b.done(batch * 3 * 64 * 64 * 4, batch)


def resnet(b: Builder) -> Net:
    """ResNet-50 (He et al. 2015, table 1) on pictures of 224 x 224."""
    batch = max(1, round(96 * b.work.batch_scale))

    def layer(channels_in: int, channels: int, size: int, kernel: int, *, add: bool = False) -> None:
        elements = batch * channels * size * size
        b.convolution(batch, channels_in, channels, size, kernel)
        b.batch_norm(elements, channels)
        if add:
            b.pointwise("add_", elements, 3)
        b.pointwise("relu_", elements)

    layer(3, 64, 112, 7)
    channels_in = 64
    for width, size, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        for _ in range(blocks):
            layer(channels_in, width, size, 1)
            layer(width, width, size, 3)
            layer(width, 4 * width, size, 1, add=True)
            channels_in = 4 * width
    b.product(batch, 2048, 1000)
    b.loss(batch, 1000)
    return b.done(batch * 3 * 224 * 224 * 4, batch)


def transformer(b: Builder, batch: int, length: int, width: int, layers: int, vocabulary: int, heads: int) -> Net:
    """Layers of attention and two linear layers between an embedding and a loss."""
    rows = batch * length
    b.embedding(rows, width, vocabulary * width // 8)
    for _ in range(layers):
        b.layer_norm(rows, width)
        b.product(rows, width, 3 * width)
        b.attention(batch, heads, length, width // heads)
        b.product(rows, width, width)
        b.pointwise("dropout", rows * width, 2)
        b.pointwise("add", rows * width, 3)
        b.layer_norm(rows, width)
        b.product(rows, width, 4 * width)
        b.pointwise("gelu", rows * 4 * width)
        b.product(rows, 4 * width, width)
        b.pointwise("add", rows * width, 3)
    b.layer_norm(rows, width)
    b.product(rows // 4, width, vocabulary, bias=False)
    b.loss(rows // 4, vocabulary)
    return b.done(rows * 8, batch)


def bert(b: Builder) -> Net:
    """BERT-base on sentences of 128 tokens."""
    return transformer(b, max(1, round(160 * b.work.batch_scale)), 128, 768, 12, 30528, 12)


def gpt(b: Builder) -> Net:
    """A GPT of 12 layers on sequences of 1024 tokens."""
    return transformer(b, max(1, round(8 * b.work.batch_scale)), 1024, 1536, 12, 32000, 12)


def dlrm(b: Builder) -> Net:
    """A recommendation model: tables of embeddings between two stacks of linear layers."""
    batch = max(1, round(32768 * b.work.batch_scale))
    for m, n in ((512, 512), (512, 256), (256, 128)):
        b.product(batch, m, n)
        b.pointwise("relu", batch * n)
    for _ in range(16):
        b.embedding(batch * 4, 128, 1_000_000)
    for m, n in ((1024, 2048), (2048, 2048), (2048, 1024), (1024, 256)):
        b.product(batch, m, n)
        b.pointwise("relu", batch * n)
    b.loss(batch, 2)
    return b.done(batch * (26 * 8 + 13 * 4), batch)


def diffusion(b: Builder) -> Net:
    """A U-Net that removes noise from latents of 64 x 64."""
    batch = max(1, round(24 * b.work.batch_scale))
    levels = ((192, 64), (384, 32), (768, 16))
    for channels, size in (*levels, *reversed(levels)):
        elements = batch * channels * size * size
        for _ in range(2):
            for _ in range(2):
                b.group_norm(elements, channels)
                b.pointwise("silu", elements)
                b.convolution(batch, channels, channels, size, 3)
            b.pointwise("add", elements, 3)
        if size < 64:
            rows = batch * size * size
            b.layer_norm(rows, channels)
            b.product(rows, channels, 3 * channels)
            b.attention(batch, 8, size * size, channels // 8)
            b.product(rows, channels, channels)
            b.pointwise("add", rows * channels, 3)
    b.convolution(batch, 192, 4, 64, 3)
    b.pointwise("mse_loss", batch * 4 * 64 * 64)
    return b.done(batch * 4 * 64 * 64 * 4 + batch * 77 * 8, batch)


FAMILIES: dict[str, Callable[[Builder], Net]] = {
    "cnn": cnn, "resnet": resnet, "bert": bert, "gpt": gpt, "dlrm": dlrm, "diffusion": diffusion,
}  # fmt: skip


def optimizer(parameters: tuple[int, ...], gpu: Gpu, looped_share: float) -> tuple[Op, ...]:
    """Return AdamW's step over these parameters: in a loop over a share of them, fused over the others."""
    make = Maker(gpu, "fp32")
    looped = len(parameters) * looped_share
    whole = round(looped + 0.4999)
    rest = parameters[whole:]
    ops = []
    if rest:
        chunks = max(1, len(rest) // 40)
        kernel = make.foreach("FusedAdamMathFunctor", 4, sum(rest) * 7 // 4 // chunks)
        ops.append(call("aten::_fused_adamw_", kernels=(kernel,) * chunks, us=90))
    for row, size in enumerate(parameters[:whole]):
        part_of = min(1.0, looped - row)
        for name, tensors in (
            ("mul_", 2),
            ("lerp_", 3),
            ("mul_", 2),
            ("addcmul_", 4),
            ("sqrt", 2),
            ("div", 3),
            ("add_", 2),
            ("addcdiv_", 4),
        ):
            kernel = make.elementwise(f"{name}_functor<float>", size, tensors, 4)
            op = call(f"aten::{name}", kernels=(kernel._replace(us=max(1.0, kernel.us * part_of)),))
            ops.append(op._replace(us=op.us * part_of))
    return tuple(ops)


def build(family: str, gpu: Gpu, work: Work) -> Net:
    """Return the network of a family as this work is done on this GPU."""
    return FAMILIES[family](Builder(gpu, work))
