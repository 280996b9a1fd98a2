"""Kinds of programs that the checks were not written on: options as dataclasses, generation, RL, model libraries."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.checks import all_checks, ask
from whyidle.lint.engine import follow
from whyidle.lint.events import Called
from whyidle.lint.job import Job
from whyidle.lint.project import Project
from whyidle.lint.source import Source


def source(code: str) -> Source:
    return Source(Path("job.py"), "job.py", code, ast.parse(code))


def job(code: str) -> Job:
    return follow(source(code), Project(), lambda event, job: None)


def reads(code: str) -> list[Called]:
    return [event for event in job(code).events if isinstance(event, Called) and event.name == ".item"]


def told(code: str) -> set[tuple[str, int]]:
    """Return the rules and lines of all findings."""
    found = ask(all_checks(), source(code), Project())
    return {(one.check.name, getattr(one.hit.node, "lineno", 0)) for one in found}


OPTIONS = """
from dataclasses import dataclass, field
import torch, tyro
from transformers import HfArgumentParser
@dataclass
class Base:
    log_every: int = 100
@dataclass
class Args(Base):
    often: int = 1
    rarely: int = field(default=50)
    debug: bool = False
{parse}
def train(model, loader, optimizer):
    for step, x in enumerate(loader):
        loss = model(x.cuda())
        loss.backward()
        optimizer.step()
        if {test}:
            print(loss.item())
"""
PARSERS = ("args = tyro.cli(Args)", "args, = HfArgumentParser((Args,)).parse_args_into_dataclasses()")


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("test", "hot"),
    [
        ("step % args.often == 0", True),
        ("step % args.rarely == 0", False),
        ("step % args.log_every == 0", False),
        ("args.debug", False),
    ],
)
def test_fields_of_dataclasses_are_options_with_their_defaults(parse: str, test: str, hot: bool) -> None:
    (read,) = reads(OPTIONS.format(parse=parse, test=test))
    assert read.where.hot is hot


def test_what_lightning_saves_of_init_are_options_too() -> None:
    code = """import lightning
from torch.utils.data import DataLoader
class Data(lightning.LightningDataModule):
    def __init__(self, folder="data", num_workers: int = 0):
        super().__init__()
        self.save_hyperparameters(logger=False)
    def train_dataloader(self):
        return DataLoader(self.data, batch_size=64, num_workers=self.hparams.num_workers)
"""
    assert ("input.workers_zero", 4) in told(code)


CPU = '''"""Policy gradients.

Runs in parallel with MPI; every process is a device of its own.
"""
import torch
from torch.optim import Adam

def train(make, sample):
    agent = make()
    optimizer = Adam(agent.pi.parameters(), lr=1e-3)  # no .to(device) anywhere
    for _ in range(1000):
        loss = agent.loss(sample())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
'''


def test_a_job_is_on_the_cpu_by_its_code_whatever_its_comments_say() -> None:
    assert job(CPU).gpu == "no"
    assert job(CPU.replace("make()", "make().to(device)")).gpu == "assumed"


LOADER = """import torch
from torch.utils.data import DataLoader
def cycle(dl):
    while True:
        for data in dl:
            yield data
