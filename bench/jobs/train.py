"""A small training job whose bottleneck is an argument. It knows nothing of whyidle: `bench/pairs.py` watches it.

    python bench/jobs/train.py --steps 200 --workers 2 --transform-ms 10

Everything costs what its argument says on an idle core: `--compute-ms` the forward pass, `--transform-ms` the CPU work
on a batch, `--fetch-ms` the time until a store at the other end of a socket answers for a batch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 8
WIDTH = 64
SIDE = 256
ANSWER = 4096  # bytes of a sample in the store


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--epoch", type=int, default=50, help="steps per epoch")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--persistent", action="store_true", help="keep the workers between epochs")
    parser.add_argument("--start-ms", type=float, default=0, help="what each worker does before its first sample")
    parser.add_argument("--compute-ms", type=float, default=20)
    parser.add_argument("--transform-ms", type=float, default=0)
    parser.add_argument("--fetch-ms", type=float, default=0)
    parser.add_argument("--threads", type=int, default=1, help="that PyTorch may use, in the job and in each worker")
    parser.add_argument("--products", action="store_true", help="compute by matrix products, which use these threads")
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0 is never")
    parser.add_argument("--save-mb", type=float, default=20)
    parser.add_argument("--evaluate-every", type=int, default=0, help="epochs between evaluations; 0 is never")
    return parser.parse_args()


def burn(ms: float) -> None:
    """Compute for so long on this thread: CPU time, so that it costs more wall time where cores are shared."""
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        sum(range(500))


def multiply(times: int) -> None:
    """Compute with operators that use all threads they are given."""
    matrix = torch.ones(SIDE, SIDE)
    for _ in range(times):
        torch.mm(matrix, matrix)


def work(ms: float, products: float | None) -> Callable[[], None]:
    """Return what costs so long; `products` is how many matrix products one thread makes in a millisecond."""
    return partial(burn, ms) if products is None else partial(multiply, max(round(ms * products), 1))


def speed() -> float:
    """Return how many matrix products one thread makes in a millisecond."""
    torch.set_num_threads(1)
    multiply(5)
    began = time.thread_time()
    multiply(20)
    return 20 / ((time.thread_time() - began) * 1000)


def serve(ms: float) -> int:
    """Answer each request after `ms`, as storage far away does, however many ask at once; return the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while connection.recv(1):
                time.sleep(ms / 1000)
                connection.sendall(bytes(ANSWER))

    def listen() -> None:
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    multiprocessing.get_context("fork").Process(target=listen, daemon=True).start()  # the store is another machine's
    return int(listener.getsockname()[1])


class Samples(Dataset):
    """Samples that cost what they are told to cost, and a store that they may come from."""

    def __init__(self, count: int, transform: Callable[[], None], port: int | None) -> None:
        self.count, self.transform, self.port = count, transform, port
        self.connection: socket.socket | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.port is not None:
            self.read()
        self.transform()
        return torch.full((WIDTH,), float(index % 7)), index % 10

    def read(self) -> bytes:
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.sendall(b"?")
        got = b""
        while len(got) < ANSWER:
            got += self.connection.recv(ANSWER)
        return got


class Model(nn.Module):
    """A perceptron that computes for as long as it is told, besides."""

    def __init__(self, compute: Callable[[], None]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 10))
        self.compute = compute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.compute()
        return self.layers(x)


def start_worker(options: argparse.Namespace, _: int) -> None:
    if options.start_ms:
        burn(options.start_ms)
    if options.threads > 1:
        torch.set_num_threads(options.threads)  # as libraries that bring their own threads do


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    products = speed() if options.products else None
    torch.set_num_threads(options.threads)
    port = serve(options.fetch_ms / BATCH) if options.fetch_ms else None
    data = Samples(options.epoch * BATCH, work(options.transform_ms / BATCH, products), port)
    loader = DataLoader(
        data,
        BATCH,
        num_workers=options.workers,
        persistent_workers=options.persistent and options.workers > 0,
        worker_init_fn=partial(start_worker, options),
        # OpenMP's threads do not survive a fork
        multiprocessing_context="spawn" if options.workers and options.products else None,
    )
    model = Model(work(options.compute_ms, products))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    ballast = torch.zeros(int(options.save_mb * 1e6 / 4))
    step = epoch = 0
    while step < options.steps:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if options.save_every and step % options.save_every == 0:
                torch.save({"model": model.state_dict(), "ballast": ballast}, "last.pt")
            if step == options.steps:
                break
        epoch += 1
        if options.evaluate_every and epoch % options.evaluate_every == 0:
            with torch.no_grad():
                for x, _ in loader:
                    model(x)


if __name__ == "__main__":
    main()
