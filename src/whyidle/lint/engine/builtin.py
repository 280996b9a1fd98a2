"""What Python's own functions give, and which of them ask for the value of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from whyidle.lint.engine.parts import Call, element, passed
from whyidle.lint.engine.state import State
from whyidle.lint.events import Tested
from whyidle.lint.values import PLAIN, UNKNOWN, Value


def result_of(engine: State, call: Call) -> Value:
    """Return what a call of a built-in function gives."""
    return FUNCTIONS[call.name](engine, call)


def _truth(how: Literal["max", "min", "sorted", "any", "all"]) -> Callable[[State, Call], Value]:
    def ask(engine: State, call: Call) -> Value:
        for value in call.args:
            held = next((one for one in value.holds() if one.kind == "tensor"), None)
            if held is not None:
                engine.emit(Tested(node=call.node, value=held, how=how, **engine.place))
                return held.but(items=None)
        return PLAIN

    return ask


def _sum(_: State, call: Call) -> Value:
    held = next((one for value in call.args for one in value.holds() if one.kind == "tensor"), None)
    return PLAIN if held is None else held.but(items=None, fields=None)


def _passed(_: State, call: Call) -> Value:
    return passed(call)


def _next(engine: State, call: Call) -> Value:
    taken = element(call.first)  # of a generator over a loader, too: `loader = cycle(DataLoader(...))`
    loader = call.first.loader or taken.loader
    use = engine.loaders.get(id(loader)) if loader is not None else None
    if use is not None and engine.frame.where.work == "train":
        use.trains = True
    return taken


def _dict(_: State, call: Call) -> Value:
    fields: dict[str, Value] = {}
    for value in call.args:
        fields.update(value.fields or {})
    return Value("plain", fields=fields | call.keywords, node=call.node)


def _enumerate(_: State, call: Call) -> Value:
    value = call.first
    inner = Value("plain", items=(PLAIN, element(value)))
    return Value("loader" if value.kind == "loader" else "plain", name="each", items=(inner,), loader=value.loader)


def _zip(_: State, call: Call) -> Value:
    inner = Value("plain", items=tuple(element(value) for value in call.args))
    first = next((value for value in call.args if value.kind == "loader"), None)
    return Value("loader" if first else "plain", name="each", items=(inner,), loader=first.loader if first else None)


def _getattr(engine: State, call: Call) -> Value:
    name = call.args[1].constant if len(call.args) > 1 else None
    return engine.member(call.first, name) if isinstance(name, str) else UNKNOWN


def _plain(_: State, __: Call) -> Value:
    return PLAIN


FUNCTIONS: dict[str, Callable[[State, Call], Value]] = {
    "max": _truth("max"),
    "min": _truth("min"),
    "sorted": _truth("sorted"),
    "any": _truth("any"),
    "all": _truth("all"),
    "sum": _sum,
    "iter": _passed,
    "list": _passed,
    "tuple": _passed,
    "reversed": _passed,
    "next": _next,
    "enumerate": _enumerate,
    "zip": _zip,
    "dict": _dict,
    "getattr": _getattr,
    **dict.fromkeys(
        "float int bool str repr len print isinstance range round open type id format hasattr callable input ord chr "
        "hash set frozenset bytes complex".split(),
        _plain,
    ),
}
