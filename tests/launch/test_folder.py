"""Where a recording lies, and what is refused before the job starts."""

from __future__ import annotations

import errno
import tempfile
from datetime import datetime
from pathlib import Path

import pytest

from whyidle.errors import WhyIdleError
from whyidle.launch import folder

NOW = datetime(2026, 11, 29, 13, 5, 9)  # noqa: DTZ001 - local, as a person reads it


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder.socket, "gethostname", lambda: "gpu7.cluster.example")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def test_a_new_folder_for_each_job(here: Path) -> None:
    made = [folder.make(None, name, {}, NOW) for name in ("train", "train", "my job/ü")]
    runs = [one.run.relative_to(here).as_posix() for one in made]
    assert runs == [
        "whyidle-runs/train-20261129-130509",
        "whyidle-runs/train-20261129-130509-2",
        "whyidle-runs/my-job-20261129-130509",
    ]
    assert [one.node.name for one in made] == ["node-gpu7"] * 3
    assert all(one.node.is_dir() and one.capture == one.node and not one.said for one in made)
    assert not any(list(one.node.iterdir()) for one in made)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"SLURM_NODEID": "3"}, "node-gpu7-3"),
        ({"SLURM_NODEID": "3", "GROUP_RANK": "1"}, "node-gpu7-1"),
        ({"NODE_RANK": "x"}, "node-gpu7"),
        ({"SLURM_NODEID": "0", "SLURM_LOCALID": "0"}, "node-gpu7-0"),
        ({"SLURM_NODEID": "0", "SLURM_LOCALID": "5"}, "node-gpu7-0-task5"),
    ],
)
def test_launchers_number_the_machines(variables: dict[str, str], name: str) -> None:
    assert folder.make(Path("out"), "train", variables, NOW).node.name == name


def test_two_machines_share_a_folder_and_one_does_not_record_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    first = folder.make(Path("out"), "train", {}, NOW)
    with pytest.raises(WhyIdleError, match="out holds a recording of this machine already"):
        folder.make(Path("out"), "train", {}, NOW)
    monkeypatch.setattr(folder.socket, "gethostname", lambda: "gpu8")
    second = folder.make(Path("out"), "train", {}, NOW)
    assert first.run == second.run
    assert first.node != second.node


def test_a_file_is_no_folder(here: Path) -> None:
    (here / "out").write_text("mine", "utf-8")
    for output in ("out", "out/below"):
        with pytest.raises(WhyIdleError):
            folder.make(Path(output), "train", {}, NOW)
    assert (here / "out").read_text("utf-8") == "mine"


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, *below: Path) -> None:
    """Let no file be written below some folders."""
    write = Path.write_bytes

    def refusing(path: Path, data: bytes) -> int:
        if any(path.is_relative_to(where) for where in below):
            raise OSError(number, "so it is")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", refusing)


def test_where_nothing_can_be_written_the_temporary_folder_can(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EACCES, here / "whyidle-runs")
    made = folder.make(None, "train", {}, NOW)
    assert made.run.is_relative_to(here / "temporary")
    assert "so it is" in made.said
    assert not (here / "whyidle-runs").exists()


def test_a_full_disk_is_no_reason_not_to_start(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.ENOSPC, here / "out")
    made = folder.make(Path("out"), "train", {}, NOW)
    assert made.run.is_relative_to(here / "temporary")
    assert "so it is" in made.said


def test_a_folder_that_was_named_and_cannot_be_written_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EACCES, here / "out")
    with pytest.raises(WhyIdleError, match="cannot write to out: so it is"):
        folder.make(Path("out"), "train", {}, NOW)


def test_no_place_at_all(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EROFS, here)
    with pytest.raises(OSError, match="so it is"):
        folder.make(None, "train", {}, NOW)
    assert sorted(path.name for path in here.rglob("*")) == ["temporary"]


def test_what_did_not_begin_leaves_nothing(here: Path) -> None:
    folder.remove(folder.make(None, "train", {}, NOW))
    assert not (here / "whyidle-runs").exists()
    (here / "out").mkdir()
    (here / "out" / "mine").write_text("", "utf-8")
    folder.remove(folder.make(Path("out"), "train", {}, NOW))
    assert [path.name for path in (here / "out").iterdir()] == ["mine"]


MOUNTS = """\
22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:30 / /data rw - nfs4 server:/data rw
31 30 0:31 / /data/fast rw - xfs /dev/nvme0n1 rw
32 22 0:32 / /mnt/with\\040space rw - fuse.sshfs host: rw
33 22 0:33 / /lus rw - lustre mgs:/lus rw
34 22 0:34 / /twice rw - ext4 /dev/vdb rw
35 22 0:35 / /twice rw - nfs server:/x rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/home/me", "ext4", False),
        ("/data/set", "nfs4", True),
        ("/database", "ext4", False),
        ("/data/fast/run", "xfs", False),
        ("/mnt/with space/run", "fuse.sshfs", True),
        ("/lus", "lustre", True),
        ("/twice/x", "nfs", True),
    ],
)
def test_file_systems(path: str, kind: str, network: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder.procfs, "read", lambda _: MOUNTS.encode())
    assert folder.file_system(Path(path)) == kind
    assert folder.on_network(Path(path)) is network


def test_rings_stay_on_this_machine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "on_network", lambda path: not path.is_relative_to(here / "temporary"))
    made = folder.make(Path("out"), "train", {}, NOW)
    assert made.rings is not None
    assert made.rings.is_relative_to(here / "temporary")
    assert made.capture == made.rings
    folder.remove(made)
    assert not made.rings.exists()


def test_without_a_local_folder_rings_lie_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "on_network", lambda path: True)
    made = folder.make(Path("out"), "train", {}, NOW)
    assert made.capture == made.node


def test_temporary_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second to a machine has one too, and nobody else can have put a link or an open folder in its place."""
    monkeypatch.setattr(folder.tempfile, "tempdir", str(tmp_path))
    (tmp_path / folder.HOME).mkdir(mode=0o500)  # another user's
    home = folder._temporary()
    assert home.stat().st_mode & 0o777 == 0o700
    assert folder._temporary() == home
    home.rmdir()
    home.symlink_to(tmp_path)
    aside = folder._temporary()
    assert aside not in (home, tmp_path)
    home.unlink()
    home.mkdir()
    home.chmod(0o777)
    assert folder._temporary() not in (home, aside)
