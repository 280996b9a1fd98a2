from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import each_step, rhythm
from whyidle.lint.repair import Remove, Repair

_STOPS = {
    "breakpoint",
    "builtins.breakpoint",
    "pdb.set_trace",
    "ipdb.set_trace",
    "pudb.set_trace",
    "IPython.embed",
    "torch.distributed.breakpoint",
    "debugpy.breakpoint",
    "debugpy.wait_for_client",
}
_TRACES = {
    "sys.settrace",
    "sys.setprofile",
    "threading.settrace",
    "threading.setprofile",
    "threading.settrace_all_threads",
    "threading.setprofile_all_threads",
    "pydevd.settrace",
    "pydevd_pycharm.settrace",
}


class DebuggerOverhead(Check):
    """A debugger was left in a training: it stops the step, or looks at every line that Python runs.

    ## Why it costs time
    A breakpoint stops the training until somebody types. `sys.settrace` and `sys.setprofile` call a function for each
    line or call that Python runs: loops get 3 to 4 times as slow, calls 4 to 7 times, and kernels are launched later.

    ## How we know
    The call stands in the step, or (tracing) before it, and nothing guards it: no setting, no environment variable,
    no test of values, no error.

    ## When to ignore it
    You are debugging.
    """

    cost = "measure"
    sees = (Called,)
    calls = ends(_STOPS | _TRACES)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or not job.trains or event.where.guard != "":
            return
        if event.name not in _STOPS | _TRACES:
            return
        text = ast.unparse(event.node)
        if event.name in _STOPS and each_step(event.where):
            message = f"`{text}` stops the job {rhythm(event)}."
        elif event.name in _TRACES and event.where.often and not _is_off(event):
            message = f"`{text}` calls a function for each line or call that Python runs, as long as the job trains."
        else:
            return
        yield Hit(
            event.node,
            message,
            "medium",
            0.9 if event.name in _STOPS else 0.7,
            event.source,
            title="take it out, or run it only when asked",
            change=f'if os.environ.get("DEBUG"):\n    {text}',
            repair=None if event.used else Repair((Remove(event.statement),), safe=False, note="the debugger is gone"),
        )

    cases = (
        Invalid(
            "a breakpoint in the step",
            """\
import pdb
import torch

def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        pdb.set_trace()  # !
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "a trace function for the whole job",
            """\
import sys
import torch
from tracing import show_line

def main(model, loader, optimizer):
    sys.settrace(show_line)  # !
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    sys.settrace(None)
""",
        ),
        Valid(
            "only where the loss is no number",
            """\
import torch

def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        if not torch.isfinite(loss):
            breakpoint()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "only when asked for",
            """\
import argparse
import debugpy
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
args = parser.parse_args()

def train(model, loader, optimizer):
    if args.debug:
        debugpy.listen(5678)
        debugpy.wait_for_client()
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if args.debug:
            breakpoint()
""",
        ),
        Valid(
            "after an error",
            """\
import pdb
import torch

def train(model, loader, optimizer):
    for batch in loader:
        try:
            model(batch.cuda()).mean().backward()
        except RuntimeError:
            pdb.post_mortem()
            raise
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_off(event: Called) -> bool:
    return bool(event.args) and event.args[0].known and event.args[0].constant is None
