"""Follows a program without running it: values from where they are made, loops by what goes round in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.statements import Statements
from whyidle.lint.events import Called, Event, Stepped
from whyidle.lint.job import Job
from whyidle.lint.nodes import every
from whyidle.lint.project import Definition, Project
from whyidle.lint.source import Source
from whyidle.lint.where import Where

# What a file has to say for there to be anything to follow.
CONCERNED = re.compile(
    r"\b(torch|lightning|pytorch_lightning|transformers|accelerate|diffusers|openai|max_tokens|timm|deepspeed|fabric)\b"
)
_FRAMEWORKS = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "diffusers")


def concerned(text: str) -> bool:
    """Say whether a file may hold anything that we look for."""
    return CONCERNED.search(text) is not None


def follow(source: Source, project: Project, see: Callable[[Event, Job], None]) -> Job:
    """Follow a file from its top to its end, then each function that nothing in it calls.

    Args:
        source: the file.
        project: finds the modules that it imports.
        see: told of each event as it is met; the job as far as it is known by then.
    """
    engine = Statements(source, project, see)
    job = engine.job
    job.gpu = _gpu(source.text)
    module = engine.frame.module
    job.frameworks = frozenset(
        name for name in _FRAMEWORKS if any(v.split(".")[0] == name for v in module.imports.values())
    )
    job.trains = any(engine.traits.trains(one.node.body, module) for one in module.functions)
    job.trains = job.trains or engine.traits.trains(source.tree.body, module)
    job.trains = job.trains or bool(module.by_method("training_step"))  # Lightning does the rest
    engine.globals[id(module)] = engine.frame
    engine.body(source.tree.body)
    called = _called(source)
    for one in sorted(module.functions, key=lambda one: one.name in called):  # those first that nothing calls
        if id(one.node) not in engine.visited:
            _enter(engine, one)
    return job


def _enter(engine: Statements, one: Definition) -> None:
    """Follow a function that nothing in view calls."""
    where = _entry(engine, one)
    first = len(engine.job.events)
    engine.frame.where = where
    engine.invoke(one, (), {}, None)
    engine.frame.where = Where()
    if where.phase == "step" and where.work == "train":
        calls = tuple(event for event in engine.job.events[first:] if isinstance(event, Called))
        place = {"source": one.module.source, "where": replace(where, function=one.qualname), "statement": one.node}
        engine.emit(Stepped(node=one.node, calls=calls, loop=None, **place))  # type: ignore[arg-type]


def _entry(engine: Statements, one: Definition) -> Where:
    """Return where a function runs of which no caller is seen: by its name, its class, and what it does."""
    name = one.name
    network = one.owner is not None and engine.derives(one.owner, knowledge.MODULE_BASES)
    if name in knowledge.EVAL_METHODS and one.owner is not None and name.endswith("_step"):
        return Where("step", "eval")
    if name in knowledge.STEP_METHODS | knowledge.STEP_HOOKS and one.owner is not None:
        return Where("step", "train")
    overridden = _overridden(engine, one)
    if overridden is not None:
        return overridden
    if network and name == "forward":
        return Where("step", "train")
    if engine.traits.trains(one.node.body, one.module):
        loops = engine.traits.has_training_loop(one.node.body, one.module)
        return Where() if loops else Where("step", "train")
    if name in {"main", "__init__"}:
        return Where()
    return Where("maybe")


def _overridden(engine: Statements, one: Definition) -> Where | None:
    """Return from where the method is called that this one stands for in a derived class, if steps call that."""
    for base in one.owner.bases if one.owner is not None else ():
        found = engine.project.member(one.module, base)
        if isinstance(found, Definition) and found.kind == "class" and found is not one.owner:
            method = engine.callees.method(found, one.name)
            if method is not None:
                return engine.entered.get(id(method.node))
    return None


def _called(source: Source) -> set[str]:
    """Return the names that are called anywhere in a file."""
    functions = (call.func for call in every(source, ast.Call))
    return {
        function.attr if isinstance(function, ast.Attribute) else function.id
        for function in functions
        if isinstance(function, ast.Attribute | ast.Name)
    }


# Words of code that may move a model to an accelerator.
_ELSEWHERE = re.compile(r"device|\.to\(|deepspeed|lightning|horovod|parallel|\bmps\b|tpu|\bhvd\b", re.IGNORECASE)


# The model whose parameters an optimizer is given: `optim.SGD(net.parameters())`, `Adam(agent.actor.parameters())`.
_TRAINED = re.compile(
    r"(?:optim\w*\.\w+|\b(?:Adam\w*|SGD|RMSprop|Lion))\(\s*(?:params\s*=\s*)?(\w+)(?:\.\w+)*\.parameters\("
)
_PROSE = re.compile(r"#.*|\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''")  # comments, docstrings and other long texts
# Words that only code for accelerators has.
_ON_GPU = ("cuda", "accelerat", "trainer(", "fabric", "nccl", "xpu", "hpu")


def _built_here(text: str) -> bool:
    """Say whether a file builds the model that it trains: without a word of devices it then trains on the CPU."""
    trained = _TRAINED.findall(text)
    return any(re.search(rf"^\s*{name}\s*=\s*[\w.]+\(", text, re.MULTILINE) for name in trained)


def _gpu(text: str) -> Literal["yes", "assumed", "no"]:
    """Say whether the job has a GPU, by the words of its file."""
    lower = text.lower()
    if any(word in lower for word in _ON_GPU) or re.search(r"\bgpu", lower):
        return "yes"
    if _built_here(text) and not re.search(_ELSEWHERE, re.sub(_PROSE, "", text)):
        return "no"
    return "no" if re.search(r"""device\(["']cpu["']\)|device\s*=\s*["']cpu["']""", text) else "assumed"


__all__ = ["concerned", "follow"]
