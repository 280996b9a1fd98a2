from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.precision import is_sixteen_bit
from whyidle.lint.values import Value

# Sizes that layers are made with, by place and name, and on which side of a matrix product they stand.
_LAYERS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "torch.nn.Linear": ((0, "in_features", "in"), (1, "out_features", "out")),
    "torch.nn.Embedding": ((1, "embedding_dim", "out"),),
    "torch.nn.LSTM": ((0, "input_size", "in"), (1, "hidden_size", "both")),
    "torch.nn.GRU": ((0, "input_size", "in"), (1, "hidden_size", "both")),
    "torch.nn.MultiheadAttention": ((0, "embed_dim", "both"),),
    "torch.nn.TransformerEncoderLayer": ((0, "d_model", "both"), (2, "dim_feedforward", "both")),
    "torch.nn.TransformerDecoderLayer": ((0, "d_model", "both"), (2, "dim_feedforward", "both")),
}
_VOCABULARY = 4096  # outputs: below it the layer is small beside the rest of its network
_HIDDEN = 512


class MisalignedDims(Check):
    """A large layer of a model that computes in 16 bits has a size that is no multiple of 8.

    ## Why it costs time
    Tensor cores read 16 bytes at a time, 8 values of 16 bits. If rows do not start on such a boundary, the library
    takes a slower kernel or copies first. A vocabulary of 50257 is the well-known case: with 50304 a whole training
    was 1.04 times as fast.

    ## How we know
    The size stands in the source, as a number or as the default of an argument: an output of 4096 or more, or a hidden
    size of 512 or more that one layer gives and another takes. The job computes in 16 bits. Small heads (10 classes),
    inputs of 3 channels and sizes that a checkpoint or a tokenizer brings are not looked at.

    ## When to ignore it
    A checkpoint fixes the size, or the library has a good kernel for it: recent ones cope with many odd sizes.
    """

    cost = "kernel"
    sees = (Called,)
    calls = ends(_LAYERS)

    def __init__(self) -> None:
        self.sides: dict[int, set[str]] = {}
        self.aligned: set[tuple[int, int]] = set()  # arguments that were met with a good size, too
        self.places: dict[int, tuple[int, Value, Called]] = {}

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if isinstance(event, Called) and job.gpu != "no":
            for position, keyword, side in _LAYERS.get(event.name, ()):
                value = event.argument(position, keyword)
                size = value.constant if value is not None else None
                if value is None or not isinstance(size, int) or size < _HIDDEN:
                    continue
                if size % 8 == 0:
                    self.aligned.add((id(event.node), position))
                    continue
                self.sides.setdefault(size, set()).update({"in", "out"} if side == "both" else {side})
                self.places.setdefault(size, (position, value, event))
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:
        found = {
            size: place
            for size, place in self.places.items()
            if self.sides[size] == {"in", "out"} or (size >= _VOCABULARY and "out" in self.sides[size])
        }
        if not found or not job.trains or not is_sixteen_bit(job):
            return
        for size, (position, value, event) in found.items():
            if (id(event.node), position) in self.aligned:  # the default is not what the job uses
                continue
            spelled = value.node if isinstance(value.node, ast.Constant) else None
            better = -(-size // 64) * 64
            name = f"`{value.name}={size}`" if spelled is not None and value.name else f"A layer's size of {size}"
            yield Hit(
                spelled or event.node,
                f"{name} is no multiple of 8: matrix products of this size in 16 bits can take a slower kernel.",
                "low",
                0.5,
                event.source,
                title="round the size up",
                change=f"{value.name or 'size'} = {better}  # the next multiple of 64; of 8: {-(-size // 8) * 8}",
                effort="setting",
                risk="a model of another size: checkpoints do not fit; added outputs are never used",
            )

    cases = (
        Invalid(
            "the vocabulary of GPT-2, as the default of an argument",
            """\
import torch
from torch import nn

class LanguageModel(nn.Module):
    def __init__(self, vocab_size=50257, dim=768):  # !
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 12), 12)
        self.head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))

def train(loader):
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids, targets in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids.cuda(non_blocking=True))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.cuda(non_blocking=True).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "an odd hidden size",
            """\
import torch
from torch import nn

net = nn.Sequential(
    nn.Linear(512, 1001),  # !
    nn.ReLU(),
    nn.Linear(1001, 1001),
    nn.ReLU(),
    nn.Linear(1001, 10),
).cuda()

def train(loader, optimizer):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "small heads and few channels",
            """\
import torch
from torch import nn

class Classifier(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3)
        self.hidden = nn.Linear(64, 1024)
        self.head = nn.Linear(1024, classes)
        self.other = nn.Linear(1024, 1001)
        self.value = nn.Linear(1024, 1)

    def forward(self, x):
        return self.head(self.hidden(self.stem(x).mean((2, 3))))

def train(loader, optimizer):
    model = Classifier().cuda()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "rounded up already",
            """\
import torch
from torch import nn

class LanguageModel(nn.Module):
    def __init__(self, vocab_size=50304, dim=768):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, ids):
        return self.head(self.embed(ids))

def train(loader, optimizer):
    model = LanguageModel().cuda()
    for ids in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids.cuda()).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "in fp32, where no tensor core is asked",
            """\
import torch
from torch import nn

def train(loader, optimizer):
    net = nn.Sequential(nn.Linear(999, 999), nn.ReLU(), nn.Linear(999, 50257)).cuda()
    for x in loader:
        net(x.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )
