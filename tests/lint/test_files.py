"""Which files are read, and every way in which a file cannot be."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import pytest

from whyidle.errors import WhyIdleError
from whyidle.lint.files import File, files_in, is_matched, root_of
from whyidle.lint.parsing import LARGEST_BYTES, parsed
from whyidle.lint.source import Source, Unread


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(*names: str, text: str = "x = 1\n") -> None:
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def names(*paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [file.name for file in files_in(map(Path, paths), exclude)[0]]


def read(data: bytes | str, name: str = "job.py") -> Source | Unread:
    return parsed(data.encode() if isinstance(data, str) else data, Path(name), name)


def source(data: bytes | str, name: str = "job.py") -> Source:
    found = read(data, name)
    assert isinstance(found, Source), found
    return found


def unread(data: bytes | str, name: str = "job.py") -> Unread:
    found = read(data, name)
    assert isinstance(found, Unread)
    return found


# Folders


def test_of_a_folder_all_code_below_in_order_of_names() -> None:
    put("b.py", "a.ipynb", "c.txt", "a/z.py", "a/b/x.PY", "B.py")
    assert names(".") == ["B.py", "a.ipynb", "b.py", "a/z.py", "a/b/x.PY"]


def test_what_others_wrote_is_left_out() -> None:
    put("train.py", ".hidden/x.py", "node_modules/x.py", "build/x.py", "dist/x.py", "lib/site-packages/x.py")
    put("env/lib/x.py", "env/pyvenv.cfg", "environment/x.py", "pkg/__pycache__/x.py", ".dot.py")
    assert names(".") == [".dot.py", "train.py", "environment/x.py"]


def test_what_is_named_is_read_whatever_it_is_called_and_once() -> None:
    put("build/x.py", "script", "a/b.py")
    assert names("build/x.py", "script", "a", "a/b.py", "./script") == ["build/x.py", "script", "a/b.py"]
    assert names("build/x.py", exclude=("*.py",)) == ["build/x.py"]


@pytest.mark.parametrize("pattern", ["old", "old/", "o*d", "src/old", "src/**", "**/old", "./src/old/x.py"])
def test_patterns_that_leave_out(pattern: str) -> None:
    put("src/old/x.py", "train.py")
    assert names(".", exclude=(pattern,)) == ["train.py"]


@pytest.mark.parametrize("pattern", ["ol", "old/*", "old.py", "x", "rc/old", "src/x.py", "train"])
def test_patterns_that_mean_something_else(pattern: str) -> None:
    put("src/old/x.py", "train.py")
    assert names(".", exclude=(pattern,)) == ["train.py", "src/old/x.py"]


def test_patterns_are_of_paths_below_where_the_settings_stand(here: Path) -> None:
    assert is_matched(here / "a" / "b.py", ["a/*.py"], here)
    assert not is_matched(here / "a" / "b.py", ["b/*.py"], here)
    assert is_matched(here.parent / "x.py", ["x.py"], here)


def test_links_that_lead_in_a_circle(here: Path) -> None:
    put("a/x.py")
    (here / "a" / "up").symlink_to(here)
    (here / "a" / "self.py").symlink_to(here / "a" / "self.py")
    (here / "a" / "gone.py").symlink_to(here / "nowhere.py")
    (here / "again.py").symlink_to(here / "a" / "x.py")
    assert names(".") == ["again.py"]
    assert names("a/up") == ["a/up/again.py"]


@pytest.mark.parametrize("name", ["nowhere", "nowhere.py", "a\0b", "x" * 5000])
def test_a_path_that_is_not_there(name: str) -> None:
    with pytest.raises(WhyIdleError, match="no such file"):
        names(name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said(here: Path) -> None:
    put("a/x.py", "b.py", "c.py")
    (here / "a").chmod(0)
    (here / "b.py").chmod(0)
    files, locked = files_in([here])
    (here / "a").chmod(0o700)
    assert [one.name for one in locked] == ["a"]
    assert [file.name for file in files if isinstance(file.read(), Unread)] == ["b.py"]


def test_a_folder_in_place_of_a_file_cannot_be_read(here: Path) -> None:
    found = File(here, "here", here).read()
    assert isinstance(found, Unread)
    assert found.why.startswith("cannot be read: ")


# Names


def test_the_root_is_where_the_user_stands(here: Path) -> None:
    put("models/net.py")
    assert root_of(here / "models") == root_of(here / "models" / "net.py") == here


def test_a_project_elsewhere_has_its_own_root(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("project/pkg/__init__.py", "project/pkg/sub/__init__.py", "project/pkg/sub/x.py", "other/y.py")
    monkeypatch.chdir(here / "other")
    assert root_of(here / "project/pkg/sub/x.py") == here / "project"
    put("../project/pkg/sub/pyproject.toml")
    assert root_of(here / "project/pkg/sub/x.py") == here / "project/pkg/sub"
    assert names("../project/pkg/sub/x.py", "y.py") == ["../project/pkg/sub/x.py", "y.py"]


# What is in a file


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "x = 1", "\f\nx = 1\n", "\tpass".strip()])
def test_small_files(text: str) -> None:
    assert source(text).text == text


def test_byte_order_marks_and_encodings() -> None:
    marked = source(b"\xef\xbb\xbfx = '\xc3\xa4'\n")
    assert (marked.text, marked.bom, marked.encoding) == ("x = 'ä'\n", True, "utf-8")
    latin = source(b"# -*- coding: latin-1 -*-\nx = '\xe4'\n")
    assert (latin.line(2), latin.bom, latin.encoding) == ("x = 'ä'", False, "iso-8859-1")
    assert source("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = 1\n").encoding == "cp1252"


@pytest.mark.parametrize(
    ("text", "newline"),
    [("a\nb\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a", "\n"), ("a\r\nb\n", "\n")],
)
def test_line_ends_stay_as_they_are(text: str, newline: str) -> None:
    found = source(text)
    assert (found.text, found.newline, found.line(2)) == (text, newline, "b" if "b" in text else "")


def test_form_feeds_and_separators_end_no_line() -> None:
    found = source("a = 1\f\nb = '\u2028'\n\fc = 3\n")
    assert found.tree.body[-1].lineno == 3
    assert found.line(3) == "c = 3"
    assert (found.line(0), found.line(9)) == ("", "")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"x = '\xe4'\n", "no text"),
        (b"a = 1\nb = 2\nx = '\xe4'\n", "line 3: is not utf-8"),
        (b"# coding: klingon\n", "encoding that there is not"),
        (b"# coding: rot13\nk = 1\n", "encoding that there is not"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding that there is not"),
        ("x = 1\n".encode("utf-16"), "no text"),
        (b"x = 1\n\0\n", "null bytes"),
        (b"x = 1\nif x\n", "line 2: expected ':' (as Python"),
        (b"def f():\n\tif x:\n        pass\n", "line 3: inconsistent use of tabs"),
        (b"print 'hello'\n", "line 1: Missing parentheses"),
        (b"x = " + b"-" * 50_000 + b"1\n", "nests too deeply"),
        (b"x = " + b"(" * 300 + b")" * 300 + b"\n", "too many nested parentheses"),
        (b"x = 1\n" * (LARGEST_BYTES // 6 + 1), "is larger than 5 MB"),
        (b"x = '''\n", "unterminated triple-quoted string"),
        (b"x = 1" + b"0" * 5000 + b"\n", "digits"),
    ],
)
def test_what_is_no_python(data: bytes, says: str) -> None:
    assert says in unread(data).why


def test_warnings_about_the_code_are_its_authors(recwarn: pytest.WarningsRecorder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source("x = '\\d'\nassert (x, 'always')\nx is 1\n")
    assert not recwarn


def test_syntax_of_a_newer_python_is_said_with_ours() -> None:
    found = unread("type X[T: int = 3] = list[T]\nmatch = 5 +\n")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in found.why


# Comments that silence


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# whyidle: ignore", set()),
        ("#whyidle:ignore", set()),
        ("# noqa: E501  # WhyIdle: ignore[sync.scalar_read]", {"sync.scalar_read"}),
        ("# whyidle: ignore[sync, input.workers_zero]  because", {"sync", "input.workers_zero"}),
        ("# whyidle: ignore [sync]", {"sync"}),
        ("# whyidle: ignore[]", set()),
        ("# whyidle: ignore[sync] # whyidle: ignore[input]", {"sync", "input"}),
    ],
)
def test_comments_that_silence(comment: str, codes: set[str]) -> None:
    assert source(f"x = 1\ny = 2  {comment}\n").ignored == {2: codes}


@pytest.mark.parametrize(
    "comment", ["# whyidle: ignored", "# whyidle ignore", "# whyidle: noqa", "'# whyidle: ignore'"]
)
def test_comments_that_do_not(comment: str) -> None:
    assert source(f"x = 1\n(2)  {comment}\n" if comment[0] == "#" else f"x = {comment}\n").ignored == {}


def test_a_comment_for_the_whole_file_stands_alone_in_its_line() -> None:
    assert source("x = 1\n# whyidle: ignore-file\n").ignored == {0: set()}
    assert source("x = 1\n# whyidle: ignore-file[sync]\n# whyidle: ignore-file[input]\n").ignored == {
        0: {"sync", "input"}
    }
    assert source("x = 1  # whyidle: ignore-file\n").ignored == {}


# Notebooks


def notebook(*cells: str | list[str], language: str = "python", kind: str = "code") -> str:
    made = [{"cell_type": kind, "source": cell, "metadata": {}, "outputs": []} for cell in cells]
    about = {"language_info": {"name": language}}
    return json.dumps({"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5})


def test_cells_are_one_program_that_knows_where_each_line_stands() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["import torch\n", "x = 1"]},
        {"cell_type": "code", "source": ""},
        {"cell_type": "raw", "source": "no code"},
        {"cell_type": "code", "source": "y = x\nprint(y)\n"},
    ]
    found = source(json.dumps({"cells": cells, "nbformat": 4}), "a.ipynb")
    assert found.text.split() == ["import", "torch", "x", "=", "1", "y", "=", "x", "print(y)"]
    line = found.tree.body[-1].lineno
    assert found.line(line) == "print(y)"
    assert found.cell(line) == (5, 2)
    assert found.cell(1) == (2, 1)


def test_format_3_has_worksheets() -> None:
    cells = [{"cell_type": "code", "input": ["x = 1\n", "y = 2"], "language": "python"}]
    content = {"worksheets": [{"cells": cells}, {"cells": cells}], "nbformat": 3}
    found = source(json.dumps(content), "a.ipynb")
    assert len(found.tree.body) == 4
    assert found.cell(3) == (2, 1)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("%matplotlib inline\nx = 1", ["x = 1"]),
        ("!pip install \\\n   torch\nx = 1", ["x = 1"]),
        ("if x:\n    !ls\n    y = 1", ["if x:\n    pass\n    y = 1"]),
        ("files = !ls\nx = 1", ["x = 1"]),
        ("%time train()\nx = 1", ["x = 1"]),
        ("train?\n?train\nmodel.fit??\nx = 1", ["x = 1"]),
        ("%%bash\nfor i in *; do echo $i; done", []),
        ("\n%%html\n<b>x</b>", []),
        ("%%time\nx = 1", ["x = 1"]),
        ("x = (7\n% 2)", ["x = (7\n% 2)"]),
        ("%pip list\nx = (7\n% 2)", ["x = (7\n% 2)"]),
        ("!echo don't\nx = 1", ["x = 1"]),
        ('!echo """\nx = 1', ["x = 1"]),
    ],
)
def test_what_only_ipython_understands_keeps_its_lines(code: str, kept: list[str]) -> None:
    import ast

    from whyidle.lint.notebook import restored

    found = source(notebook("a = 0", code, "b = 1"), "a.ipynb")
    assert [restored(line) for line in found.text.split("\n")] == ["a = 0", *code.split("\n"), "b = 1", ""]
    told = [node for node in found.tree.body[1:-1] if not isinstance(node, ast.Pass)]
    assert [ast.dump(node) for node in told] == [ast.dump(node) for text in kept for node in ast.parse(text).body]
    assert found.tree.body[-1].lineno == code.count("\n") + 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a notebook"),
        ("[]", "holds no cells"),
        ('{"cells": 1}', "holds no cells"),
        ('{"worksheets": [{"cells": null}]}', "holds no cells"),
        ('{"x": ' * 100_000, "is not a notebook"),
        (notebook("x <- 1", language="R"), "is a notebook in r, not Python"),
        (notebook("x = 1", "y = 1\nif x"), "cell 2, line 2: expected ':'"),
    ],
)
def test_what_is_no_notebook(text: str, says: str) -> None:
    assert says in unread(text, "a.ipynb").why


@pytest.mark.parametrize(
    "text", [notebook(), '{"cells": [1, {}, {"cell_type": "code"}]}', notebook("# x", kind="markdown")]
)
def test_notebooks_without_code(text: str) -> None:
    assert source(text, "a.ipynb").tree.body == []
