"""Code that starts the recording itself: each framework's steps are counted, and the verdict comes at the end."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import whyidle
from whyidle.errors import WhyIdleError
from whyidle.launch import inside
from whyidle.model.evidence import Record

pytest.importorskip("torch", reason="torch is not installed")
JOBS = Path(__file__).with_name("inside_jobs.py")
STEPS = {"plain": 12, "accelerate": 6, "lightning": 12, "transformers": 12}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run all jobs in one process, which imports torch once; return their folder and what was said."""
    if sys.platform != "linux":
        pytest.skip("jobs are watched on Linux only")
    folder = tmp_path_factory.mktemp("inside")
    names = [name for name in STEPS if name == "plain" or importlib.util.find_spec(name)]
    ran = subprocess.run(
        [sys.executable, JOBS, folder, *names], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return folder, ran.stderr


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_every_framework_are_counted(watched: tuple[Path, str], name: str) -> None:
    if name != "plain":
        pytest.importorskip(name, reason=f"{name} is not installed")
    run = whyidle.load(watched[0] / name)
    (log,) = run.logs
    assert int((log.kind == Record.STEP).sum()) == STEPS[name]
    assert run.nodes[0].ended is not None
    assert not list((watched[0] / name).rglob("*.ring"))


def test_the_verdict_comes_at_the_end(watched: tuple[Path, str]) -> None:
    folder, said = watched
    assert said.lower().count("no gpu was used") == said.count("evidence: ") == len(list(folder.glob("*/node-*")))


def test_a_folder_is_not_used_twice(tmp_path: Path) -> None:
    node = tmp_path / "run"
    folders = inside.folder.join(node, {})
    (folders.node / "node.json").write_text("{}")
    with pytest.raises(WhyIdleError, match="holds a recording"):
        inside.start_watching(node)


def test_under_whyidle_run_nothing_is_recorded_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WHYIDLE_CAPTURE", str(tmp_path))
    with whyidle.watch_training(tmp_path / "other") as watching:
        assert watching is None
    assert not (tmp_path / "other").exists()


def test_a_launcher_that_restarts_its_ranks_gets_a_new_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ranks that fail in `watch_training` after a restart would end the training that the restart was to save."""
    monkeypatch.chdir(tmp_path)
    first = inside._shared(None, "0")
    (first.node / "node.json").write_text("{}")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    second = inside._shared(None, "0")
    assert second.run.name == f"{first.run.name}-restart-1"
    assert inside._shared("run", "0").run == tmp_path / "run-restart-1"


def test_another_launcher_with_the_same_process_id_gets_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the launcher has the same id in every job."""
    stat = Path("/proc/self/stat").read_bytes()
    later = stat.replace(b" " + stat.rpartition(b")")[2].split()[19] + b" ", b" 987654321 ")
    names = []
    for content in (stat, later):
        monkeypatch.setattr(inside.procfs, "read", lambda path, content=content: content)
        names.append(inside._launcher())
    assert len(set(names)) == 2


def test_a_mistake_of_ours_at_the_end_does_not_end_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(_: object) -> str:
        raise RuntimeError("not now")

    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setattr(inside.Watching, "_told", fail)
    monkeypatch.setattr(inside.Watching, "__init__", lambda self: setattr(self, "_boot", None))
    inside.Watching().end(verdict=True)  # type: ignore[call-arg]
    assert "by a mistake of ours: RuntimeError: not now" in capsys.readouterr().err
