"""A training job as small as one can be, for all the ways in which jobs are started and end.

    python jobs.py STEPS [WHAT]

Run by tests as a file of its own: it imports nothing of ours.
"""

# ruff: noqa: PTH110, PTH123, T201
import os
import signal
import sys
import time
import types

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Killed(torch.utils.data.Dataset):
    """A data set of which one sample kills the worker that makes it."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(4)


def lighten():
    """Leave out torch.compile, which the first optimizer imports, in half of a short job's time."""
    torch._dynamo = sys.modules["torch._dynamo"] = types.ModuleType("torch._dynamo")
    torch._dynamo.disable = lambda function, *_, **__: function
    torch._dynamo.graph_break = lambda: None


def train(steps, dataset=None, workers=0, pause_s=0.0):
    """Make some steps, and say so."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset or TensorDataset(torch.ones(2 * steps, 4)), batch_size=2, num_workers=workers)
    for batch in loader:
        optimizer.zero_grad()
        model(batch if dataset else batch[0]).sum().backward()
        optimizer.step()
        time.sleep(pause_s)
    print("trained", steps, "steps", flush=True)


def rank(number, steps):
    """Train as a rank that torch.multiprocessing started."""
    lighten()
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE="2")
    train(steps)


def multiprocessing(steps):
    """Train with ranks of every start method, one after the other."""
    for method in ("spawn", "fork", "forkserver"):
        os.environ["WAY"] = method
        torch.multiprocessing.start_processes(rank, (steps,), nprocs=2, start_method=method)


def distributed(steps):
    """Train as a rank of torchrun; the first time round rank 1 fails, when rank 0 has trained, too."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        train(steps - 4)
        if os.environ["RANK"] == "1":
            while not os.path.exists("trained"):
                time.sleep(0.05)
            os._exit(1)
        with open("trained", "w"):
            time.sleep(60)  # until the launcher ends it
    torch.distributed.init_process_group("gloo")
    train(steps)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def accelerated(steps):
    """Train with Accelerate."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 4)
    loader = DataLoader(TensorDataset(torch.ones(2 * steps * accelerator.num_processes, 4)), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    for (batch,) in loader:
        optimizer.zero_grad()
        accelerator.backward(model(batch).sum())
        optimizer.step()
    accelerator.end_training()


def again(steps):
    """Train, then become another program that trains."""
    train(steps)
    os.execv(sys.executable, [sys.executable, __file__, str(steps + 1), "plain", "again"])


def perish(steps):
    """Train in three ranks: one hangs, one is killed, the last goes on, and the parent waits."""
    pids = []
    for number in range(3):
        pid = os.fork()
        if not pid:
            rank(number, steps)
            if number < 2:
                os.kill(os.getpid(), signal.SIGKILL if number else signal.SIGSTOP)
            while not os.path.exists("killed"):
                time.sleep(0.02)
            train(steps + 1)
            os._exit(0)
        pids.append(pid)
    os.waitpid(pids[0], os.WUNTRACED)
    os.waitpid(pids[1], 0)
    with open("killed", "w"):
        pass
    os.waitpid(pids[2], 0)
    print("hangs", flush=True)
    os.waitpid(pids[0], 0)


def notebook(steps):
    """Train with Accelerate as a cell of a notebook does, which forks its ranks."""
    from accelerate import notebook_launcher

    os.environ["ACCELERATE_USE_CPU"] = "true"
    notebook_launcher(
        accelerated, (steps,), num_processes=2, use_port="0", rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0"
    )


def fill(steps):
    """Train, then take more memory than there is."""
    train(steps)
    kept = []
    while True:
        kept.append(b"x" * (1 << 24))


def main():
    steps = int(sys.argv[1])
    what = sys.argv[2] if len(sys.argv) > 2 else "plain"
    if steps < 20 and what not in {"accelerated", "distributed", "notebook"}:  # else the profiler needs it
        lighten()
    if what == "plain":
        train(steps)
    elif what == "slow":
        train(steps, pause_s=0.05)
    elif what == "workers":
        train(steps, workers=1)
    elif what == "worker-killed":
        train(steps, Killed(), workers=1)
    else:
        globals()[what](steps)


if __name__ == "__main__":
    main()
