from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called
from whyidle.lint.job import Job
from whyidle.lint.rules.reached import is_unconditional

SAVES = {
    "torch.save", "torch.distributed.checkpoint.save", "torch.distributed.checkpoint.save_state_dict",
    "safetensors.torch.save_file", "safetensors.torch.save_model",
}  # fmt: skip
METHODS = {".save_pretrained", ".save_state", ".save_checkpoint", ".save_model"}
# Steps between two saves from which on we are silent. Judgement: a save takes as long as one to a hundred steps.
OFTEN = 100
DEMO = 1000  # steps of a whole training: shorter ones show how to do something, and save to show that, too


class CheckpointSync(Check):
    """A checkpoint is written in every step, or every few steps, and training waits for it.

    ## Why it costs time
    A save copies all parameters to the host, serializes and writes them, in the training thread. That takes from some
    tenths of a second to minutes, and with several ranks all of them wait.

    ## How we know
    A call that saves stands in the training loop with nothing before it that makes it rare, or with a counter whose
    number of steps is spelled out and below 100 (our judgement: a save often takes as long as so many steps). How much
    is written, and to where, cannot be seen in the source.

    ## When to ignore it
    Steps that take minutes, or states of some kilobytes.
    """

    cost = "pause"

    def end(self, job: Job) -> Iterator[Hit]:
        for event in job.events:
            if isinstance(event, Called):
                yield from self._one(event, job)

    def _one(self, event: Called, job: Job) -> Iterator[Hit]:
        where = event.where
        if event.name in SAVES or event.name in METHODS:
            if where.phase == "step" and where.work == "train" and not where.inner:
                yield from self._in_loop(event, job)
        elif event.name.endswith("TrainingArguments"):
            yield from self._by_setting(event, "save_steps", "max_steps")
        elif event.name.endswith(".ModelCheckpoint"):
            yield from self._by_setting(event, "every_n_train_steps", "")

    def _in_loop(self, event: Called, job: Job) -> Iterator[Hit]:
        where, call = event.where, ast.unparse(event.node)
        if where.guard == "" and where.every == 1 and is_unconditional(event, job):
            yield Hit(
                node=event.node,
                message=f"`{_short(event)}` writes a checkpoint in every step, and training waits until it is written.",
                severity="medium",
                confidence=0.9,
                source=event.source,
                title="save every so many minutes of work",
                change=f"if (step + 1) % 1000 == 0:\n    {call}",
                risk="up to so many steps are lost in a crash",
            )
        elif where.guard in {"", "rare"} and 1 < where.every < OFTEN:
            yield self._small(event, where.every)

    def _by_setting(self, event: Called, name: str, total: str) -> Iterator[Hit]:
        """Yield a finding for a trainer's setting of steps between two saves."""
        value, steps, by = (event.keywords.get(one) for one in (name, total, "save_strategy"))
        if by is not None and by.constant != "steps":
            return
        every = value.constant if value is not None and value.known else None
        if steps is not None and isinstance(steps.constant, int) and 0 < steps.constant < DEMO:
            return
        if isinstance(every, int) and 0 < every < OFTEN and event.where.guard not in {"rare", "error"}:
            yield self._small(event, every, setting=name)

    def _small(self, event: Called, every: int, setting: str = "") -> Hit:
        steps = "every step" if every == 1 else f"every {every} steps"
        return Hit(
            node=event.node,
            message=f"A checkpoint is written {'in ' if every == 1 else ''}{steps}, and training waits for each.",
            severity="low",
            confidence=0.7 if not setting else 0.5,
            source=event.source,
            title="save less often",
            change=f"{setting}=1000" if setting else f"if step % 1000 == 0:\n    {ast.unparse(event.node)}",
            effort="argument" if setting else "code",
            risk="up to so many steps are lost in a crash",
        )

    cases = (
        Invalid(
            "left in the loop by its indent",
            """
import torch

def train(model, loader, optimizer, epochs):
    model.cuda()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            torch.save(model.state_dict(), "last.pt")  # !
""",
        ),
        Invalid(
            "every ten steps",
            """
import torch

def train(model, loader, optimizer):
    for step, batch in enumerate(loader):
        loss = model(batch["x"].to("cuda"), batch["y"].to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            model.save_pretrained("out")  # !
""",
        ),
        Invalid(
            "a trainer's setting",
            """
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(  # !
    output_dir="out",
    num_train_epochs=3,
    per_device_train_batch_size=16,
    save_strategy="steps",
    save_steps=5,
)
Trainer(model=model, args=arguments, train_dataset=train_set).train()
""",
        ),
        Valid(
            "once per epoch, and the best",
            """
import torch

def train(model, train_loader, val_loader, optimizer, epochs):
    best = 0.0
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        accuracy = evaluate(model, val_loader)
        torch.save(model.state_dict(), f"epoch_{epoch}.pt")
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), "best.pt")
""",
        ),
        Valid(
            "by a setting, and seldom",
            """
import torch

def train(args, model, loader, optimizer):
    for step, (x, y) in enumerate(loader, 1):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % args.ckpt_every == 0:
            torch.save({"model": model.state_dict(), "step": step}, f"{step:07d}.pt")
        if step % 5000 == 0:
            torch.save(optimizer.state_dict(), "optimizer.pt")
""",
        ),
        Valid(
            "the results of an inference",
            """
import torch

@torch.no_grad()
def extract(model, loader, folder):
    model.eval().cuda()
    for i, (x, name) in enumerate(loader):
        torch.save(model(x.cuda()), folder / f"{i}.pt")
""",
        ),
        Valid(
            "a demonstration of sixty steps",
            """
from transformers import TrainingArguments

arguments = TrainingArguments(output_dir="out", max_steps=60, save_steps=20, save_strategy="steps")
""",
        ),
    )


def _short(event: Called) -> str:
    return f"{ast.unparse(event.node.func)}()"
