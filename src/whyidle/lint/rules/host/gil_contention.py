from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import every
from whyidle.lint.source import Source

_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_ARRAYS = {"np", "numpy", "cv2", "Image", "torch", "pandas", "pd", "skimage", "scipy"}


class GilContention(Check):
    """A thread of the training process prepares its data in Python, beside the thread that launches kernels.

    ## Why it costs time
    One thread at a time runs Python. While the thread prepares a batch item by item, the training loop waits for
    its turn, up to 5 ms each time, and kernels are launched late; while the training loop runs, no batch gets ready.

    ## How we know
    A `threading.Thread` is started whose function, for each thing that it puts into a queue, loops over items of it and
    computes, and the same file trains. Reading files and large numpy, OpenCV or PIL operations let other threads run:
    without a loop over items nothing is said.

    ## When to ignore it
    What the loop does for each item is long and happens outside of Python.
    """

    cost = "launch"
    sees = (Called,)
    calls = frozenset({"Thread"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name != "threading.Thread" or not job.trains or job.gpu == "no":
            return
        target = next((keyword.value for keyword in event.node.keywords if keyword.arg == "target"), None)
        function = _function(event.source, target) if target is not None else None
        work = _work(function) if function is not None else None
        if function is None or work is None:
            return
        message = (
            f"The thread of `{function.name}` prepares data item by item, in Python, while the training loop runs: "
        )
        for node in (work, event.node):
            yield Hit(
                node,
                message + "the two wait for each other's turn, and kernels are launched late.",
                "low",
                0.5,
                event.source,
                also=(event.node if node is work else work,),
                title="prepare it in other processes",
                change="loader = DataLoader(dataset, num_workers=8, pin_memory=True, persistent_workers=True)\n"
                f"# the work of {function.name} goes into dataset.__getitem__",
                risk="each worker needs memory for its batches",
            )

    cases = (
        Invalid(
            "a reader that scales each row",
            """\
import queue, threading
import numpy as np
import torch

def reader(paths, out):
    for path in paths:
        rows = np.load(path)["rows"]
        scaled = [(row - row.mean()) / (row.std() + 1e-6) for row in rows]  # !
        out.put(np.stack(scaled))

def fit(paths, net, optimizer):
    ready = queue.Queue(8)
    threading.Thread(target=reader, args=(paths, ready), daemon=True).start()  # !
    for _ in paths:
        x = torch.from_numpy(ready.get()).float().cuda()
        net(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "a method that crops and flips image by image",
            """\
import threading, queue
import numpy as np
import torch

class Feeder:
    def __init__(self, files):
        self.files, self.queue = files, queue.Queue(4)
        self.thread = threading.Thread(target=self.run)  # !
        self.thread.start()

    def run(self):
        while True:
            images = np.load(self.files.pop())
            batch = []
            for image in images:  # !
                top = np.random.randint(32)
                batch.append(np.flip(image[top : top + 224], axis=1))
            self.queue.put(np.stack(batch))

def train(feeder, model, optimizer):
    while True:
        model(torch.from_numpy(feeder.queue.get()).cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a thread that only copies batches to the GPU",
            """\
import threading, queue
import torch

def prefetch(loader, ready):
    for images, labels in loader:
        ready.put((images.cuda(non_blocking=True), labels.cuda(non_blocking=True)))
    ready.put(None)

def train(loader, model, optimizer):
    ready = queue.Queue(2)
    threading.Thread(target=prefetch, args=(loader, ready), daemon=True).start()
    while (batch := ready.get()) is not None:
        model(batch[0]).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a process does the work",
            """\
import multiprocessing
import numpy as np
import torch

def reader(paths, out):
    for path in paths:
        out.put(np.stack([(row - row.mean()) / row.std() for row in np.load(path)]))

def fit(paths, net, optimizer):
    ready = multiprocessing.Queue(8)
    multiprocessing.Process(target=reader, args=(paths, ready), daemon=True).start()
    for _ in paths:
        net(torch.from_numpy(ready.get()).cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a thread that watches",
            """\
import threading, time
import torch

def watch(state):
    while True:
        time.sleep(60)
        print([f"{name}: {value}" for name, value in state.items()])

def train(loader, model, optimizer, state):
    threading.Thread(target=watch, args=(state,), daemon=True).start()
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _function(source: Source, target: ast.expr) -> ast.FunctionDef | None:
    """Return the function of this file that a thread is to run: `reader`, `self.run`."""
    name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    return next((node for node in every(source, ast.FunctionDef) if node.name == name), None)


def _work(function: ast.FunctionDef) -> ast.AST | None:
    """Return the loop over items that stands within a loop which puts things into a queue; None if there is none."""
    for outer in ast.walk(function):
        if not isinstance(outer, ast.For | ast.While) or not any(_is_put(node) for node in ast.walk(outer)):
            continue
        for inner in (node for statement in outer.body for node in ast.walk(statement)):
            if isinstance(inner, _LOOPS) and not any(_is_put(node) for node in ast.walk(inner)) and _computes(inner):
                return inner
    return None


def _is_put(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"put", "put_nowait"}
    )


def _computes(loop: ast.AST) -> bool:
    """Say whether arithmetic or calls into numpy and its like are done for each item."""
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] in _ARRAYS:
            return True
    return False
