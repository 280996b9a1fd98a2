"""What numbers a job computes in, as far as its source tells: whether tensor cores can do its matrix products."""

from __future__ import annotations

import re

from whyidle.lint.events import Called
from whyidle.lint.job import Job
from whyidle.lint.source import Source

# Who writes one of these has thought of it. Words in comments count as well: to be silent is the smaller mistake.
_THOUGHT_OF = re.compile(
    r"autocast|gradscaler|\bb?f(loat)?16|bfloat16|\.half\(|\.double\(|float64|fp8|float8|tf32|matmul_precision"
    r"|fp32_precision|precision|\bamp\b|apex|deepspeed|_dtype\b|quantiz",
    re.IGNORECASE,
)
_SIXTEEN = {"torch.bfloat16", "torch.float16", "torch.half"}
_OPTIONS: dict[str, frozenset[object]] = {
    "bf16": frozenset({True}),
    "fp16": frozenset({True}),
    "mixed_precision": frozenset({"bf16", "fp16"}),
    "precision": frozenset({16, "16", "bf16", "16-mixed", "bf16-mixed", "16-true", "bf16-true"}),
}


def sources(job: Job) -> tuple[Source, ...]:
    """Return the files that anything was followed in, that of the job first."""
    return tuple(dict.fromkeys((job.source, *(event.source for event in job.events))))


def is_thought_of(job: Job) -> bool:
    """Say whether any file of the job speaks of the precision of its numbers."""
    return any(_THOUGHT_OF.search(source.text) for source in sources(job))


def is_sixteen_bit(job: Job) -> bool:
    """Say whether the job certainly computes in 16 bits: under autocast, in such a model, by a trainer's option."""
    return any(event.where.autocast for event in job.events) or any(
        _asks_for_sixteen(event) for event in job.events if isinstance(event, Called)
    )


def _asks_for_sixteen(call: Called) -> bool:
    receiver = call.receiver
    if (
        receiver is not None
        and receiver.kind == "module"
        and call.name.rpartition(".")[2] in {"half", "bfloat16", "to"}
    ):
        given = (*call.args, *call.keywords.values())
        return not call.name.endswith(".to") or any(value.name in _SIXTEEN for value in given)
    if call.keywords.keys() & {"torch_dtype", "dtype"} and call.name.endswith("from_pretrained"):
        return any(call.keywords[name].name in _SIXTEEN for name in ("torch_dtype", "dtype") if name in call.keywords)
    return any(
        value.known and isinstance(value.constant, bool | int | str) and value.constant in _OPTIONS[name]
        for name, value in call.keywords.items()
        if name in _OPTIONS
    )
