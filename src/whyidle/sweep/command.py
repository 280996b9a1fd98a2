"""A command with another value for one of the options of its script, as a list of words.

Options of the script are those behind it: the words in front of it are the launcher's. What stands behind `--` are no
options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

RANKS: Final = ("nproc-per-node", "num-processes", "num-gpus")  # of torchrun, accelerate, deepspeed


def spelled(name: str) -> str:
    """Return a name as an option: `num_workers` is `--num-workers`; a dotted one stays as it is."""
    if len(name) == 1:
        return f"-{name}"
    return f"--{name if '.' in name else name.replace('_', '-')}"


def option_in(command: Sequence[str], at: int, name: str) -> str | None:
    """Return how a command spells an option that it has; None where it has none of that name."""
    return next((spelling for _, spelling in _options(command, at, name)), None)


def value_in(command: Sequence[str], at: int, name: str) -> str | None:
    """Return the value that a command gives an option, the last of several; None where it gives none."""
    found = None
    for position, _ in _options(command, at, name):
        _, equals, value = command[position].partition("=")
        following = command[position + 1] if position + 1 < len(command) else "--"
        found = value if equals else None if _is_option(following) else following
    return found


def ranks_in(command: Sequence[str], at: int) -> int:
    """Return the training processes that the launcher before a script is told to start; 1 where it is not told."""
    told = (value_in(command[:at], 0, option) or "" for option in RANKS)
    return next((int(text) for text in told if text.isdecimal() and int(text) > 0), 1)


def override_in(command: Sequence[str], at: int, name: str) -> bool:
    """Return whether a command says NAME=VALUE, as scripts with hydra take it."""
    return any(True for _ in _overrides(command, at, name))


def with_option(command: Sequence[str], at: int, option: str, value: str) -> list[str]:
    """Return a command in which an option has a value.

    Args:
        command: its words.
        at: where its script stands.
        option: as it is added where the command does not have it.
        value: in place of the one that it has.
    """
    words = list(command)
    there = list(_options(words, at, option.lstrip("-")))
    for position, spelling in reversed(there):
        if "=" in words[position]:
            words[position] = f"{spelling}={value}"
        elif position + 1 < len(words) and not _is_option(words[position + 1]):
            words[position + 1] = value
        else:
            words.insert(position + 1, value)
    if not there:
        added = [option, value] if not value.startswith("-") or len(option) == 2 else [f"{option}={value}"]
        words[_end(words, at) : _end(words, at)] = added
    return words


def with_override(command: Sequence[str], at: int, name: str, value: str) -> list[str]:
    """Return a command that says NAME=VALUE."""
    words = list(command)
    there = list(_overrides(words, at, name))
    for position in there:
        words[position] = f"{words[position].partition('=')[0]}={value}"
    if not there:
        words.insert(_end(words, at), f"{name}={value}")
    return words


def with_flag(command: Sequence[str], at: int, option: str, *, on: bool) -> list[str]:
    """Return a command with an option that takes no value, or without it.

    Args:
        command: its words.
        at: where its script stands.
        option: the option, or `--amp/--no-amp` where another one says no.
        on: whether it is meant.
    """
    yes, _, no = option.partition("/")
    meant, other = (yes, no) if on else (no, yes)
    left_out = {position for position, _ in _options(command, at, other.lstrip("-"))} if other else set()
    words = [word for position, word in enumerate(command) if position not in left_out]
    if meant and not any(True for _ in _options(words, at, meant.lstrip("-"))):
        words.insert(_end(words, at), meant)
    return words


def _end(words: Sequence[str], at: int) -> int:
    """Return where the script's options end."""
    return next((at + 1 + position for position, word in enumerate(words[at + 1 :]) if word == "--"), len(words))


def _options(words: Sequence[str], at: int, name: str) -> Iterator[tuple[int, str]]:
    dashes = "-" if len(name) == 1 else "--"
    pattern = re.compile(rf"({dashes}{re.escape(name.replace('-', '_')).replace('_', '[-_]')})(?:=.*)?", re.DOTALL)
    for position in range(at + 1, _end(words, at)):
        found = pattern.fullmatch(words[position])
        if found:
            yield position, found[1]


def _overrides(words: Sequence[str], at: int, name: str) -> Iterator[int]:
    pattern = re.compile(rf"\+{{0,2}}{re.escape(name)}=.*", re.DOTALL)
    return (position for position in range(at + 1, _end(words, at)) if pattern.fullmatch(words[position]))


def _is_option(word: str) -> bool:
    return word == "--" or re.match(r"--?[A-Za-z_]", word) is not None
