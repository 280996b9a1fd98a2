from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.precision import is_sixteen_bit, sources

# Networks of convolutions among those of torchvision and timm; the others are made of attention or of both.
_NETWORKS = re.compile(
    r"^(wide_)?(se_?)?resne[xs]?t|^regnet|^efficientnet|^convnext|^densenet|^mobilenet|^vgg|^mnasnet|^shufflenet|^inception"
    r"|^googlenet|^squeezenet|^(fcn|deeplabv3)_"
)
_MAKES_LAYOUT = re.compile(r"channels_last|\bNHWC\b", re.IGNORECASE)


class ChannelsLast(Check):
    """A network of convolutions trains in 16 bits with its images in the layout that tensor cores do not read.

    ## Why it costs time
    The kernels for 16-bit convolutions want the channels of a pixel beside each other (NHWC). PyTorch keeps images as
    planes (NCHW) unless told otherwise, and then converts before and after convolutions, in kernels of their own.

    ## How we know
    A known network of convolutions, or several `Conv2d` layers, are trained on the GPU under autocast or in 16
    bits, and `channels_last` stands nowhere in the source. What the conversions cost only a trace tells.

    ## When to ignore it
    Custom layers that assume planes, very few channels, or other work that takes most of the step. In fp32 planes are
    as good.
    """

    cost = "kernel"
    sees = (Called,)

    def __init__(self) -> None:
        self.network: Called | None = None
        self.layers: list[Called] = []

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if isinstance(event, Called):
            if self.network is None and _is_network(event):
                self.network = event
            if event.name == "torch.nn.Conv2d" and _is_wide(event):
                self.layers.append(event)
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:
        several = len({id(layer.node) for layer in self.layers}) >= 3
        made = self.network or (self.layers[0] if several else None)
        if made is None or not job.trains or job.gpu == "no" or not is_sixteen_bit(job):
            return
        if any(_MAKES_LAYOUT.search(source.text) for source in sources(job)):
            return
        yield Hit(
            made.node,
            "Convolutions in 16 bits get their images as planes (NCHW): for the kernels of tensor cores they can have "
            "to be converted in every step.",
            "low",
            0.5,
            made.source,
            title="keep model and images in channels_last",
            change="model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(device, memory_format=torch.channels_last, non_blocking=True)  # in the loop",
            risk="views that assume planes fail; last digits may differ",
        )

    cases = (
        Invalid(
            "a ResNet under autocast",
            """\
import torch
import torchvision

model = torchvision.models.resnet50(weights=None).cuda()  # !
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")

def train(loader):
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "layers of its own",
            """\
import torch
from torch import nn

class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(64, 128, 3, padding=1)  # !
        self.middle = nn.Conv2d(128, 128, 3, padding=1)
        self.up = nn.Conv2d(128, 64, 3, padding=1)

    def forward(self, x):
        return self.up(self.middle(self.down(x)))

def train(loader, optimizer):
    model = UNet().cuda()
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "in fp32",
            """\
import torch
import torchvision

def train(loader):
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "in channels_last",
            """\
import torch
import torchvision

def train(loader):
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "one convolution that cuts an image into patches, then attention",
            """\
import torch
from torch import nn

class ViT(nn.Module):
    def __init__(self, dim=768):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 16, stride=16)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 12), 12)

    def forward(self, x):
        return self.blocks(self.patches(x).flatten(2).transpose(1, 2))

def train(loader, optimizer):
    model = ViT().cuda()
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_network(call: Called) -> bool:
    if call.name.startswith("torchvision.models."):
        return bool(_NETWORKS.match(call.name.rpartition(".")[2]))
    if call.name in {"timm.create_model", "timm.models.create_model"} and call.node.args:
        name = call.node.args[0]
        return isinstance(name, ast.Constant) and isinstance(name.value, str) and bool(_NETWORKS.match(name.value))
    return False


def _is_wide(call: Called) -> bool:
    """Say whether a convolution has a kernel larger than one pixel; a stride as large cuts patches."""
    kernel, stride = call.argument(2, "kernel_size"), call.argument(3, "stride")
    if kernel is None or not isinstance(kernel.constant, int) or kernel.constant < 3:
        return False
    return stride is None or stride.constant != kernel.constant
