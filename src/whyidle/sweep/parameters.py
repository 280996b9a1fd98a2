"""Stand-in of the branch that is built beside: `-p NAME=V1,V2` and `{NAME}` or `--NAME` in the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from whyidle.errors import WhyIdleError
from whyidle.model.trial import Params


@dataclass(frozen=True, slots=True)
class Parameter:
    """What is varied."""

    name: str
    values: tuple[str, ...]
    how: str = "option"
    said: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job with its values."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def parse(texts: Sequence[str], command: Sequence[str]) -> tuple[Parameter, ...]:
    """Return the parameters of `-p` texts."""
    found = []
    for text in texts:
        name, _, values = text.partition("=")
        split = tuple(value.strip() for value in values.split(",") if value.strip())
        if not name or not split:
            raise WhyIdleError(f"-p {text}: no values", "-p num_workers=0,4,8")
        found.append(Parameter(name, split, "option", f"as --{name.replace('_', '-')}"))
    return tuple(found)


def applied(parameters: Sequence[Parameter], params: Params, command: Sequence[str]) -> Job:
    """Return the job with these values."""
    words = list(command)
    for name, value in params.items():
        if any("{" + name + "}" in word for word in words):
            words = [word.replace("{" + name + "}", value) for word in words]
        else:
            words += [f"--{name.replace('_', '-')}", value]
    return Job(tuple(words))
