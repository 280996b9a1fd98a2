"""What a project chooses, what the command line chooses, and mistakes in both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.checks import CHECKS
from whyidle.errors import WhyIdleError
from whyidle.lint import settings as module
from whyidle.lint.settings import Settings, codes_in, settings_for

READ, PRINTED, LOADER = ((check.name, check.rule) for check in CHECKS)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "all_checks", lambda: CHECKS)
    return tmp_path


def project(text: str, folder: str = ".") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "pyproject.toml").write_text(f"[tool.whyidle]\n{text}", "utf-8")


def asked(settings: Settings) -> list[str]:
    return [name for name, rule in (READ, PRINTED, LOADER) if settings.asks((name, rule))]


ALL = ["sync.made_up_read", "sync.made_up_print", "input.made_up_loader"]


@pytest.mark.parametrize(
    ("select", "ignore", "names"),
    [
        ("", "", ALL),
        ("sync", "", ALL[:2]),
        ("sync.scalar_read", "", ALL[:2]),  # a rule stands for all of its checks
        ("sync.made_up_print", "", ALL[1:2]),
        ("sync,input", "", ALL),
        ("", "sync", ALL[2:]),
        ("", "sync.made_up_read", ALL[1:]),
        ("sync", "sync", []),
        ("sync.made_up_read", "sync", ALL[:1]),  # what is closest decides
        ("all", "input.workers_zero", ALL[:2]),
        ("sync", "all", ALL[:2]),
        ("", "all", []),
    ],
)
def test_the_code_that_means_a_check_most_closely_decides(select: str, ignore: str, names: list[str]) -> None:
    assert asked(settings_for(Path(), codes_in(select), codes_in(ignore))) == names


def test_codes_come_with_commas_or_in_a_list() -> None:
    assert (
        codes_in("sync, input,,sync") == codes_in(["sync", "input"]) == codes_in(["sync,input "]) == ("sync", "input")
    )


def test_the_nearest_project_that_says_anything_counts(here: Path) -> None:
    project('select = ["sync"]\nexclude = ["old"]')
    project('ignore = ["sync"]', "a")
    Path("a/b/c").mkdir(parents=True)
    Path("a/b/pyproject.toml").write_text("[project]\nname = 'whyidle'\n", "utf-8")
    assert asked(settings_for(Path("a/b/c"))) == asked(settings_for(Path("a/b/c/x.py"))) == ALL[2:]
    assert settings_for(Path("x.py")) == Settings(("sync",), exclude=("old",), base=here)
    assert settings_for(here.parent).base is None


def test_the_command_line_selects_anew_and_ignores_besides() -> None:
    project('select = ["sync"]\nignore = ["sync.made_up_read"]')
    assert asked(settings_for(Path())) == ALL[1:2]
    assert asked(settings_for(Path(), select=["sync"])) == ALL[:2]
    assert asked(settings_for(Path(), ignore=["sync.made_up_print"])) == []


def test_some_files_ignore_more(here: Path) -> None:
    project('exclude = ["old"]\n[tool.whyidle.per-file-ignores]\n"tests/**" = ["sync"]\n"bench.py" = ["all"]')
    settings = settings_for(Path("tests"))
    assert settings.silences(READ, here / "tests" / "a" / "x.py")
    assert not settings.silences(LOADER, here / "tests" / "a" / "x.py")
    assert settings.silences(LOADER, here / "src" / "bench.py")
    assert not settings.silences(READ, here / "src" / "x.py")
    assert settings.silences(READ, here / "old" / "x.py")
    assert not settings.silences(READ, here / "old" / "x.py", named=True)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("selct = []", "no setting 'selct'", "did you mean select?"),
        ("colour = 1", "no setting 'colour'", "there are: select, ignore, exclude, per-file-ignores"),
        ("per_file_ignores = {}", "no setting", "did you mean per-file-ignores?"),
        ('select = "sync"', "select has to be a list", '["sync.scalar_read"'),
        ("ignore = [1]", "ignore has to be a list", ""),
        ("exclude = {}", "exclude has to be a list", ""),
        ('select = ["sync.scalar_reads"]', "select: no check is called 'sync.scalar_reads'", "sync.scalar_read?"),
        ('ignore = ["scalar_read"]', "ignore: no check is called 'scalar_read'", "did you mean sync.scalar_read?"),
        ('ignore = ["snc"]', "no check is called 'snc'", "did you mean sync?"),
        ('ignore = ["zebra"]', "no check is called 'zebra'", "a family of rules: all, input, sync"),
        ('per-file-ignores = ["x"]', "per-file-ignores is no table", '"tests/**"'),
        ('per-file-ignores = {"x" = "sync"}', "per-file-ignores has to be a list", ""),
        ('per-file-ignores = {"x" = ["snc"]}', "no check is called 'snc'", "sync"),
        ("select = [", "pyproject.toml cannot be read", ""),
    ],
)
def test_mistakes_of_a_project(text: str, message: str, hint: str) -> None:
    project(text)
    with pytest.raises(WhyIdleError) as caught:
        settings_for(Path())
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_section_that_is_no_table() -> None:
    Path("pyproject.toml").write_text("[tool]\nwhyidle = 1\n", "utf-8")
    with pytest.raises(WhyIdleError, match="is no table"):
        settings_for(Path())


@pytest.mark.parametrize("text", [b"whyidle = 1\n", b"tool = 'whyidle'\n", b"[tool.black]\nx = 'whyidle'\n", b"\xff"])
def test_a_file_without_a_section_of_ours(text: bytes) -> None:
    Path("pyproject.toml").write_bytes(text)
    assert settings_for(Path()) == Settings()


def test_mistakes_of_the_command_line() -> None:
    with pytest.raises(WhyIdleError, match="--select: no check is called 'sinc'"):
        settings_for(Path(), select=["sinc"])
    with pytest.raises(WhyIdleError, match="--ignore: no check is called ''"):
        settings_for(Path(), ignore=[""])
