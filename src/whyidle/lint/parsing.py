"""Bytes to a tree: encodings, line ends, notebooks, and every way to be no Python. Nothing is imported or run."""

from __future__ import annotations

import ast
import codecs
import io
import re
import sys
import tokenize
import warnings
from pathlib import Path

from whyidle.lint import notebook
from whyidle.lint.source import Source, Unread, cell_of
from whyidle.lint.suppressed import ignored_in

# A file over this is data, whatever its name says; notebooks hold pictures, too. (judgement)
LARGEST_BYTES = 5_000_000
LARGEST_NOTEBOOK_BYTES = 50_000_000
NOTEBOOK = ".ipynb"


def parsed(data: bytes, path: Path, name: str) -> Source | Unread:
    """Return the source that these bytes are.

    Args:
        data: the file as it is on the disk.
        path: where that is.
        name: what reports call it.
    """
    if len(data) > largest(path):
        return Unread(name, f"is larger than {largest(path) // 1_000_000} MB")
    if path.suffix.lower() == NOTEBOOK:
        return _notebook(data, path, name)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = data.startswith(codecs.BOM_UTF8)
        text = data[len(codecs.BOM_UTF8) if bom else 0 :].decode("utf-8" if bom else encoding)
    except (SyntaxError, LookupError):
        return Unread(name, "its first lines name an encoding that there is not, or are no text")
    except UnicodeError as error:
        at = data[: error.start].count(b"\n") + 1 if isinstance(error, UnicodeDecodeError) else None
        return Unread(name, f"is not {encoding}, as Python would read it", at)
    tree = _tree(text, name)
    if isinstance(tree, Unread):
        return tree
    return Source(
        path=path,
        name=name,
        text=text,
        tree=tree,
        newline=_newline(text),
        bom=bom,
        encoding="utf-8" if bom else encoding,
        ignored=ignored_in(text),
    )


def largest(path: Path) -> int:
    """Return how many bytes a file may have to be read."""
    return LARGEST_NOTEBOOK_BYTES if path.suffix.lower() == NOTEBOOK else LARGEST_BYTES


def _notebook(data: bytes, path: Path, name: str) -> Source | Unread:
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        opened = notebook.opened(data.decode("utf-8-sig"))
    except notebook.NotebookError as error:
        return Unread(name, str(error))
    except UnicodeDecodeError:
        return Unread(name, "is not utf-8, as notebooks are")
    tree = _tree(opened.text, name)
    if isinstance(tree, Unread):
        return Unread(name, tree.reason, tree.line, cell_of(opened.cells, tree.line or 0))
    ignored = ignored_in(opened.text)
    return Source(path, name, opened.text, tree, opened.cells, "\n", bom, "utf-8", ignored)


def _tree(text: str, name: str) -> ast.Module | Unread:
    """Return the tree of a text. Warnings that Python has about it are its author's, not our user's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return Unread(name, f"{error.msg or 'invalid syntax'} (as Python {version} reads it)", error.lineno)
    except (RecursionError, MemoryError):
        return Unread(name, "nests too deeply for Python's own parser")
    except ValueError as error:  # null bytes, half a surrogate pair
        return Unread(name, f"cannot be parsed: {error}")


def _newline(text: str) -> str:
    """Return the line end that most lines have."""
    ends = re.findall(r"\r\n|\r|\n", text) if "\r" in text else []
    return max(("\n", "\r\n", "\r"), key=ends.count)
