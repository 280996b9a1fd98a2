"""What a pyproject.toml says to whyidle beside lint's settings, which have tests of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.errors import WhyIdleError
from whyidle.project import project_of


def project(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, "utf-8")


def test_the_nearest_that_says_anything_counts(tmp_path: Path) -> None:
    project(tmp_path, "[tool.whyidle]\nusd-per-gpu-hour = 2.60\n")
    project(tmp_path / "a", "[project]\nname = 'whyidle'\n")
    found = project_of(tmp_path / "a" / "b")
    assert found is not None
    assert (found.file, found.usd_per_gpu_hour) == (tmp_path / "pyproject.toml", 2.60)


def test_a_project_need_not_say_a_price(tmp_path: Path) -> None:
    project(tmp_path, "[tool.whyidle]\nselect = ['sync']\n")
    found = project_of(tmp_path)
    assert found is not None
    assert found.usd_per_gpu_hour is None
    assert found.table("check", ("max-idle",)) == {}


@pytest.mark.parametrize("value", ["'2.60'", "-1", "nan", "inf", "true", "[2.6]"])
def test_what_is_no_price(tmp_path: Path, value: str) -> None:
    project(tmp_path, f"[tool.whyidle]\nusd-per-gpu-hour = {value}\n")
    found = project_of(tmp_path)
    assert found is not None
    with pytest.raises(WhyIdleError, match="usd-per-gpu-hour is US dollars, 0 or more") as caught:
        _ = found.usd_per_gpu_hour
    assert caught.value.hint == "usd-per-gpu-hour = 2.60"


@pytest.mark.parametrize("text", ["[tool.whyidle", "[tool]\nwhyidle = 3\n", "[tool.whyidle]\nx = " + "[" * 100_000])
def test_files_that_are_broken(tmp_path: Path, text: str) -> None:
    project(tmp_path, text)
    with pytest.raises(WhyIdleError):
        project_of(tmp_path)


def test_a_table_has_only_what_is_known(tmp_path: Path) -> None:
    project(tmp_path, "[tool.whyidle.check]\nmax-idel = '20%'\n")
    found = project_of(tmp_path)
    assert found is not None
    with pytest.raises(WhyIdleError, match="no setting 'max-idel'") as caught:
        found.table("check", ("max-idle", "baseline"))
    assert caught.value.hint == "did you mean max-idle?"
    project(tmp_path, "[tool.whyidle]\ncheck = 1\n")
    found = project_of(tmp_path)
    assert found is not None
    with pytest.raises(WhyIdleError, match="is no table"):
        found.table("check", ())
