"""A made-up project to time lint with: files that look like those of a real one, as many and as long as asked.

Each file is a header and blocks that are drawn until it is long enough; names and numbers differ from block to block.
Training scripts import models, data sets and tools of the same project, so that following calls across files is timed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from string import Template

# Shares of files, by the look of repositories of research code (judgement).
MIX = {"train": 0.10, "model": 0.25, "data": 0.10, "tool": 0.15, "plain": 0.40}
WORDS = (
    "anchor",
    "batch",
    "cache",
    "channel",
    "codec",
    "decoder",
    "edge",
    "encoder",
    "frame",
    "gate",
    "graph",
    "head",
    "index",
    "key",
    "mask",
    "mixer",
    "patch",
    "query",
    "region",
    "scene",
    "slot",
    "span",
    "stem",
    "token",
)

HEADERS = {
    "train": """\
import argparse
import logging
import os
import time

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from $package.$model import $Model
from $package.$data import $Data
from $package.$tool import average_$noun, move_$noun

log = logging.getLogger(__name__)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=$small)
    parser.add_argument("--batch-size", type=int, default=$large)
    parser.add_argument("--workers", type=int, default=$tiny)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--debug", action="store_true")
    return parser.parse_args()

""",
    "model": "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n",
    "data": "import json\nimport random\nfrom pathlib import Path\n\nimport numpy as np\nimport torch\n"
    "from torch.utils.data import Dataset\n\n",
    "tool": "import functools\nimport os\n\nimport torch\nimport torch.distributed as dist\n\n\n"
    "def average_$noun(value):\n    if not dist.is_initialized():\n        return value\n    value = value.clone()\n"
    "    dist.all_reduce(value)\n    return value / dist.get_world_size()\n\n\n"
    'def move_$noun(batch, device="cuda"):\n'
    "    return {k: v.to(device, non_blocking=True) for k, v in batch.items()}\n\n",
    "plain": "import collections\nimport dataclasses\nimport json\nimport re\nimport typing\n"
    "from pathlib import Path\n\n",
}
BLOCKS = {
    "train": (
        """
def train_$name(args, model, loader, optimizer, scaler, epoch, device):
    model.train()
    total, seen, started = 0.0, 0, time.time()
    for step, batch in enumerate(loader):
        batch = move_$noun(batch, device)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.epochs > $tiny):
            logits = model(batch["$noun"])
            loss = F.cross_entropy(logits.flatten(0, -2), batch["label"].flatten(), ignore_index=-$tiny)
            if args.debug:
                loss = loss + $ratio * logits.float().pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), $ratio)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * len(batch["label"])
        seen += len(batch["label"])
        if step % args.log_every == 0:
            rate = seen / (time.time() - started)
            log.info("epoch %d step %d loss %.4f norm %.2f rate %.1f", epoch, step, loss.item(), norm.item(), rate)
    return total / max(seen, 1)
""",
        """
@torch.no_grad()
def evaluate_$name(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    seen = 0
    for batch in loader:
        batch = move_$noun(batch, device)
        scores = model(batch["$noun"]).softmax(-1)
        top = scores.topk($tiny + 1, dim=-1).indices
        hits += (top == batch["label"][..., None]).any(-1).sum()
        seen += batch["label"].numel()
    return average_$noun(hits / seen).item()
""",
        """
def main_$name():
    args = arguments()
    rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", rank)
    data = $Data(Path("data") / "$noun", split="train", length=$large)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True)
    held_out = DataLoader($Data(Path("data"), split="test", length=$large), batch_size=args.batch_size)
    model = $Model(dim=$large, depth=$small).to(device)
    if "WORLD_SIZE" in os.environ:
        model = DDP(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=$ratio, weight_decay=0.05)
    scaler = torch.amp.GradScaler("cuda")
    best = 0.0
    for epoch in range(args.epochs):
        loss = 0.0
        for x in loader:
            x = move_$noun(x, device)
            out = model(x["$noun"])
            value = F.cross_entropy(out, x["label"])
            optimizer.zero_grad()
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
            loss += value.detach()
        model.eval()
        with torch.no_grad():
            right = sum((model(y["$noun"].to(device)).argmax(-1) == y["label"].to(device)).sum() for y in held_out)
        score = right.item() / len(held_out.dataset)
        log.info("epoch %d: loss %.4f, score %.3f", epoch, loss.item() / len(loader), score)
        if score > best and rank == 0:
            best = score
            torch.save({"model": model.state_dict(), "epoch": epoch}, f"best_${name}_{epoch}.pt")
