"""What `import whyidle` promises: the names, and that it costs nothing until one is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import whyidle
import whyidle.render.json
from whyidle.model.finding import Report, RunInfo, Summary

REPORT = Report(RunInfo(), Summary("Your GPU was idle 44% of the time."))


def test_all_names_are_there() -> None:
    assert sorted(whyidle.__all__) == whyidle.__all__ == dir(whyidle)
    for name in whyidle.__all__:
        assert getattr(whyidle, name) is not None
    assert whyidle.__version__.count(".") == 2


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'analyse'"):
        whyidle.analyse  # type: ignore[attr-defined]  # noqa: B018


def test_render_can_be_called_whether_its_package_was_imported_or_not() -> None:
    assert "idle 44%" in whyidle.render(REPORT)
    script = "import whyidle; print(whyidle.render); import whyidle.render.json; print(callable(whyidle.render))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[1] == "True"


@pytest.mark.parametrize("script", ["import whyidle", "from whyidle.cli import main; main(['--version'])"])
def test_nothing_heavy_is_imported(script: str) -> None:
    script += "; import sys; assert not {'numpy', 'rich', 'typer', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_diagnose_reads_judges_and_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    from whyidle import diagnosis

    told = []
    monkeypatch.setattr(diagnosis, "load", lambda paths, progress: told.append(paths) or "run")
    monkeypatch.setattr(diagnosis, "judge", lambda run, **options: REPORT)
    assert whyidle.diagnose(["a"]) == REPORT
    assert whyidle.diagnose(["a"], price=1.0).warnings
    assert told == [[Path("a")], [Path("a")]]


def test_one_path_need_not_be_in_a_list() -> None:
    run = Path(__file__).parent / "runs" / "healthy"
    for given in (run, str(run), [run], (str(run),)):
        assert whyidle.diagnose(given).summary.steps == 5