def fit(model, data, optimizer):
    loader = {loader}
    for _ in range(1000):
        loss = model(next(loader)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("loader", ["cycle(DataLoader(data, 8))", "iter(DataLoader(data, 8))"])
def test_a_loader_behind_a_generator_trains(loader: str) -> None:
    (use,) = job(LOADER.format(loader=loader)).loaders
    assert use.trains


def test_windows_of_batches_are_batches(tmp_path: Path) -> None:
    (tmp_path / "windows.py").write_text(
        "def windows(batches, size):\n    kept = []\n    for one in batches:\n        kept.append(one)\n"
        "        if len(kept) == size:\n            for it in kept:\n                yield it, size\n"
        "            kept = []\n"
    )
    code = """from torch.utils.data import DataLoader
from windows import windows
def fit(model, data, optimizer, device):
    loader = DataLoader(data, 8)
    for (x, y), size in windows(loader, 4):
        loss = model(x.to(device), y.to(device)) / size
        loss.backward()
        optimizer.step()
"""
    (tmp_path / "fit.py").write_text(code)

    def read(path: Path) -> Source:
        return Source(path, path.name, path.read_text(), ast.parse(path.read_text()))

    (use,) = follow(read(tmp_path / "fit.py"), Project([tmp_path], read), lambda event, job: None).loaders
    assert use.trains
    assert len(use.moved) == 2


PPO = """import torch
def learn(policy, critic, optimizer, batch, repeat):
    losses = []
    for step in range(repeat):
        for minibatch in batch.split(64):
            dist = policy(minibatch).dist
            ratios = (dist.log_prob(minibatch.act) - minibatch.logp_old).exp().float()
            adv = minibatch.adv
            clip_loss = -torch.min(ratios * adv, ratios.clamp(0.8, 1.2) * adv).mean()
            loss = clip_loss + critic(minibatch.obs).mean()
            optimizer.step(loss)
            losses.append({read})
"""


@pytest.mark.parametrize("read", ["clip_loss.item()", "loss.item()"])
def test_what_a_batch_and_the_unknown_make_is_not_on_the_host(read: str) -> None:
    (event,) = reads("# cuda\n" + PPO.format(read=read))
    assert event.receiver is not None
    assert event.receiver.on_device
    assert event.where.hot


@pytest.mark.parametrize("move", ["batch.to_device(device)", "batch_to_device(batch, device)"])
def test_a_batch_may_be_moved_in_place(move: str) -> None:
    code = f"""import torch
def fit(model, loader, optimizer, device):
    for batch in loader:
        {move}
        count = batch.mask.sum().item()
        (model(batch) / count).backward()
        optimizer.step()
"""
    (event,) = reads(code)
    assert event.receiver is not None
    assert event.receiver.place == "device"


OVERRIDDEN = """import torch
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def clip(self):
        return 0.0
    def fit(self, loader):
        for x in loader:
            self.model(x.cuda()).mean().backward()
            self.clip()
            self.optimizer.step()
class Sharded(Trainer):
    def clip(self):
        return self.model.clip_grad_norm_(1.0).item()
"""


def test_a_method_is_as_hot_as_the_one_that_it_overrides() -> None:
    (read,) = reads(OVERRIDDEN)
    assert read.where.hot


GENERATE = """import torch
@torch.inference_mode()
def decode(model, ids, length, eos):
    def step(ids):
        return model(ids).argmax(-1)
    def over(token):
        return bool((token == eos).all().item())
    tokens = step(ids)
    while not over(tokens):
        tokens = step(tokens)
"""


def test_the_condition_of_a_loop_is_asked_in_each_round() -> None:
    assert any(read.where.hot and read.where.work == "infer" for read in reads(GENERATE))


PROMPTS = """import torch
@torch.inference_mode()
def generate(model, prompts, n):
    for prompt in prompts:
        token = model(prompt).argmax(-1)
        first = token.item()
        for i in range(n):
            token = model(token).argmax(-1)
            last = token[0].item()
"""


def test_a_loop_over_prompts_is_none_over_tokens() -> None:
    first, last = reads(PROMPTS)
    assert not first.where.hot
    assert last.where.hot


STEP = """import torch
def fit(model, loader, optimizer):
    first, done = True, False
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        if {test}:
            {change}
            print(loss.item())
"""


@pytest.mark.parametrize(
    ("test", "change", "hot"),
    [("first", "first = False", False), ("not done", "done = True", False), ("first", "last = False", True)],
)
def test_a_branch_that_switches_itself_off_runs_once(test: str, change: str, hot: bool) -> None:
    (read,) = reads(STEP.format(test=test, change=change))
    assert read.where.hot is hot


COMPILED = """import torch
class Trainer:
    def __init__(self, model, compile):
        self.model = model
        self.step = torch.compile(self._step) if compile else self._step
    def _step(self, x):
        loss = self.model(x).mean()
        print(loss.item())
        return loss
    def fit(self, loader, optimizer):
        for x in loader:
            self.step(x.cuda()).backward()
            optimizer.step()
"""


def test_a_step_that_is_compiled_on_one_of_two_ways_is_followed() -> None:
    assert any(read.where.hot for read in reads(COMPILED))


LIBRARY = """import torch
from einops import rearrange
from sharding import Status
from transformers import LlamaForCausalLM
class Packed(LlamaForCausalLM):
    @property
    def device(self):
        return next(self.parameters()).device
    def forward(self, images, keep_indices, ids: torch.Tensor, sizes: list[int]):
        assert sum(sizes) == ids.shape[0]
        lengths = torch.tensor([len(one) for one in images], device=self.device)
        longest = lengths.amax().item()
        kept = ids[keep_indices]
        mask = rearrange(lengths, "b -> b 1") > 3
        if ids.status == Status.NOT_READY:
            return longest
        return rearrange(ids, "b n -> (b n)")[mask]
"""


def test_the_code_of_a_model_in_a_library() -> None:
    rules = told(LIBRARY)
    assert {("transfer.h2d_in_step", 11), ("sync.scalar_read", 12), ("sync.data_dependent", 17)} <= rules
    assert not {line for _, line in rules} & {10, 13, 15}


def test_a_copy_is_told_of_where_it_costs_most() -> None:
    code = """import torch
from torch.utils.data import DataLoader
def loss_of(model, x, device):
    return model(x.to(device)).mean()
def fit(model, data, held, optimizer, device):
    with torch.no_grad():
        for x in DataLoader(held, 8, num_workers=2):
            loss_of(model, x, device)
    for x in DataLoader(data, 8, num_workers=2):
        loss_of(model, x, device).backward()
        optimizer.step()
"""
    found = ask(all_checks(), source(code), Project())
    (copy,) = [
        one.hit
        for one in found
        if one.check.name == "transfer.pageable_h2d" and getattr(one.hit.node, "lineno", 0) == 4
    ]
    assert "in every training step" in copy.message
