"""What functions and classes of PyTorch, its neighbours and unknown libraries give, by their dotted names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.guess import named
from whyidle.lint.engine.parts import Call, passed
from whyidle.lint.values import ASSUMED, DEVICE, HOST, PLAIN, TENSOR, UNKNOWN, Kind, Place, Value

_KNOWN_TO_HOST = frozenset("is_tensor numel is_floating_point result_type is_complex".split())
_PAIRS = frozenset("max min topk sort".split())
_TENSOR_WORDS = ("loss", "reduce", "gather", "entropy", "criterion", "distance", "penalty")


def result_of(call: Call) -> Value:
    """Return what a call of an imported function gives: the first line of the table below that fits says it."""
    for make in _fitting(call.name):
        made = make(call)
        if made is not None:
            return made
    return of_unknown(call)


@lru_cache(4096)
def _fitting(name: str) -> tuple[Callable[[Call], Value | None], ...]:
    return tuple(make for pattern, make in _MAKERS if pattern.search(name))


def of_unknown(call: Call) -> Value:
    """Return what a call of a function gives of which only the name is known."""
    last = call.last
    if call.function.kind == "unknown" and last.islower() and call.tensors() and named(last).kind == "module":
        return ASSUMED  # a network, whatever made it
    if knowledge.MODULE_FACTORY.search(last):
        return Value("module", "assumed", name=call.name)
    if knowledge.LOADER_FACTORY.search(last):
        return Value("loader", name=call.name)
    guess = named(last)
    if guess.kind in {"optimizer", "scheduler", "scaler"} and "_" in last:
        return guess
    if any(value.on_device for value in call.tensors()) and any(word in last.lower() for word in _TENSOR_WORDS):
        return ASSUMED
    return UNKNOWN


def _of(kind: Kind) -> Callable[[Call], Value]:
    def make(call: Call) -> Value:
        return Value(kind, name=call.name, node=call.node)

    return make


def _numbers(call: Call) -> Value:
    return PLAIN.but(name=call.name)


def _device(call: Call) -> Value:
    return Value("device", "host" if _is_cpu(call.argument(0, "type")) else "device")


def _is_cpu(value: Value | None) -> bool:
    return value is not None and isinstance(value.constant, str) and value.constant.startswith("cpu")


def _factory(call: Call) -> Value | None:
    """Return a tensor made out of nothing: on the host, unless `device=` says otherwise."""
    if call.last not in knowledge.FACTORIES:
        return None
    target, dtype = call.keywords.get("device"), call.keywords.get("dtype")
    boolean = dtype is not None and dtype.name == "torch.bool"
    if target is None:
        given = next((value for value in call.args if value.kind == "tensor"), None)
        place: Place = given.place if given is not None else "host"
        return HOST.but(name=call.name, node=call.node, place=place, boolean=boolean)
    nowhere = target.known and target.constant is None
    host = nowhere or _is_cpu(target) or (target.kind == "device" and target.place == "host")
    return (HOST if host else DEVICE).but(name=call.name, node=call.node, boolean=boolean)


def _loader(call: Call) -> Value:
    given = dict(zip(knowledge.LOADER_ARGUMENTS, call.args, strict=False)) | call.keywords
    pinned = given.get("pin_memory")
    is_pinned = False if pinned is None else bool(pinned.constant) if pinned.known else None
    return Value("loader", "host", pinned=is_pinned, name=call.name, node=call.node, loader=call.node)


def _wrapper(call: Call) -> Value | None:
    """Return what DistributedDataParallel(model) and the like are: the module; of functions, one that calls them."""
    if call.last not in knowledge.MODULE_WRAPPERS or not call.args:
        return None
    inner = call.first
    if inner.kind == "module":
        return inner.but(name=f"{call.name}({inner.name})")
    if inner.kind == "function":  # torch.compile(self.step): what it is bound to is needed when it is called
        return Value("module", "assumed", name=f"{call.name}({inner.name})", define=inner.define, items=inner.items)
    return Value("module", "assumed", name=call.name)


def _first(call: Call) -> Value:
    return call.first


def _deepspeed(call: Call) -> Value:
    engine = Value("module", "device", name=call.name)
    optimizer, scheduler = Value("optimizer", name=call.name), Value("scheduler", name=call.name)
    return Value("plain", items=(engine, optimizer, UNKNOWN, scheduler))


def _assumed(_: Call) -> Value:
    return ASSUMED


def _layer(call: Call) -> Value | None:
    if not call.last[:1].isupper():
        return None
    return ASSUMED if call.last == "Parameter" else Value("module", "assumed", name=call.name)


def _context(call: Call) -> Value:
    return Value("plain", name=call.name)


def _model(call: Call) -> Value:
    return UNKNOWN if knowledge.NOT_A_MODEL.search(call.name) else Value("module", "assumed", name=call.name)


def _passing(call: Call) -> Value | None:
    return passed(call) if call.last in knowledge.PASSING else None


def _of_tensors(call: Call) -> Value | None:
    """Return the result of a function of tensors: it lives where they do."""
    last = call.last
    if call.name.count(".") > 2 and not call.name.startswith("torch.nn.functional."):
        return None
    if last in _KNOWN_TO_HOST:
        return PLAIN
    boolean = last in knowledge.BOOLEAN
    places = {value.place for value in call.tensors()}
    if not places:
        numbers = all(value.known or value.name.startswith("numpy") for value in call.args)
        return HOST.but(name=call.name, node=call.node) if numbers else TENSOR.but(boolean=boolean)
    order: tuple[Place, ...] = ("device", "assumed", "unknown", "host")
    place = next(one for one in order if one in places)
    if place == "host" and any(v.is_batch for v in call.tensors()) and any(v.kind == "unknown" for v in call.args):
        place = "unknown"  # a batch and what nobody knows: others may have moved both
    if "device" in call.keywords and last.endswith("_like"):
        place = "device"
    made = Value("tensor", place, boolean=boolean)
    return made.but(items=(made, made)) if last in _PAIRS and len(call.args) > 1 else made


def _rearranged(call: Call) -> Value | None:
    """Return the same tensor in another shape; of a list of tensors, one of them."""
    tensor = next(iter(call.tensors()), None)
    return None if tensor is None else tensor.but(items=None, fields=None, name="")


# The first line that fits and gives something counts.
_MAKERS: tuple[tuple[re.Pattern[str], Callable[[Call], Value | None]], ...] = tuple(
    (re.compile(pattern) if isinstance(pattern, str) else pattern, make)
    for pattern, make in (
        (r"^(numpy|np|math|random|time|os)\.", _numbers),
        (r"^torch\.device$", _device),
        (r"^torch\.\w+$", _factory),
        (r"^torch\.cuda\.\w*Tensor$", lambda call: DEVICE.but(name=call.name, node=call.node)),
        (knowledge.LOADERS, _loader),
        (r"", _wrapper),
        (r"^torch\.autograd\.Variable$", _first),
        (r"^deepspeed\.initialize$", _deepspeed),
        (r"lr_scheduler|get_scheduler", _of("scheduler")),
        (r"^torch\.optim\.|(^|\.)(AdamW|Adam|SGD|AdamW8bit|FusedAdam|Lamb|Adafactor)$", _of("optimizer")),
        (r"^torch\.nn\.functional\.", _of_tensors),
        (r"^torch\.nn\.utils\.clip_grad", _assumed),
        (r"^torch\.nn\.", _layer),
        (knowledge.SCALERS, _of("scaler")),
        (knowledge.METRICS, _of("metric")),
        (knowledge.ACCELERATORS, _of("accelerator")),
        (knowledge.AUTOCAST, _context),
        (knowledge.NO_GRAD, _context),
        (knowledge.TENSOR_FUNCTIONS, _of_tensors),
        (r"^einops\.(rearrange|repeat|reduce|einsum)$", _rearranged),
        (r"", _passing),
        (r"^(gym|gymnasium)\.|(^|\.)(make_vec|SyncVectorEnv|AsyncVectorEnv)$", _of("environment")),
        (r"(^|\.)from_pretrained$", _model),
        (knowledge.MODULE_FACTORY, _model),
        (r"(ArgumentParser\.parse_args|from_cli|OmegaConf\.load|tyro\.cli)$", _of("settings")),
        (knowledge.DATASET_BASES, _of("dataset")),
        (r"^torchvision\.datasets\.", _of("dataset")),
    )
)