""",
    ),
    "model": (
        """
class $Name(nn.Module):
    def __init__(self, dim=$large, heads=$small, ratio=$tiny, dropout=0.0):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))
        self.register_buffer("bias", torch.zeros(heads, $small, $small), persistent=False)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))
""",
        """
class $Model(nn.Module):
    def __init__(self, dim=$large, depth=$small, classes=$large):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, kernel_size=$tiny, stride=$tiny, bias=False)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(dim, 8, batch_first=True) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)
        self.apply(self._start)

    @staticmethod
    def _start(module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=$ratio)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, images):
        x = self.stem(images).flatten(2).transpose(1, 2)
        positions = torch.arange(x.shape[1], device=x.device)
        x = x + torch.sin(positions[None, :, None] / math.sqrt(x.shape[-1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))
""",
        """
def ${name}_loss(prediction, target, weight=None, reduction="mean"):
    difference = F.smooth_l1_loss(prediction, target, reduction="none")
    if weight is not None:
        difference = difference * weight
    valid = torch.isfinite(difference)
    difference = torch.where(valid, difference, torch.zeros_like(difference))
    if reduction == "mean":
        return difference.sum() / valid.sum().clamp(min=1)
    return difference.sum() if reduction == "sum" else difference
""",
    ),
    "data": (
        """
class $Data(Dataset):
    def __init__(self, root, split="train", length=$large, transform=None):
        self.root, self.split, self.length, self.transform = Path(root), split, length, transform
        with open(self.root / f"{split}.json") as file:
            self.rows = json.load(file)
        self.classes = sorted({row["$noun"] for row in self.rows})
        self.index = {name: number for number, name in enumerate(self.classes)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        array = np.load(self.root / row["file"]).astype(np.float32)
        if len(array) > self.length:
            start = random.randint(0, len(array) - self.length) if self.split == "train" else 0
            array = array[start : start + self.length]
        if self.transform is not None:
            array = self.transform(array)
        return {"$noun": torch.from_numpy(array), "label": torch.tensor(self.index[row["$noun"]])}
""",
        """
def collate_$name(rows):
    longest = max(len(row["$noun"]) for row in rows)
    padded = torch.zeros(len(rows), longest)
    for number, row in enumerate(rows):
        padded[number, : len(row["$noun"])] = row["$noun"]
    return {"$noun": padded, "label": torch.stack([row["label"] for row in rows])}
""",
    ),
    "tool": (
        """
class ${Name}Meter:
    def __init__(self, window=$large):
        self.values, self.total, self.count, self.window = [], 0.0, 0, window

    def update(self, value, n=1):
        value = value.detach() if torch.is_tensor(value) else value
        self.values = (self.values + [value])[-self.window :]
        self.total, self.count = self.total + value * n, self.count + n

    @property
    def mean(self):
        return float(self.total) / max(self.count, 1)

    def __str__(self):
        return f"$name {self.mean:.4f}"
""",
        """
def ${name}_schedule(optimizer, warmup=$small, total=$large, least=$ratio):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = min((step - warmup) / max(total - warmup, 1), 1.0)
        return least + (1 - least) * 0.5 * (1 + torch.cos(torch.tensor(progress * 3.14159)).item())

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
""",
        """
@torch.no_grad()
def update_${name}(average, model, decay=0.999):
    for old, new in zip(average.parameters(), model.parameters()):
        old.mul_(decay).add_(new.detach(), alpha=1 - decay)
    for old, new in zip(average.buffers(), model.buffers()):
        old.copy_(new)
""",
    ),
    "plain": (
        '''
@dataclasses.dataclass
class $Name:
    """What is known of one $noun."""

    name: str
    count: int = $small
    parts: list[str] = dataclasses.field(default_factory=list)
    weight: float = $ratio

    def merged(self, other: "$Name") -> "$Name":
        if other.name != self.name:
            raise ValueError(f"{other.name} is not {self.name}")
        parts = self.parts + [part for part in other.parts if part not in self.parts]
        return dataclasses.replace(self, count=self.count + other.count, parts=parts)

    @property
    def is_large(self) -> bool:
        return self.count * self.weight > $large and any(len(part) > $tiny for part in self.parts)
''',
        '''
def read_$name(path: Path, limit: int = $large) -> dict[str, list[str]]:
    """Return the lines of a file by the $noun that they begin with."""
    found = collections.defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number >= limit:
                break
            match = re.match(r"(\\w+)\\s*[:=]\\s*(.+)", line)
            if match is None:
                continue
            key, value = match.groups()
            found[key.lower()].append(value.strip())
    return {key: sorted(values) for key, values in found.items() if len(values) > $tiny}
''',
        '''
def write_$name(rows: typing.Iterable[dict], path: Path, indent: int = $tiny) -> int:
    """Write rows as JSON, the longest first."""
    kept = []
    for row in rows:
        try:
            size = sum(len(str(value)) for value in row.values())
        except AttributeError as error:
            raise TypeError(f"no $noun: {row!r}") from error
        if size > $small:
            kept.append((size, row))
    kept.sort(key=lambda pair: -pair[0])
    path.write_text(json.dumps([row for _, row in kept], indent=indent), "utf-8")
    return len(kept)
''',
    ),
}


def write(folder: Path, files: int, lines: int, chance: random.Random) -> tuple[int, int]:
    """Write a project of so many files and about as many lines; return how many of both it has."""
    kinds = [kind for kind, share in MIX.items() for _ in range(round(share * files))][:files]
    kinds += ["plain"] * (files - len(kinds))
    names = [f"{kind}_{number:04d}" for number, kind in enumerate(kinds)]
    written = 0
    (folder / "package").mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "package"\n', "utf-8")
    for kind, name in zip(kinds, names, strict=True):
        by_kind = {other: [one for one in names if one.startswith(other)] for other in ("model", "data", "tool")}
        wanted = max(int(lines / files * chance.uniform(0.4, 1.6)), 1)
        text = _file(
            kind, wanted, chance, {other: chance.choice(ones or ["x"]) for other, ones in by_kind.items()}, name
        )
        written += text.count("\n")
        (folder / "package" / f"{name}.py").write_text(text, "utf-8")
    return files, written


def _file(kind: str, wanted: int, chance: random.Random, others: dict[str, str], name: str) -> str:
    own = others | ({kind: name} if kind in others else {})
    fixed = {
        "package": "package", "noun": "record",
        **own,
        "Model": _capital(own["model"]), "Data": _capital(own["data"]),
    }  # fmt: skip
    text, number = Template(HEADERS[kind]).substitute(fixed | _drawn(chance, 0)), 0
    blocks = BLOCKS[kind]
    while number < len(blocks) or text.count("\n") < wanted:
        block = blocks[number] if number < len(blocks) else chance.choice(blocks)
        number += 1
        again = {"Model": f"{fixed['Model']}{number}", "Data": f"{fixed['Data']}{number}"}
        drawn = fixed | _drawn(chance, number) | (again if number > len(blocks) and kind != "train" else {})
        text += "\n" + Template(block).substitute(drawn)
    return text


def _drawn(chance: random.Random, number: int) -> dict[str, str]:
    name = f"{chance.choice(WORDS)}_{chance.choice(WORDS)}_{number}"
    pick: Callable[[int, int], int] = chance.randint
    return {
        "name": name,
        "Name": _capital(name),
        "tiny": str(pick(1, 4)),
        "small": str(pick(8, 32)),
        "large": str(64 * pick(1, 16)),
        "ratio": f"{chance.uniform(0.01, 1.0):.2f}",
    }


def _capital(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
