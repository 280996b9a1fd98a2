"""Which file a command starts, and what a shell would say where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.launch.program import NotStartedError, Program, find


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("pass", "utf-8")
    (tmp_path / "run.sh").write_text("exit 5", "utf-8")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("./no-such-file", 127, "./no-such-file: no such file"),
        ("./train.py", 126, "./train.py: it is not executable"),
        ("./folder", 126, "./folder is a folder"),
        ("", 127, "'': command not found"),
    ],
)
def test_what_cannot_be_started_is_refused_as_by_a_shell(here: Path, typed: str, code: int, message: str) -> None:
    with pytest.raises(NotStartedError) as refused:
        find([typed])
    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.parametrize("typed", ["train.py", "./train.py"])
def test_a_forgotten_python_is_a_hint(here: Path, typed: str) -> None:
    with pytest.raises(NotStartedError) as refused:
        find([typed, "--epochs", "1"])
    assert refused.value.hint.startswith("whyidle run -- python")
    assert refused.value.hint.endswith(f"{typed} --epochs 1")


@pytest.mark.parametrize("typed", ["nope.py", "./nope.py"])
def test_a_script_that_is_not_here_would_need_python_as_well(here: Path, typed: str) -> None:
    with pytest.raises(NotStartedError) as refused:
        find([typed, "--epochs", "1"])
    assert refused.value.code == 127
    assert refused.value.hint.startswith("a script needs python")
    assert f"{typed} is not here: whyidle run -- python" in refused.value.hint
    assert refused.value.hint.endswith(f"{typed} --epochs 1")


def test_a_file_on_the_path_that_is_not_executable(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    with pytest.raises(NotStartedError) as refused:
        find(["train.py"])
    assert refused.value.code == 126


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train"),
        ("python -u -m package.train", "train"),
        ("python -m package.__main__", "package"),
        ("python -m torch.distributed.run --nproc-per-node 2 src/fit.py", "fit"),
        ("torchrun --nproc-per-node 2 fit.py", "fit"),
        ("torchrun --nproc-per-node 2 -m package.fit", "fit"),
        ("bash jobs/train.sh", "train"),
        ("/usr/bin/env", "env"),
    ],
)
def test_the_name_is_what_people_call_the_job(command: str, name: str) -> None:
    assert Program("/bin/x", tuple(command.split())).name == name
