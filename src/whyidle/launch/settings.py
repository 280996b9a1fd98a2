"""What can be set in a job from outside: `whyidle run --set NAME=VALUE`, checked before the job starts.

The names are those of `_whyidle.apply` and `_whyidle.switches`, which set them inside the job; docs/parameters.md says
what each does.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from whyidle.errors import WhyIdleError

Value: TypeAlias = bool | int | str
Kind: TypeAlias = int | tuple[str, ...]  # the least whole number, or the words that it can be

SWITCH: Final = ("off", "on")
_MODES: Final = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
CATALOGUE: Final[Mapping[str, Kind]] = {
    "loader:num_workers": 0,
    "loader:prefetch_factor": 1,
    "loader:pin_memory": SWITCH,
    "loader:persistent_workers": SWITCH,
    "loader:batch_size": 1,
    "loader:multiprocessing_context": ("fork", "spawn", "forkserver"),
    "loader:in_order": SWITCH,
    "torch:compile": (*SWITCH, *_MODES),
    "torch:tf32": SWITCH,
    "torch:cudnn_benchmark": SWITCH,
    "torch:channels_last": SWITCH,
    "torch:matmul_precision": ("highest", "high", "medium"),
    "torch:threads": 1,
}
MOST: Final = 1 << 20  # of a whole number: more is a slip of the hand
_ALSO: Final = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
_AUTOCAST: Final = (
    "autocast cannot be set from outside: it changes what is computed where, and only the script's own step can say "
    "where it begins and ends, and scale the loss"
)


def parse(texts: Iterable[str]) -> dict[str, Value]:
    """Return the settings that were asked for, by name.

    Raises:
        WhyIdleError: for a name that is not known, a value that it cannot have, or a name twice.
    """
    found: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise WhyIdleError(f"--set takes NAME=VALUE, not {text!r}", "--set loader:num_workers=4")
        if name in found:
            raise WhyIdleError(f"--set {name} is given twice", f"--set {name}={value}")
        found[name] = checked(name, value)
    return found


def checked(name: str, text: str, typed: str = "") -> Value:
    """Return the value that a text means.

    Args:
        name: of the setting.
        text: the value.
        typed: the name as the user has it, where that is another.

    Raises:
        WhyIdleError: for a name that is not known, or a value that it cannot have.
    """
    kind, typed = kind_of(name), typed or name
    if isinstance(kind, int):
        if text.isascii() and text.isdecimal() and kind <= int(text) <= MOST:
            return int(text)
        raise WhyIdleError(f"{typed} is a whole number, {kind} to {MOST:,}, not {text!r}", f"{typed}={max(kind, 4)}")
    word = _ALSO.get(text.lower(), text.lower()) if "on" in kind else text
    if word not in kind:
        raise WhyIdleError(f"{typed} is {', '.join(kind[:-1])} or {kind[-1]}, not {text!r}", f"{typed}={kind[-1]}")
    return word == "on" if word in SWITCH else word


def kind_of(name: str) -> Kind:
    """Return what a setting can be.

    Raises:
        WhyIdleError: where there is none of this name.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if name.removeprefix("torch:") in {"autocast", "amp"}:
        raise WhyIdleError(_AUTOCAST, "if the script has an option for it: whyidle sweep -p flag:amp=off,on")
    close = difflib.get_close_matches(name, CATALOGUE, n=1) or [one for one in CATALOGUE if one.endswith(f":{name}")]
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CATALOGUE)}"
    raise WhyIdleError(f"no setting is called {name!r}", hint)
