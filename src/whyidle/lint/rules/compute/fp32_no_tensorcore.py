from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import block_around
from whyidle.lint.engine.guess import named
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import last_name
from whyidle.lint.precision import is_thought_of
from whyidle.lint.repair import Repair, Wrap

_ATTENTION = re.compile(r"^torch\.nn\.(Transformer\w*|MultiheadAttention)$|^transformers\.\w+\.from_pretrained$")
_TRAINERS = re.compile(
    r"(^|\.)(TrainingArguments|Seq2SeqTrainingArguments)$|^(pytorch_)?lightning(\.pytorch)?\.Trainer$"
)
_NO_MODEL = re.compile(r"tokenizer|processor|config", re.IGNORECASE)
_LARGE = 1024  # of a linear layer, both sizes: smaller ones are no time worth the change
_REFUSED = re.compile(r"BCELoss\(|binary_cross_entropy\(")  # autocast raises an error for these
_HEADER = 'with torch.autocast("cuda", dtype=torch.bfloat16):'


class Fp32NoTensorcore(Check):
    """A job with large linear layers or attention trains in fp32, beside the tensor cores.

    ## Why it costs time
    Tensor cores do matrix products several times faster than the ordinary fp32 units: 156 against 19.5 TFLOP/s on an
    A100 with TF32, twice that in 16 bits. By default PyTorch keeps fp32 matrix products off TF32.

    ## How we know
    The job trains on a GPU, and nothing in its files speaks of precision: no autocast, no 16-bit type, no scaler,
    no TF32 switch, no option of a trainer. Convolutions use TF32 by default, so nothing is said of networks made of
    them, nor of small layers. How long the products take the source does not tell.

    ## When to ignore it
    Products are a small part of the step, the calculation needs fp32, or the precision is set elsewhere: in a file
    of settings, or by who starts the job.
    """

    cost = "kernel"
    sees = (Called,)

    def __init__(self) -> None:
        self.large: Called | None = None
        self.trainer: Called | None = None

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if isinstance(event, Called):
            if self.large is None and _is_large(event):
                self.large = event
            if _TRAINERS.search(event.name) and not event.spread:
                self.trainer = event
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:
        made = self.trainer or self.large
        if made is None or job.gpu != "yes" or not (job.trains or self.trainer) or is_thought_of(job):
            return
        if job.frameworks & {"accelerate", "deepspeed"}:  # whose own settings say it
            return
        yield Hit(
            made.node,
            "Nothing in this job asks for 16 bits or TF32: linear layers and attention are then computed in fp32, "
            "without tensor cores.",
            "low",
            0.5,
            made.source,
            title="compute matrix products on tensor cores",
            change=self._change(),
            risk="fewer digits: compare the learning curve",
            repair=None if self.trainer else _wrapped(job),
        )

    def _change(self) -> str:
        tf32 = 'torch.set_float32_matmul_precision("high")  # TF32, once, before training'
        if self.trainer is None:
            return f"{tf32}\n# or, faster:\n{_HEADER}\n    loss = criterion(model(x), y)"
        name = self.trainer.name.rpartition(".")[2]
        option = "bf16=True" if "Arguments" in name else 'precision="bf16-mixed"'
        return f"{name}(..., {option})\n# or only TF32:\n{tf32}"

    cases = (
        Invalid(
            "a Transformer and nothing about precision",
            """\
import torch
from torch import nn

def train(loader, vocab):
    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True)  # !
    model = nn.Sequential(nn.Embedding(vocab, 512), nn.TransformerEncoder(layer, 6), nn.Linear(512, vocab)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for ids, targets in loader:
        ids, targets = ids.to("cuda", non_blocking=True), targets.to("cuda", non_blocking=True)
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "a Trainer without an option for it",
            """\
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")

def main(dataset):
    arguments = TrainingArguments("out", per_device_train_batch_size=32, dataloader_num_workers=4)  # !
    Trainer(model=model, args=arguments, train_dataset=dataset).train()
""",
        ),
        Valid(
            "TF32 is allowed",
            """\
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True

def train(loader, optimizer):
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).cuda()
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "convolutions, which use TF32 anyway, and a small head",
            """\
import torch
import torchvision

def train(loader):
    model = torchvision.models.resnet50()
    model.fc = torch.nn.Linear(2048, 100)
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "whoever starts it says in which precision",
            """\
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

def train(loader):
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a policy of two small layers",
            """\
import torch
from torch import nn

def update(batches, device="cuda"):
    policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4)).to(device)
    optimizer = torch.optim.Adam(policy.parameters())
    for states, actions in batches:
        loss = nn.functional.cross_entropy(policy(states.to(device)), actions.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_large(call: Called) -> bool:
    """Say whether a call makes a part of a network whose matrix products may be most of the work."""
    if _ATTENTION.search(call.name):
        return not _NO_MODEL.search(call.name)
    if call.name == "torch.nn.Linear":
        sizes = (call.argument(0, "in_features"), call.argument(1, "out_features"))
        return all(size is not None and isinstance(size.constant, int) and size.constant >= _LARGE for size in sizes)
    return False


def _wrapped(job: Job) -> Repair | None:
    """Return the forward pass and the loss below autocast, where both stand in one block before the backward pass."""
    backwards = [one for one in job.calls(".backward") if one.where.hot and one.source is job.source]
    if len({id(one.node) for one in backwards}) != 1 or _REFUSED.search(job.source.text):
        return None
    block = block_around(job.source, backwards[0].statement)
    last = next((number for number, statement in enumerate(block) if statement is backwards[0].statement), 0)
    forward = next((number for number, statement in enumerate(block[:last]) if _calls_model(statement)), None)
    if forward is None or not all(
        isinstance(one, ast.Assign | ast.AugAssign | ast.Expr) for one in block[forward:last]
    ):
        return None
    wrap = Wrap(block[forward], block[last - 1], _HEADER)
    return Repair((wrap,), safe=False, note="bfloat16 has fewer digits: compare the learning curve")


def _calls_model(statement: ast.stmt) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return isinstance(statement, ast.Assign) and any(
        isinstance(call.func, ast.Name | ast.Attribute) and named(last_name(call.func)).kind == "module"
        for call in calls
    )
