"""Training loops as people write them. Run as a script: `loops.py MARKS LOOP…` runs them one after the other.

It notes into the file MARKS, for each loop, between which records of the ring it ran, and what went wrong in it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import traceback
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

warnings.filterwarnings("ignore")
functional = nn.functional
torch.manual_seed(0)
BATCHES = 10
data = TensorDataset(torch.randn(320, 64), torch.randint(0, 10, (320,)))


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):
        for _ in range(BATCHES):
            yield torch.randn(32, 64), torch.randint(0, 10, (32,))


class Lion(torch.optim.Optimizer):
    """A third party's optimizer."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(1e-3 * parameter.grad.sign())


class Fussy(nn.Module):
    """Raises in every third forward."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 3 == 0:
            raise ValueError("a bad batch")
        return self.net(x)


class Tokens(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return {"input_ids": torch.arange(12), "labels": torch.arange(12)}


def net():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def train(batches, model=None, optimizer=None):
    model = model or net()
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    for x, y in batches:
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def plain():
    train(DataLoader(data, 32))


def loss_module():
    model, loss = net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(data, 32):
        loss(model(x), y).backward()
        optimizer.step()


def accumulate():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(DataLoader(data, 32)):
        (functional.cross_entropy(model(x), y) / 4).backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def gan():
    generator, critic = nn.Linear(16, 64), nn.Linear(64, 1)
    ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for i, (x, _) in enumerate(DataLoader(data, 32)):
        noise = torch.randn(32, 16)
        theirs.zero_grad()
        (critic(generator(noise).detach()).mean() - critic(x).mean()).backward()
        theirs.step()
        if i % 2 == 1:
            ours.zero_grad()
            (-critic(generator(noise)).mean()).backward()
            ours.step()


def two_roots():
    student, teacher = net(), net().eval()
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for x, _ in DataLoader(data, 32):
        with torch.no_grad():
            target = teacher(x)
        functional.mse_loss(student(x), target).backward()
        optimizer.step()


def scaler():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for i, (x, y) in enumerate(DataLoader(data, 32)):
        loss = functional.cross_entropy(model(x), y)
        if i % 3 == 0:
            loss = loss * float("inf")
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()
        optimizer.zero_grad()


def scaler_fused():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for i, (x, y) in enumerate(DataLoader(data, 32)):
        loss = functional.cross_entropy(model(x), y)
        if i % 3 == 0:
            loss = loss * float("inf")
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()
        optimizer.zero_grad()


def lbfgs():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, tolerance_grad=0, tolerance_change=0)
    for x, y in DataLoader(data, 32):

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


def inference():
    model = net().eval()
    with torch.no_grad():
        for x, _ in DataLoader(data, 32):
            model(x)


def evaluate():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        model.train()
        train(DataLoader(data, 32), model, optimizer)
        model.eval()
        with torch.no_grad():
            for x, _ in DataLoader(data, 64):
                model(x)
        torch.save(model.state_dict(), "evaluate.pt")


def generator():
    train((torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(BATCHES))


def cycle():
    train(itertools.islice(itertools.cycle(DataLoader(data, 32)), 15))


def web_loader():
    import webdataset

    train(webdataset.WebLoader(Stream(), batch_size=None, num_workers=1))


def stateful():
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(data, 32)
    for _ in range(2):
        train(loader)


def stateful_workers():
    from torchdata.stateful_dataloader import StatefulDataLoader

    train(StatefulDataLoader(data, 32, num_workers=1))


def persistent():
    loader = DataLoader(data, 32, num_workers=1, persistent_workers=True)
    for _ in range(3):
        train(loader)


def two_loaders():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (x, y), (other, _) in zip(DataLoader(data, 32), DataLoader(data, 16)):  # noqa: B905
        functional.cross_entropy(model(torch.cat((x, other))), torch.cat((y, y[:16]))).backward()
        optimizer.step()


def thread():
    import queue

    filled = queue.Queue(4)

    def fill():
        for batch in DataLoader(data, 32):
            filled.put(batch)
        filled.put(None)

    filler = threading.Thread(target=fill)
    filler.start()
    train(iter(filled.get, None))
    filler.join()


def tokens():
    for _ in DataLoader(Tokens(), 4):
        pass


def no_optimizer():
    model = net()
    for x, y in DataLoader(data, 32):
        functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None


def torch_func():
    from torch.func import functional_call, grad

    model = net()
    gradient = grad(lambda p, x, y: functional.cross_entropy(functional_call(model, p, (x,)), y))
    for x, y in DataLoader(data, 32):
        gradient({name: value.detach() for name, value in model.named_parameters()}, x, y)


def own_optimizer():
    model = net()
    train(DataLoader(data, 32), model, Lion(model.parameters()))


def fused():
    model = net()
    train(DataLoader(data, 32), model, torch.optim.AdamW(model.parameters(), fused=True))


def in_backward():
    model = net()
    optimizers = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in model.parameters()}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    for x, y in DataLoader(data, 32):
        functional.cross_entropy(model(x), y).backward()


def raising():
    model = Fussy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(data, 32):
        try:
            functional.cross_entropy(model(x), y).backward()
        except ValueError:
            continue
        optimizer.step()


def recompute():
    from torch.utils.checkpoint import checkpoint

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x):
            return self.last(checkpoint(self.first, x, use_reentrant=False))

    train(DataLoader(data, 32), Deep())


def saves():
    import io

    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file, save_model

    model = net()
    torch.save(model.state_dict(), "one.pt")
    torch.save(model.state_dict(), io.BytesIO())
    with Path("two.pt").open("wb") as file:
        torch.save(obj=model.state_dict(), f=file)
    save_file(model.state_dict(), "one.safetensors")
    save_model(model, "two.safetensors")
    dcp.save({"model": model.state_dict()}, checkpoint_id="dcp", no_dist=True)


def meet(name):
    """Start the processes' group; one that was not told of others is alone."""
    import torch.distributed as dist

    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{Path(name).resolve()}", rank=rank, world_size=size)
    return dist


def fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist = meet("fsdp2")
    model = net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    train(DataLoader(data, 32), model, torch.optim.AdamW(model.parameters()))
    dist.destroy_process_group()


def ddp():
    dist = meet("ddp")
    train(DataLoader(data, 32), nn.parallel.DistributedDataParallel(net()))
    dist.destroy_process_group()


def compiled():
    train(DataLoader(data, 32), torch.compile(net(), backend="aot_eager"))


def compiled_in_place():
    model = net()
    model.compile(backend="aot_eager")
    train(DataLoader(data, 32), model)


def trainer(callbacks=(), **more):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=128, n_positions=32, bos_token_id=0, eos_token_id=0)
    rows = [{"input_ids": torch.randint(0, 128, (32,)), "labels": torch.randint(0, 128, (32,))} for _ in range(64)]
    arguments = TrainingArguments(
        "huggingface",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )
    callbacks = list(callbacks)
    Trainer(GPT2LMHeadModel(config), arguments, train_dataset=rows, eval_dataset=rows[:8], callbacks=callbacks).train()


def huggingface():
    every = {"save_strategy": "steps", "save_steps": 4, "eval_strategy": "steps", "eval_steps": 4}
    trainer(gradient_accumulation_steps=2, max_steps=8, **every)


def beside_ours(train):
    """Return how many events the job's own profiler gets alone, how many beside our window, and what became of that."""
    from _whyidle import facts, profiler

    window = profiler._window
    window._over = True
    alone = train()
    window.reset()
    beside = train()
    if window._export is not None:
        window._export.join()
    return alone, beside, facts.document()["profile"]


# Begins two steps after our window.
LATE = {"wait": 12, "warmup": 1, "active": 3, "repeat": 1}


def huggingface_profiler():
    from transformers import TrainerCallback

    class Step(TrainerCallback):
        def __init__(self, profile):
            self.profile = profile

        def on_step_end(self, *_, **__):
            self.profile.step()

    def train():
        got = []
        schedule = torch.profiler.schedule(**LATE)
        ready = lambda profile: got.append(len(profile.events()))  # noqa: E731
        with torch.profiler.profile(schedule=schedule, on_trace_ready=ready) as profile:
            trainer([Step(profile)], max_steps=20, save_strategy="no")
        return got

    return beside_ours(train)


def lightning_profiler():
    from lightning.pytorch.profilers import PyTorchProfiler

    def train():
        got = []
        ready = lambda profile: got.append(len(profile.events()))  # noqa: E731
        schedule = torch.profiler.schedule(**LATE)
        lightning(
            PyTorchProfiler("lightning", on_trace_ready=ready, export_to_chrome=False, schedule=schedule), max_epochs=2
        )
        return got

    return beside_ours(train)


def lightning(profiler=None, max_epochs=1):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, index):
            return functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, index):
            self.log("loss", functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = lightning.Trainer(
        max_epochs=max_epochs,
        profiler=profiler,
        logger=False,
        enable_progress_bar=False,
        accelerator="cpu",
        default_root_dir="lightning",
        enable_model_summary=False,
        limit_val_batches=2,
    )
    trainer.fit(Module(), DataLoader(data, 32), DataLoader(data, 32))


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
    model = net()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), DataLoader(data, 32))
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()


def written():
    """Records in the ring of this process; 0 where nothing records."""
    record = sys.modules.get("_whyidle.record")
    ring = getattr(record, "_ring", None)
    return ring.written if ring is not None else 0


def main(marks, *loops):
    parts, results = {}, {}
    for name in loops:
        before = written()
        failed = ""
        try:
            results[name] = globals()[name]()
        except Exception:  # noqa: BLE001 - the test shows it
            failed = traceback.format_exc()
        parts[name] = [before, written(), failed, results.get(name)]
    Path(marks).write_text(json.dumps(parts), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # frameworks leave threads behind
