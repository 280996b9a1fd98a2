"""Files mended: in rounds, in the cells of notebooks, and written so that the rest of the file stays as it was."""

from __future__ import annotations

import ast
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lint.pointed import call
from whyidle.errors import WhyIdleError
from whyidle.lint.base import Hit
from whyidle.lint.findings import Linted
from whyidle.lint.fixing import ROUNDS, Fixed, diff, fixed, write
from whyidle.lint.parsing import parsed
from whyidle.lint.repair import Insert, Remove, Repair, Replace, SetArguments
from whyidle.lint.source import Source
from whyidle.model.finding import Finding, Location


def found(source: Source, safe: bool = True) -> Iterator[Linted]:
    """Yield a finding for each `sync()` that has to go, and for each loader without workers or pinned memory."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and ast.unparse(node) == "sync()":
            yield linted(source, node, Repair((Remove(node),), safe))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "DataLoader":
            for name in ("num_workers", "pin_memory"):
                if all(word.arg != name for word in node.keywords):
                    yield linted(source, node, Repair((SetArguments(node, {name: "1"}),), safe))


def linted(source: Source, node: ast.expr | ast.stmt, repair: Repair) -> Linted:
    location = Location(source.name, node.lineno, node.col_offset + 1)
    finding = Finding("sync.x", "low", 0.5, "It waits.", None, locations=(location,))
    return Linted(finding, "sync.x", Hit(node, "It waits.", "low", 0.5, repair=repair), source)


def mended(data: bytes, name: str = "train.py", unsafe: bool = False, safe: bool = True) -> Fixed:
    source = parsed(data, Path(name), name)
    assert isinstance(source, Source), source
    return fixed(source, data, list(found(source, safe)), lambda new: found(new, safe), unsafe=unsafe)


def notebook(*cells: object, indent: int | None = 1, ascii_only: bool = False) -> str:
    """Return the file of a notebook whose code cells hold these; a list is lines, as Jupyter writes it."""
    content = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Ünder\n", "sync()"]},
            *(
                {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [{"x": 1.50}], "source": cell}
                for cell in cells
            ),
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=indent, ensure_ascii=ascii_only)


def test_a_file_is_mended_until_nothing_is_left() -> None:
    result = mended(b"a()\nsync()\nx = DataLoader(ds)\n")
    assert result.data == b"a()\nx = DataLoader(ds, num_workers=1, pin_memory=1)\n"
    assert len(result.applied) == 3
    assert result.skipped == ()
    assert result.source.text.encode() == result.data
    assert mended(result.data).data == result.data
    assert not mended(result.data).changed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfa()\r\nsync()\r\nb()", b"\xef\xbb\xbfa()\r\nb()"),
        ("# coding: latin-1\nx = 'é'\nsync()\n".encode("latin-1"), "# coding: latin-1\nx = 'é'\n".encode("latin-1")),
        (b"a()\r\nsync()\nb()\r", b"a()\r\nb()\r"),
        (b"if x:\n\tsync()\n\tb()\n\x0c\n", b"if x:\n\tb()\n\x0c\n"),
    ],
)
def test_the_rest_of_a_file_stays_to_the_byte(before: bytes, after: bytes) -> None:
    assert mended(before).data == after


def test_unsafe_repairs_are_made_when_asked_for() -> None:
    text = b"a()\nsync()\n"
    assert not mended(text, safe=False).changed
    assert mended(text, safe=False, unsafe=True).data == b"a()\n"


def test_what_cannot_be_done_is_told() -> None:
    result = mended(b"a(); sync()\nsync()\n")
    assert result.data == b"a(); sync()\n"
    ((one, reason),) = result.skipped
    assert one.finding.locations[0].line == 1
    assert reason == "it shares its line with another statement"


def test_a_fix_that_never_ends_is_ended() -> None:
    def again(source: Source) -> Iterator[Linted]:
        yield linted(source, source.tree.body[0], Repair((Insert(source.tree.body[0], "again()"),), safe=True))

    source = parsed(b"a()\n", Path("train.py"), "train.py")
    assert isinstance(source, Source)
    result = fixed(source, b"a()\n", list(again(source)), again)
    assert result.data == b"again()\n" * ROUNDS + b"a()\n"


def test_a_file_that_has_changed_meanwhile_is_left_alone() -> None:
    source = parsed(b"sync()\n", Path("train.py"), "train.py")
    assert isinstance(source, Source)
    result = fixed(source, b"other()\nsync()\n", list(found(source)), found)
    assert not result.changed
    assert "changed meanwhile" in result.skipped[0][1]


@pytest.mark.parametrize("indent", [1, 2, None])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_notebook_is_mended_in_its_cells(indent: int | None, ascii_only: bool, end: str) -> None:
    cells = (["a()\n", "%matplotlib inline\n", "sync()"], "sync()\nb('é')", ["x = DataLoader(ds)  # ß\n", "c()"])
    after = (["a()\n", "%matplotlib inline"], "b('é')", ["x = DataLoader(ds, num_workers=1)  # ß\n", "c()"])
    before = notebook(*cells, indent=indent, ascii_only=ascii_only) + end
    result = mended(before.encode(), "train.ipynb")
    done = notebook(*after, indent=indent, ascii_only=ascii_only) + end
    assert result.data.decode() == done.replace("num_workers=1)", "num_workers=1, pin_memory=1)")


def test_a_notebook_keeps_its_line_ends() -> None:
    before = notebook(["a()\n", "sync()\n", "b()"]).replace("\n", "\r\n").encode()
    assert mended(before, "train.ipynb").data == notebook(["a()\n", "b()"]).replace("\n", "\r\n").encode()


def test_a_notebook_that_would_be_laid_out_anew_is_left_alone() -> None:
    before = notebook(["sync()\n", "a()"]).replace('"nbformat": 4', '"nbformat":   4').encode()
    result = mended(before, "train.ipynb")
    assert not result.changed
    assert "JSON" in result.skipped[0][1]


def test_nothing_is_put_into_a_line_that_only_a_notebook_understands() -> None:
    text = notebook(["!pip install x\n", "a()"]).encode()
    source = parsed(text, Path("train.ipynb"), "train.ipynb")
    assert isinstance(source, Source)
    hidden = source.tree.body[0]
    result = fixed(source, text, [linted(source, hidden, Repair((Remove(hidden),), safe=True))], lambda new: ())
    assert not result.changed
    assert "notebook" in result.skipped[0][1]


def test_a_statement_behind_the_last_of_a_cell_belongs_to_that_cell() -> None:
    text = notebook(["a()"], ["b()"]).encode()
    source = parsed(text, Path("train.ipynb"), "train.ipynb")
    assert isinstance(source, Source)
    a, b = source.tree.body
    repair = Repair((Insert(a, "after_a()", after=True), Insert(b, "before_b()")), safe=True)
    result = fixed(source, text, [linted(source, a, repair)], lambda new: ())
    assert result.data.decode() == notebook(["a()\n", "after_a()"], ["before_b()\n", "b()"])


def test_a_diff_is_what_patch_takes() -> None:
    assert diff("a\nb\n", "a\nc", "train.py") == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    )
    assert diff("a\n", "a\n", "train.py") == ""
    assert mended(b"a()\r\nsync()\r\n").diff.endswith("@@ -1,2 +1 @@\n a()\r\n-sync()\r\n")


def test_a_file_is_written_at_once_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"a\n")
    path.chmod(0o754)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    write(link, b"b\r\n")
    assert path.read_bytes() == b"b\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.py", "train.py"]


def test_where_nothing_may_be_written_a_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"a\n")

    def replace(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(WhyIdleError, match=r"cannot write .*: Permission denied"):
        write(path, b"b\n")
    monkeypatch.undo()
    monkeypatch.setattr("os.access", lambda path, mode: False)  # a file that may not be changed, in a folder that may
    with pytest.raises(WhyIdleError, match=r"cannot write .*: Permission denied"):
        write(path, b"b\n")
    assert list(tmp_path.iterdir()) == [path]


def test_a_replacement_in_a_call_that_gets_arguments_waits_for_nothing() -> None:
    text = b"x = DataLoader(f(a), pin_memory=1)\n"
    source = parsed(text, Path("train.py"), "train.py")
    assert isinstance(source, Source)
    inner = call(source.tree, "f")
    ones = [*found(source), linted(source, inner, Repair((Replace(inner, "g(a)"),), safe=True))]
    result = fixed(source, text, ones, lambda new: ())
    assert result.data == b"x = DataLoader(g(a), pin_memory=1, num_workers=1)\n"
