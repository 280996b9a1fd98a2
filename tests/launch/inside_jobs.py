"""Jobs that record themselves, for test_inside.py: python inside_jobs.py NAME FOLDER."""

from __future__ import annotations

import sys
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import whyidle

STEPS = 12
DATA = TensorDataset(torch.randn(STEPS * 4, 8), torch.randint(0, 3, (STEPS * 4,)))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def plain(folder: str) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with whyidle.watch_training(folder, trace=False):
        for x, y in DataLoader(DATA, 4):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    for x, _ in DataLoader(DATA, 4):  # after the block nothing is recorded
        model(x)


def accelerate(folder: str) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
    model = net()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), DataLoader(DATA, 4))
    with whyidle.watch_training(folder, trace=False):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                optimizer.step()
                optimizer.zero_grad()


def lightning(folder: str) -> None:
    import lightning as pl

    from whyidle.integrations.lightning import WatchTraining

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        enable_checkpointing=False,
        callbacks=[WatchTraining(folder, trace=False)],
        **quiet,
    ).fit(Module(), DataLoader(DATA, 4))


def transformers(folder: str) -> None:
    from transformers import Trainer, TrainingArguments

    from whyidle.integrations.transformers import WatchTraining

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": nn.functional.cross_entropy(self.net(x), labels)}

    samples = [{"x": x, "labels": y} for x, y in DATA]
    arguments = TrainingArguments(
        f"{folder}-trainer",
        per_device_train_batch_size=4,
        max_steps=STEPS,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        remove_unused_columns=False,
    )
    callback = WatchTraining(folder, trace=False)
    Trainer(Model(), arguments, train_dataset=samples, callbacks=[callback]).train()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[2:]:
        globals()[name](f"{sys.argv[1]}/{name}")
