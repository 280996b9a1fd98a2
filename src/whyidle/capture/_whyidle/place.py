"""Which line of the user's code is responsible: the innermost frame that belongs to no library."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import sysconfig
from types import FrameType

OURS = os.path.dirname(__file__) + os.sep
FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
DEEPEST = 200  # frames; the user's code is nearer
LONGEST_CALL = 50  # lines

_home = ""
_torch = ""


def is_library(file: str) -> bool:
    """Return whether a file belongs to an installed package, to torch, to Python, or to us."""
    return file.startswith(("<frozen", OURS, STANDARD, _torch_folder())) or any(part in file for part in FOLDERS)


def of_user(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user's code from `frame` outwards; the innermost that is not ours if none."""
    first = None
    for _ in range(DEEPEST):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if not is_library(file):
            return frame
        if first is None and not file.startswith(OURS):
            first = frame
        frame = frame.f_back
    return first


def shown(file: str) -> str:
    """Return a file's path as a person would type it: relative where it lies in the working directory."""
    global _home
    try:
        _home = _home or os.getcwd() + os.sep
    except OSError:  # the directory is gone
        return file
    return file[len(_home) :] if file.startswith(_home) else file


def text(frame: FrameType | None) -> str:
    """Return `train.py:12`; empty where there is no such frame."""
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def caller() -> str:
    """Return the line of the user's code that is running, as `train.py:12`."""
    return text(of_user(sys._getframe(1)))


def operation(frame: FrameType) -> str:
    """Return what a frame is calling, as its source spells it: `item`, `float`; empty where Python does not tell.

    The place of an instruction in its source is known from Python 3.11 on.
    """
    places = getattr(frame.f_code, "co_positions", lambda: ())()
    for index, (line, last, column, end) in enumerate(places):
        if index * 2 == frame.f_lasti:
            if None in (line, last, column, end) or last - line > LONGEST_CALL:
                return ""
            lines = [linecache.getline(frame.f_code.co_filename, n).encode() for n in range(line, last + 1)]
            lines[-1] = lines[-1][:end]
            lines[0] = lines[0][column:]
            return spelled(b"".join(lines).decode(errors="replace"))
    return ""


def spelled(source: str) -> str:
    """Return the name of what an expression does: of a call what it calls, else `index` or `bool`."""
    try:
        node: ast.expr = ast.parse(f"({source})", mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if isinstance(node, ast.Call):
        called = node.func
        return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if isinstance(node, ast.Subscript):
        return "index"
    return "bool" if isinstance(node, (ast.Compare, ast.Name, ast.BoolOp, ast.UnaryOp, ast.Attribute)) else ""


def _torch_folder() -> str:
    """Return where torch lies, which is not in site-packages for who builds it; a path that nothing starts with."""
    global _torch
    if not _torch:
        file = getattr(sys.modules.get("torch"), "__file__", None)
        if file is None:
            return "<torch>"
        _torch = os.path.dirname(file) + os.sep
    return _torch
