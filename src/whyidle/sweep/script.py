"""Which options a job's script knows: its text and that of its modules, read and never imported or run."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

# The command line of a shell, Python code, a module, a file of Python; another program, of which nothing is read.
Kind: TypeAlias = Literal["shell", "code", "module", "file", "other"]

MOST_FILES: Final = 64  # of the script and what it imports
MOST_BYTES: Final = 1 << 20  # of one of them
LAUNCHERS: Final = ("torch.distributed.", "accelerate.", "deepspeed.")  # modules that start a script
PROGRAMS: Final = {"torchrun", "accelerate", "deepspeed", "uv"}  # those that do, and take -m as Python does
SHELL: Final = re.compile(r"(?:ba|z|k|da)?sh")
PYTHON: Final = re.compile(r"python[\d.]*|pypy[\d.]*")
IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>\.*[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^#\n]*)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
# libraries that make options of annotated names, and what stands between the words of such an option
ANNOTATED: Final = (
    (re.compile(r"^[ \t]*(?:import|from)[ \t]+(?:typer|tyro)\b", re.MULTILINE), "-"),
    (re.compile(r"HfArgumentParser|LightningCLI|^[ \t]*(?:import|from)[ \t]+(?:simple_parsing|fire)\b", re.M), "_"),
)
HYDRA: Final = re.compile(r"@hydra\.main\b|^[ \t]*from[ \t]+hydra[ \t]+import", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """What a command runs."""

    at: int  # where it stands in the command; its own options stand after it
    name: str  # as people call it
    texts: tuple[str, ...] | None  # of it and what it imports; None where that is no Python, or was not found
    takes_options: bool = True  # False for a command line of a shell's `-c`

    def option(self, name: str) -> str | None:
        """Return how the script spells an option; None where it has none of that name.

        Args:
            name: its words with underscores between them.
        """
        words = re.escape(name).replace("_", "[-_]")
        dashes = "-" if len(name) == 1 else "--"
        for text in self.texts or ():
            found = re.search(rf"""["']({dashes}{words})(?=["'/= ])""", text)
            if found:
                return found[1]
            if re.search(rf"""\bDEFINE_\w+\(\s*["']{re.escape(name)}["']""", text):
                return f"--{name}"
        for library, between in ANNOTATED:
            if any(library.search(text) for text in self.texts or ()) and self._annotates(name):
                return f"--{name.replace('_', between)}"
        return None

    def default(self, name: str) -> str | None:
        """Return the whole number that an option has where it is not given; None where the text does not say."""
        words = re.escape(name).replace("_", "[-_]")
        found = {
            number
            for text in self.texts or ()
            for number in re.findall(rf"""["']--{words}["'][^)]*?\bdefault\s*=\s*(\d+)\s*[,)]""", text)
        }
        return found.pop() if len(found) == 1 else None

    def argument(self, name: str, usual: str) -> str | None:
        """Return the whole number that all calls give for an argument, `usual` where none does; None: not known."""
        if self.texts is None:
            return None
        said = [value for text in self.texts for value in re.findall(rf"\b\w*{name}\b[\"']?(?:\s*[=:]\s*(\w+))?", text)]
        if not said:
            return usual
        return said[0] if len(set(said)) == 1 and said[0].isdecimal() else None

    def options(self) -> set[str]:
        """Return the long options that are written in the script, their words with underscores between them."""
        spelled = re.compile(r"""["']--([A-Za-z][\w.-]*)["'/= ]|\bDEFINE_\w+\(\s*["']([\w.-]+)["']""")
        return {(one or other).replace("-", "_") for text in self.texts or () for one, other in spelled.findall(text)}

    def is_flag(self, name: str) -> bool:
        """Return whether an option takes no value."""
        words = re.escape(name).replace("_", "[-_]")
        flag = re.compile(rf"""["']--{words}["'][^)]*\b(?:store_true|is_flag)\b""")
        return self.opposite(name) is not None or any(flag.search(text) for text in self.texts or ())

    def opposite(self, name: str) -> str | None:
        """Return the option that says no, of one that takes no value; None where leaving it out is all there is."""
        words = re.escape(name).replace("_", "[-_]")
        for text in self.texts or ():
            found = re.search(rf"""["']--{words}/(--[\w-]+)["']""", text)  # click
            if found:
                return found[1]
            found = re.search(rf"""["']--({words})["'][^)]*\bBooleanOptionalAction\b""", text)
            if found:
                return f"--no-{found[1]}"
        return None

    def overrides(self, name: str) -> bool:
        """Return whether the script takes NAME=VALUE for a name, as those with hydra do."""
        texts = self.texts or ()
        if not any(HYDRA.search(text) for text in texts):
            return False
        used = re.compile(rf"\b(?:cfg|conf|config)\.{re.escape(name)}\b")
        return "." in name or any(used.search(text) for text in texts)

    def _annotates(self, name: str) -> bool:
        word = re.escape(name)
        annotated = re.compile(rf"(?:^|[(,])[ \t]*{word}[ \t]*:|\bdef[ \t]+\w+\([^)]*\b{word}\b", re.MULTILINE)
        return any(annotated.search(text) for text in self.texts or ())


def find(command: Sequence[str], here: Path) -> Script:
    """Return what a command runs, looked for in the folder `here`."""
    at, kind = place(command)
    word = command[at]
    match kind:
        case "shell":
            return Script(at, "the shell's command", None, takes_options=False)
        case "code":
            return Script(at, "the code", (word,))
        case "module":
            return Script(at, word, _texts(_module(here, word.split("."), "__main__"), here))
        case "file":
            return Script(at, Path(word).name, _texts(here / word, here))
    return Script(at, Path(word).name, None)


def place(command: Sequence[str]) -> tuple[int, Kind]:
    """Return where in a command stands what it runs, and what that is; nothing is read."""
    for at, word in enumerate(command):
        following = command[at + 1] if at + 1 < len(command) else ""
        before = [Path(one).name for one in command[:at]]
        if re.fullmatch(r"-\w*c", word) and following:
            if any(SHELL.fullmatch(one) for one in before):
                return at + 1, "shell"
            if any(PYTHON.fullmatch(one) for one in before):
                return at + 1, "code"
        runs_modules = any(PYTHON.fullmatch(one) or one in PROGRAMS for one in before)
        if word == "-m" and runs_modules and following and not following.startswith(LAUNCHERS):
            return at + 1, "module"
        if word.endswith(".py"):
            return at, "file"
        if word.endswith((".sh", ".bash")):
            return at, "other"
    return 0, "other"


def _texts(script: Path | None, here: Path) -> tuple[str, ...] | None:
    """Return the texts of a script and of the modules beside it that it imports, as far as there is patience."""
    text = _text(script)
    if script is None or text is None:
        return None
    texts, seen, waiting = [text], {script}, deque(_imports(text, script, here))
    while waiting and len(texts) < MOST_FILES:
        path = waiting.popleft()
        if path not in seen:
            seen.add(path)
            text = _text(path)
            if text is not None:
                texts.append(text)
                waiting.extend(_imports(text, path, here, script.parent))
    return tuple(texts)


def _imports(text: str, path: Path, *roots: Path) -> Iterator[Path]:
    """Yield the files that a module imports, where they lie below one of the folders or beside it."""
    for found in IMPORT.finditer(text):
        if found["modules"]:
            names = [name.split()[0] for name in found["modules"].split(",") if name.split()]
            sources = [("", name) for name in names]
        else:
            names = [name.split()[0] for name in found["names"].strip("() \t\n").split(",") if name.split()]
            dots = len(found["source"]) - len(found["source"].lstrip("."))
            source = found["source"][dots:]
            sources = [("." * dots, source), *(("." * dots, f"{source}.{name}".strip(".")) for name in names)]
        for dots_, dotted in sources:
            folders = [path.parents[len(dots_) - 1]] if 0 < len(dots_) <= len(path.parents) else [path.parent, *roots]
            for folder in folders:
                file = _module(folder, [part for part in dotted.split(".") if part])
                if file is not None:
                    yield file
                    break


def _module(folder: Path, parts: Sequence[str], of_package: str = "__init__") -> Path | None:
    """Return the file of a module below a folder; None where there is none.

    Args:
        folder: in which imports are looked for.
        parts: of its dotted name.
        of_package: which file of a package is meant.
    """
    if not parts:
        return None
    place = folder.joinpath(*parts)
    candidates = (place.with_name(f"{place.name}.py"), place / f"{of_package}.py")
    try:
        return next((path for path in candidates if path.is_file()), None)
    except (OSError, ValueError):  # no file system has such a name
        return None


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
