from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import function_around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job

_MAKES = {"torch.zeros", "torch.ones", "torch.full", "torch.empty", "numpy.zeros", "numpy.ones", "numpy.full"}
_FEEDS = re.compile(r"torch\.utils\.data|\bDataset\b")
_LONG = 256  # tokens: below it the padding of a batch is small beside what each step costs anyway


class PaddingWaste(Check):
    """Every batch is padded to the longest length that is allowed, instead of to its own longest item.

    ## Why it costs time
    The GPU computes padding like anything else, attention by its square. Where items are much shorter than the limit,
    most of the work is for nothing: in one public case 90% of the tokens.

    ## How we know
    A function makes a tensor of `len(items)` rows and a length that is a number of 256 or more, and fills each row up
    to the item's length. Or a tokenizer is told `padding="max_length"` in a program that trains, or that makes
    data sets. How long items are we do not see.

    ## When to ignore it
    Nearly all items have full length, or shapes have to stay the same: `torch.compile`, CUDA graphs, TPUs, a text
    encoder that was trained with all positions.
    """

    cost = "kernel"
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.where.guard or "torch.compile" in event.source.text:
            return
        if event.name in _MAKES and _pads_rows(event):
            length = ast.unparse(_size(event.node)[1])
            message = (
                f"Each batch is padded to `{length}`, however short its items are: the GPU computes the padding, too."
            )
            items = ast.unparse(_size(event.node)[0])[len("len(") : -1]
            change = f"longest = max(len(item) for item in {items})  # in place of {length}"
        elif (job.trains or _FEEDS.search(event.source.text)) and _tokenizes_to_limit(event):
            message = "Each text is padded to the longest length allowed: the GPU computes the padding, too."
            change = (
                "# without padding here; then per batch:\n"
                "collate_fn = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)"
            )
        else:
            return
        yield Hit(
            event.node,
            message,
            "low",
            0.5,
            event.source,
            title="pad each batch to its own longest item",
            change=change,
            risk="shapes change from batch to batch; sorting items by length makes them change less",
        )

    cases = (
        Invalid(
            "a collate function with a constant length",
            """\
import torch
from torch.utils.data import DataLoader

MAX_TOKENS = 2048

def collate(rows):
    ids = torch.zeros(len(rows), MAX_TOKENS, dtype=torch.long)  # !
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids

def loader(dataset):
    return DataLoader(dataset, batch_size=16, collate_fn=collate, num_workers=4, pin_memory=True)
""",
        ),
        Invalid(
            "a tokenizer, over the whole data set",
            """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased").cuda()

def tokenize(examples):
    return tokenizer(examples["text"], padding="max_length", truncation=True)  # !

def train(dataset, optimizer):
    loader = DataLoader(dataset.map(tokenize, batched=True).with_format("torch"), batch_size=32)
    for batch in loader:
        loss = model(**{key: value.cuda() for key, value in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "to the longest of the batch",
            """\
import torch
from torch.utils.data import DataLoader

def collate(rows):
    longest = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids

def loader(dataset):
    return DataLoader(dataset, batch_size=16, collate_fn=collate, num_workers=4, pin_memory=True)
""",
        ),
        Valid(
            "a text encoder that expects all its positions",
            """\
import torch
from transformers import CLIPTextModel, CLIPTokenizer

tokenizer = CLIPTokenizer.from_pretrained("openai/clip-vit-large-patch14")
encoder = CLIPTextModel.from_pretrained("openai/clip-vit-large-patch14").cuda()

def train(unet, loader, optimizer):
    for images, captions in loader:
        tokens = tokenizer(
            captions, max_length=tokenizer.model_max_length, padding="max_length", truncation=True, return_tensors="pt"
        )
        unet(images.cuda(), encoder(tokens.input_ids.cuda())[0]).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "features of one size, and a table that is no batch",
            """\
import torch

def collate(rows):
    features = torch.zeros(len(rows), 512)
    for i, row in enumerate(rows):
        features[i] = torch.as_tensor(row)
    return features

def one_hot(labels):
    table = torch.zeros(len(labels), 1000)
    table[torch.arange(len(labels)), labels] = 1
    return table
""",
        ),
    )


def _size(call: ast.Call) -> list[ast.expr]:
    """Return the sizes that a tensor is made with: torch.zeros(a, b), torch.zeros((a, b))."""
    first = call.args[0] if call.args else None
    return list(first.elts) if isinstance(first, ast.Tuple | ast.List) else list(call.args)


def _pads_rows(event: Called) -> bool:
    sizes = _size(event.node)
    if len(sizes) < 2 or not ast.unparse(sizes[0]).startswith("len("):
        return False
    spread = isinstance(event.node.args[0], ast.Tuple | ast.List)
    values = (event.args[0].items or ()) if spread else event.args
    length = values[1].constant if len(values) > 1 else None
    function = function_around(event.source, event.node)
    return isinstance(length, int) and length >= _LONG and function is not None and _fills_rows(function)


def _fills_rows(function: ast.AST) -> bool:
    """Say whether rows are filled from their start up to some length: x[i, :n] = ..."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if any(isinstance(part, ast.Slice) and part.upper is not None and part.lower is None for part in parts):
                return True
    return False


def _tokenizes_to_limit(event: Called) -> bool:
    padding = event.keywords.get("padding")
    if padding is None or padding.constant != "max_length" or "tokenizer" not in ast.unparse(event.node.func).lower():
        return False
    length = next((keyword.value for keyword in event.node.keywords if keyword.arg == "max_length"), None)
    if length is None:
        return True
    limit = event.keywords["max_length"].constant
    return isinstance(limit, int) and limit >= _LONG
