from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import each_step, rhythm, severity
from whyidle.lint.repair import Remove, Repair

_EMPTIES = {
    "torch.cuda.empty_cache",
    "torch.cuda.memory.empty_cache",
    "torch.accelerator.empty_cache",
    "torch.accelerator.memory.empty_cache",
}


class AllocatorThrash(Check):
    """The memory that PyTorch keeps for the next step is given back to the driver in every step.

    ## Why it costs time
    `torch.cuda.empty_cache()` waits until the GPU has done its work and frees all unused blocks. The next step then
    has to ask the driver for each of them again, which waits, too. It does not make more memory available to the
    job itself: what it frees, PyTorch would have used again.

    ## How we know
    The call stands in a loop over batches or in a function called from one, and no counter makes it rare.

    ## When to ignore it
    Another process needs the memory between steps, or shapes vary so much that fragments fill the GPU. Once every
    some hundred steps is then enough, and `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` is often better.
    """

    cost = "drain"
    sees = (Called,)
    calls = frozenset({"empty_cache"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name not in _EMPTIES or job.gpu == "no":
            return
        if not each_step(event.where):
            return
        yield Hit(
            event.node,
            f"`{ast.unparse(event.node)}` runs {rhythm(event)}: it waits for the GPU, and what it frees has to be "
            "allocated anew.",
            severity(event.where),
            0.9 if event.where.guard == "" else 0.7,
            event.source,
            title="call it once per epoch, or not at all",
            change=f"# without {ast.unparse(event.node)} in the loop; if memory is in fragments:\n"
            "# export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            risk="more memory stays reserved; other programs on this GPU have less",
            repair=None if event.used else Repair((Remove(event.statement),), safe=False, note="memory stays reserved"),
        )

    cases = (
        Invalid(
            "after each step, and harmless after the epoch",
            """\
import torch
from torch.utils.data import DataLoader

def train_epoch(model, criterion, dataset, optimizer):
    model.cuda().train()
    loader = DataLoader(dataset, batch_size=32, num_workers=4, pin_memory=True)
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
        del images, labels
        torch.cuda.empty_cache()  # !
    torch.cuda.empty_cache()
""",
        ),
        Invalid(
            "in a function that the loop calls, and for each batch of the evaluation",
            """\
import torch

def clean_up():
    torch.cuda.empty_cache()  # !

def fit(model, train_loader, val_loader, optimizer):
    for epoch in range(10):
        for batch in train_loader:
            loss = model(batch.to("cuda")).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            clean_up()
        model.eval()
        with torch.no_grad():
            for batch in val_loader:
                model(batch.to("cuda"))
                torch.cuda.empty_cache()  # !
""",
        ),
        Valid(
            "every 200 steps, and when memory has run out",
            """\
import torch

def fit(model, loader, optimizer):
    for step, batch in enumerate(loader):
        try:
            loss = model(batch.cuda()).mean()
            loss.backward()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            optimizer.zero_grad()
            continue
        optimizer.step()
        optimizer.zero_grad()
        if step % 200 == 0:
            torch.cuda.empty_cache()
""",
        ),
        Valid(
            "between training and validation",
            """\
import torch

def run(model, train_loader, val_loader, optimizer, epochs):
    for epoch in range(epochs):
        for batch in train_loader:
            model(batch.cuda()).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.empty_cache()
        with torch.no_grad():
            for batch in val_loader:
                model(batch.cuda())
""",
        ),
        Valid(
            "a helper that nothing in sight calls in a loop",
            """\
import gc
import torch

def free_memory():
    gc.collect()
    torch.cuda.empty_cache()

def validate(pipeline, prompts):
    images = [pipeline(prompt).images[0] for prompt in prompts]
    del pipeline
    free_memory()
    return images
""",
        ),
    )
