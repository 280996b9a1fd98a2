"""How the value of a parameter reaches a job: `-p NAME=VALUE,VALUE` made into a command, variables and settings.

The script is not touched. Its text is read to see which options it knows, see `script`; what it does not know of
DataLoader's arguments and PyTorch's switches is set inside the job, as `whyidle run --set` does. docs/parameters.md
tells it to people.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from whyidle.errors import WhyIdleError
from whyidle.launch import settings
from whyidle.model.trial import Params
from whyidle.sweep import command as words
from whyidle.sweep.script import Script, find, place

How: TypeAlias = Literal["placeholder", "option", "override", "flag", "environment", "setting"]

MOST_VALUES: Final = 64
RANGE: Final = re.compile(r"(\d{1,7})\.\.(\d{1,7})(?:([*+])(\d{1,7}))?")
NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
ON_OFF: Final = {"on", "off"}
KINDS: Final = "env:, flag:, loader: or torch:"
EXAMPLE: Final = "-p num_workers=0,4,8"
WORKERS_OF_LOADER: Final = "0"  # num_workers of DataLoader, where a script does not say
LIKE: Final = 0.75  # of difflib's ratio: a slip of the hand


@dataclass(frozen=True, slots=True)
class Parameter:
    """What is tried with several values."""

    name: str  # as it was given to -p
    values: tuple[str, ...]
    how: How  # its value reaches the job
    target: str  # the placeholder, option (of a flag with an opposite both, as --amp/--no-amp), variable or setting
    said: str  # the same in words
    is_doubted: bool = False  # the script was read, and does not seem to take it
    advice: str = ""  # what to do then
    present: str | None = None  # the value that the job has without -p, where its command or its text says so


@dataclass(frozen=True, slots=True)
class Job:
    """A command with the values of a cell."""

    command: tuple[str, ...]
    environment: Mapping[str, str]  # variables that are added to those of the sweep
    settings: Mapping[str, str]  # for `whyidle run --set`


def parse(texts: Sequence[str], command: Sequence[str], here: Path | None = None) -> tuple[Parameter, ...]:
    """Return the parameters that -p asks for.

    Args:
        texts: of each -p: NAME=VALUE,VALUE; a value may be a range: 0..8, 0..8+2, 1..16*2. NAME alone has no
            values: a search chooses them.
        command: the job, as it is started without whyidle.
        here: the folder in which it is started; None for the current one.

    Raises:
        WhyIdleError: where a text is no such thing, or its values cannot reach the job.
    """
    if not texts:
        raise WhyIdleError("no parameter is given", EXAMPLE)
    script = find(command, here or Path.cwd())
    found: list[Parameter] = []
    for text in texts:
        name, equals, listed = text.partition("=")
        if not name:
            raise WhyIdleError(f"-p takes NAME=VALUE,VALUE, not {text!r}", EXAMPLE)
        parameter = _parameter(name, _values(name, listed) if equals else (), command, script)
        same = next((one for one in found if (one.how, one.target) == (parameter.how, parameter.target)), None)
        if same is not None:
            raise WhyIdleError(f"-p {same.name} and -p {name} are the same", f"all values in one: -p {name}=0,4,8")
        found.append(parameter)
    return tuple(found)


def applied(parameters: Sequence[Parameter], params: Params, command: Sequence[str]) -> Job:
    """Return a job with the values of a cell.

    Args:
        parameters: as `parse` gave them for this command.
        params: a value for each.
        command: the job, as it is started without whyidle.
    """
    parts = list(command)
    environment: dict[str, str] = {}
    given: dict[str, str] = {}
    at, _ = place(command)
    for parameter in parameters:
        value, target = params[parameter.name], parameter.target
        if parameter.how == "placeholder":
            parts = [part.replace(target, value) for part in parts]
        elif parameter.how == "option":
            parts = words.with_option(parts, at, target, value)
        elif parameter.how == "override":
            parts = words.with_override(parts, at, target, value)
        elif parameter.how == "flag":
            parts = words.with_flag(parts, at, target, on=value == "on")
        elif parameter.how == "environment":
            environment[target] = value
        else:
            given[target] = value
    return Job(tuple(parts), environment, given)


def _parameter(name: str, values: tuple[str, ...], command: Sequence[str], script: Script) -> Parameter:
    """Return how the values of one parameter reach the job."""
    kind, colon, bare = name.partition(":")
    if not colon:
        return _unprefixed(name, values, command, script)
    if kind == "env":
        return _variable(name, bare, values)
    if kind in {"loader", "torch"}:
        return _setting(name, name, values, script)
    if kind == "flag" and NAME.fullmatch(bare):
        return _flag(name, bare, values, script)
    raise WhyIdleError(f"-p {name}: there is no such kind of parameter", f"-p NAME=…, or {KINDS} before the name")


def _unprefixed(name: str, values: tuple[str, ...], command: Sequence[str], script: Script) -> Parameter:
    """Return how the values of a parameter without a prefix reach the job: by what the command and the script say."""
    if not NAME.fullmatch(name):
        raise WhyIdleError(f"-p {name}: that is no name", EXAMPLE)
    plain = name.replace("-", "_")
    place = next((one for one in (f"{{{name}}}", f"{{{plain}}}") if any(one in word for word in command)), None)
    if place is not None:
        return Parameter(name, values, "placeholder", place, f"in place of {place} in the command")
    _check_numbers(name, values)
    known = _in_command(name, values, command, script) or _by_script(name, values, script)
    if known is not None:
        return known
    for kind in ("loader", "torch"):
        if f"{kind}:{plain}" in settings.CATALOGUE:
            return _setting(name, f"{kind}:{plain}", values, script)
    if plain in {"autocast", "amp"}:
        settings.kind_of(f"torch:{plain}")
    if not script.takes_options:
        raise WhyIdleError(f"-p {name}: {script.name} has no place for it", f"put {{{name}}} where the value goes")
    option, is_doubted = words.spelled(name), script.texts is not None
    return Parameter(
        name, values, "option", option, f"as {option}, {_unknown(script)}", is_doubted, _advice(name, script)
    )


def _in_command(name: str, values: tuple[str, ...], command: Sequence[str], script: Script) -> Parameter | None:
    """Return a parameter of which the command has a value already."""
    option = words.option_in(command, script.at, name)
    if option is not None and set(values) <= ON_OFF and script.is_flag(name.replace("-", "_")):
        return _flag(name, name, values, script)
    if option is not None:
        said = f"as {option}, in place of what the command says"
        return Parameter(name, values, "option", option, said, present=words.value_in(command, script.at, name))
    if words.override_in(command, script.at, name):
        return Parameter(name, values, "override", name, f"as {name}=…, in place of what the command says")
    return None


def _by_script(name: str, values: tuple[str, ...], script: Script) -> Parameter | None:
    """Return a parameter that the script takes, as far as its text tells."""
    plain = name.replace("-", "_")
    option = script.option(plain)
    if option is not None and set(values) <= ON_OFF and script.is_flag(plain):
        return _flag(name, plain, values, script)
    if option is not None:
        known = f"as {option}, which {script.name} knows"
        return Parameter(name, values, "option", option, known, present=script.default(plain))
    if script.overrides(name):
        return Parameter(name, values, "override", name, f"as {name}=…, which hydra reads")
    return None


def _unknown(script: Script) -> str:
    if script.texts is None:
        return f"of which it is not known whether {script.name} takes it"
    return f"which {script.name} does not seem to know"


def _advice(name: str, script: Script) -> str:
    """Return what to type where a script does not seem to know a name: one like it, or where the value goes."""
    known = {*script.options(), *(setting.partition(":")[2] for setting in settings.CATALOGUE)}
    like = difflib.get_close_matches(name.replace("-", "_"), known, n=1, cutoff=LIKE)
    close = [] if "." in name else like  # of a dotted name the whole is meant
    if close:
        return f"did you mean -p {close[0]}?"
    return f"put {{{name}}} in the command where the value goes, as in {name}={{{name}}}"


def _variable(name: str, variable: str, values: tuple[str, ...]) -> Parameter:
    if not VARIABLE.fullmatch(variable) or variable.startswith("WHYIDLE_"):
        raise WhyIdleError(f"-p {name}: no variable can be called {variable!r}", "-p env:OMP_NUM_THREADS=1,2,4")
    return Parameter(name, values, "environment", variable, f"as the environment variable {variable}")


def _setting(name: str, target: str, values: tuple[str, ...], script: Script) -> Parameter:
    seen: dict[object, str] = {}
    for value in values:
        meant = settings.checked(target, value, f"-p {name}")
        if meant in seen:
            raise WhyIdleError(f"-p {name}: {seen[meant]} and {value} are the same", f"-p {name}={value}")
        seen[meant] = value
    kind, _, bare = target.partition(":")
    if kind == "torch":
        said = {
            "compile": f"by compiling the model when {script.name} first trains it",
            "channels_last": f"in the model's weights when {script.name} first trains it",
        }.get(bare, f"in PyTorch when {script.name} has imported it")
    else:
        said = f"in DataLoader(...) when {script.name} makes one" + (" to train" if bare == "batch_size" else "")
    present = script.argument(bare, WORKERS_OF_LOADER) if bare == "num_workers" else None
    return Parameter(name, values, "setting", target, f"set {said}", present=present)


def _flag(name: str, bare: str, values: tuple[str, ...], script: Script) -> Parameter:
    if not set(values) <= ON_OFF:
        other = next(value for value in values if value not in ON_OFF)
        raise WhyIdleError(f"-p {name} is off or on, not {other!r}", f"-p {name}=off,on")
    option, opposite = script.option(bare.replace("-", "_")), script.opposite(bare.replace("-", "_"))
    known = f"which {script.name} knows" if option is not None else _unknown(script)
    target = option or words.spelled(bare)
    is_doubted = option is None and script.texts is not None
    if opposite is not None:
        said = f"as {target} or {opposite}, {known}"
        return Parameter(name, values, "flag", f"{target}/{opposite}", said, is_doubted)
    return Parameter(
        name, values, "flag", target, f"with {target} or without, {known}", is_doubted, _advice(bare, script)
    )


def _check_numbers(name: str, values: Sequence[str]) -> None:
    """Refuse what DataLoader cannot take, whichever way it gets there."""
    setting = f"loader:{name.replace('-', '_')}"
    if isinstance(settings.CATALOGUE.get(setting), int):
        for value in values:
            settings.checked(setting, value, f"-p {name}")


def _values(name: str, listed: str) -> tuple[str, ...]:
    """Return the values that a text lists."""
    values: list[str] = []
    for part in listed.split(","):
        value = part.strip()
        if not value:
            raise WhyIdleError(f"-p {name}={listed}: a value is missing", EXAMPLE)
        span = RANGE.fullmatch(value)
        values += _range(name, value, span) if span else [value]
    if len(values) > MOST_VALUES:
        raise _too_many(name)
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise WhyIdleError(f"-p {name}: {twice} is there twice", f"-p {name}={','.join(dict.fromkeys(values))}")
    return tuple(values)


def _range(name: str, text: str, span: re.Match[str]) -> list[str]:
    """Return the numbers from the first to the last, both included."""
    low, high, step = int(span[1]), int(span[2]), int(span[4] or 1)
    grows = step > 1 and low > 0 if span[3] == "*" else step > 0
    if low > high or not grows:
        raise WhyIdleError(f"-p {name}: {text} is no range", f"-p {name}=0..8, {name}=0..8+2 or {name}=1..16*2")
    numbers: list[str] = []
    while low <= high:
        if len(numbers) == MOST_VALUES:
            raise _too_many(name)
        numbers.append(str(low))
        low = low * step if span[3] == "*" else low + step
    return numbers


def _too_many(name: str) -> WhyIdleError:
    return WhyIdleError(f"-p {name} has more than {MOST_VALUES} values, each of which is a job", f"-p {name}=1..64*2")
