"""Finds tokenizers that work while the training waits for batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job
from whyidle.lint.nodes import every
from whyidle.lint.rules.input.loaders import for_evaluation
from whyidle.lint.rules.input.worker_code import worker_code
from whyidle.lint.source import Source


class CpuTransform(Check):
    """A tokenizer is called on the texts of each batch while the DataLoader makes it.

    ## Why it costs time
    Each text is tokenized anew in every epoch. In a worker that is forked the tokenizer's own threads are off, so that
    a few workers do what all cores did, and the GPU waits when they cannot keep up.

    ## How we know
    The loader's `collate_fn`, or the `__getitem__` of its dataset, calls something that was made by
    `from_pretrained` of a tokenizer, or that is named so. `TOKENIZERS_PARALLELISM` set to false is reported with it: it
    keeps the threads off for sure. How long it takes is not in the source.

    ## When to ignore it
    Texts are short or the model is large. Texts are made anew each time (augmentation, templates), or the dataset is
    too large for its tokens to be stored.
    """

    cost = "input"

    setting = "os.environ.TOKENIZERS_PARALLELISM"

    def end(self, job: Job) -> Iterator[Hit]:
        bodies = {
            body: source for use in job.loaders if not for_evaluation(use) for body, source in worker_code(use, job)
        }
        tokenizers = {source: _pretrained_tokenizers(source) for source in bodies.values()}
        found = False
        for body, source in bodies.items():
            for call in (node for node in ast.walk(body) if isinstance(node, ast.Call)):
                if self._tokenizes(call, tokenizers[source]):
                    found = True
                    yield self._hit(call, source)
        if found:
            yield from self._threads(job)

    @staticmethod
    def _hit(call: ast.Call, source: Source) -> Hit:
        return Hit(
            call,
            f"`{ast.unparse(call.func)}(...)` tokenizes texts while a batch is made, again in each epoch: the GPU "
            "waits where that takes longer than a step.",
            "low",
            0.5,
            source=source,
            title="tokenize once, before the training",
            change=(
                "dataset = dataset.map(lambda rows: tokenizer(rows['text']), batched=True)\n"
                "collate_fn = DataCollatorWithPadding(tokenizer)"
            ),
            risk="the tokens of the whole dataset take room on disk",
        )

    def _threads(self, job: Job) -> Iterator[Hit]:
        found = job.settings.get(self.setting)
        if found is None or not found.value.known or str(found.value.constant).lower() not in {"false", "0"}:
            return
        yield Hit(
            found.statement,
            "`TOKENIZERS_PARALLELISM` is false, so that each process tokenizes a batch with a single thread.",
            "low",
            0.5,
            source=found.source,
            title="tokenize once, before the training, with all threads",
            change='os.environ["TOKENIZERS_PARALLELISM"] = "true"  # and tokenize before workers start',
            effort="setting",
        )

    @staticmethod
    def _tokenizes(call: ast.Call, tokenizers: frozenset[str]) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in {"batch_encode_plus", "encode_plus", "encode_batch"}:
            return True
        if not call.args or name in {"pad", "decode", "batch_decode", "from_pretrained"}:
            return False
        return name.lower() in {"tokenizer", "_tokenizer"} or (bool(name) and name in tokenizers)

    cases = (
        Invalid(
            "in collate_fn",
            """\
import os
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # !
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tok = AutoTokenizer.from_pretrained("bert-base-uncased")

def pack(rows):
    batch = tok([row["text"] for row in rows], padding=True, truncation=True, return_tensors="pt")  # !
    batch["labels"] = torch.tensor([row["label"] for row in rows])
    return batch

def train(rows):
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
    loader = DataLoader(rows, batch_size=256, num_workers=2, collate_fn=pack, pin_memory=True)
    for epoch in range(3):
        for batch in loader:
            loss = model(**{k: v.cuda(non_blocking=True) for k, v in batch.items()}).loss
            loss.backward()
            opt.step()
            opt.zero_grad()
""",
        ),
        Invalid(
            "sample by sample in the dataset",
            """\
import torch
from torch.utils.data import DataLoader, Dataset

class Reviews(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.texts, self.labels, self.tokenizer = texts, labels, tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        enc = self.tokenizer(self.texts[i], max_length=256, padding="max_length", truncation=True)  # !
        return torch.tensor(enc["input_ids"]), self.labels[i]

def train(texts, labels, tokenizer, model, opt):
    data = Reviews(texts, labels, tokenizer)
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=4)
    for epoch in range(4):
        for ids, y in loader:
            loss = model(ids.cuda(), labels=y.cuda()).loss
            loss.backward()
            opt.step()
            opt.zero_grad()
""",
        ),
        Valid(
            "only padding is left for the loader",
            """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

def collate(rows):
    return tokenizer.pad(rows, padding="longest", return_tensors="pt")

def train(tokenized, model, opt):
    loader = DataLoader(tokenized, batch_size=32, shuffle=True, collate_fn=collate, num_workers=2)
    for batch in loader:
        loss = model(**batch.to("cuda")).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "tokenized once, threads off to silence a warning",
            """\
import os
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
data = load_dataset("imdb", split="train").map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)

def train(model, opt):
    loader = DataLoader(data, batch_size=32, collate_fn=DataCollatorWithPadding(tokenizer), num_workers=2)
    for batch in loader:
        loss = model(**batch.to("cuda")).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "images are decoded: that is the loader's work",
            """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.transform(Image.open(self.paths[i]).convert("RGB"))

def train(paths, transform, model, opt):
    loader = DataLoader(Photos(paths, transform), batch_size=64, num_workers=8, pin_memory=True)
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
    )


def _pretrained_tokenizers(source: Source) -> frozenset[str]:
    """Return the variables that get a tokenizer: `tok = AutoTokenizer.from_pretrained(...)`."""
    return frozenset(
        ast.unparse(target).rpartition(".")[2]
        for node in every(source, ast.Assign)
        if isinstance(node.value, ast.Call)
        for target in node.targets
        if ast.unparse(node.value.func).endswith(("Tokenizer.from_pretrained", "TokenizerFast.from_pretrained"))
    )
