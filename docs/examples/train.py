"""A training loop as many are, with what `whyidle lint` finds in it; the README shows it."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset


def train(model: torch.nn.Module, data: Dataset[tuple[torch.Tensor, torch.Tensor]], epochs: int) -> None:
    """Train a model on the GPU, and print the mean loss of each epoch."""
    model = model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=8, persistent_workers=True)
    for epoch in range(epochs):
        total = 0.0
        for step, (images, labels) in enumerate(loader):
            images, labels = images.to("cuda"), labels.to("cuda")
            loss = cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
            if step % 100 == 0:
                print(step, loss.item())
        print(epoch, total / len(loader))
