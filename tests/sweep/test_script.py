"""Which script a command runs, and which options that knows, by its text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.sweep.parameters import parse
from whyidle.sweep.script import MOST_FILES, find


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path, "train.py", "import argparse\nfrom pkg.options import (add,\n  more)\n")
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/__main__.py", "from . import options, data\n")
    write(
        tmp_path,
        "pkg/options.py",
        "p.add_argument('-j', '--num_workers', type=int)\nraise SystemExit\n",
    )
    write(tmp_path, "pkg/data.py", "# try --batch-size\np.add_argument('--batch-size')\n")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("command", "at", "name"),
    [
        ("python train.py --config x.py", 1, "train.py"),
        ("python -u -X dev train.py", 4, "train.py"),
        ("python -m pkg", 2, "pkg"),
        ("python3.11 -m torch.distributed.run --nproc-per-node 2 train.py", 5, "train.py"),
        ("torchrun --nproc-per-node=2 -m pkg --x train.py", 3, "pkg"),
        ("accelerate launch --num_processes 2 train.py", 4, "train.py"),
        ("numactl -m 0 python train.py", 4, "train.py"),
        ("taskset -c 0-3 python train.py", 4, "train.py"),
        ("env OMP_NUM_THREADS=1 ./train.py", 2, "train.py"),
        ("bash train.sh -c x", 1, "train.sh"),
        ("train --epochs 1", 0, "train"),
        ("python train.py", 1, "train.py"),
    ],
)
def test_the_script_of_a_command(command: str, at: int, name: str, here: Path) -> None:
    script = find(command.split(), here)
    assert (script.at, script.name, script.takes_options) == (at, name, True)
    assert (script.option("num_workers") == "--num_workers") == (script.texts is not None)


def test_a_command_line_in_quotes_takes_no_options(here: Path) -> None:
    assert not find(["bash", "-lc", "python train.py"], here).takes_options
    code = find(["python", "-c", "p.add_argument('--lr')"], here)
    assert (code.at, code.option("lr")) == (2, "--lr")


@pytest.mark.parametrize(
    ("name", "option"), [("num_workers", "--num_workers"), ("j", "-j"), ("batch_size", None), ("workers", None)]
)
def test_options_are_spelled_as_the_script_does(name: str, option: str | None, here: Path) -> None:
    assert find(["python", "train.py"], here).option(name) == option


def test_modules_beside_a_module_are_read(here: Path) -> None:
    script = find(["python", "-m", "pkg"], here)
    assert script.option("batch_size") == "--batch-size"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("import typer\ndef main(num_workers: int = 4): ...\n", "--num-workers"),
        ("from transformers import HfArgumentParser\nclass A:\n    num_workers: int = 4\n", "--num_workers"),
        ("import fire\ndef main(epochs=1, num_workers=4): ...\n", "--num_workers"),
        ("from absl import flags\nflags.DEFINE_integer('num_workers', 4, '')\n", "--num_workers"),
        ("@click.option('--num-workers/--none')\n", "--num-workers"),
        ("class A:\n    num_workers: int = 4\n", None),
        ("DataLoader(data, num_workers=4)\n", None),
        ("print('python train.py --num-workers 4')\n", None),
        ("import typer\nDataLoader(data, num_workers=4)\n", None),
        ("p.add_argument('--num-workers-max')\n", None),
    ],
)
def test_libraries_that_make_options(text: str, option: str | None, tmp_path: Path) -> None:
    write(tmp_path, "t.py", text)
    assert find(["python", "t.py"], tmp_path).option("num_workers") == option


@pytest.mark.parametrize(
    ("text", "opposite"),
    [
        ("p.add_argument('--amp', default=True, action=argparse.BooleanOptionalAction)", "--no-amp"),
        ("@click.option('--amp/--without-amp')", "--without-amp"),
        ("p.add_argument('--amp', action='store_true')", None),
    ],
)
def test_flags_and_their_opposites(text: str, opposite: str | None, tmp_path: Path) -> None:
    write(tmp_path, "t.py", text)
    script = find(["python", "t.py"], tmp_path)
    assert (script.option("amp"), script.is_flag("amp"), script.opposite("amp")) == ("--amp", True, opposite)


def test_hydra_takes_what_its_configuration_has(tmp_path: Path) -> None:
    write(tmp_path, "t.py", "@hydra.main()\ndef main(cfg):\n    DataLoader(data, num_workers=cfg.workers)\n")
    script = find(["python", "t.py"], tmp_path)
    assert [script.overrides(name) for name in ("workers", "data.workers", "num_workers")] == [True, True, False]


def test_reading_ends(tmp_path: Path) -> None:
    for number in range(3 * MOST_FILES):
        write(tmp_path, f"m{number}.py", f"import m{number + 1}, m{number // 2}\nimport os, ..x\nfrom . import *\n")
    texts = find(["python", "m0.py"], tmp_path).texts
    assert texts is not None
    assert len(texts) == MOST_FILES
    (tmp_path / "odd.py").write_bytes(b"\xff\x00import \x00\n\n" + b"\n" * 100_000 + b"from " * 1000)
    assert find(["python", "odd.py"], tmp_path).option("num_workers") is None
    assert find(["python", "absent.py"], tmp_path).texts is None
    assert find(["python", "-m", "a\0b"], tmp_path).texts is None


@pytest.mark.parametrize(
    ("text", "command", "present"),
    [
        ('parser.add_argument("--num-workers", type=int, default=3)', "python3 train.py", "3"),
        ('parser.add_argument("--num-workers", type=int, default=3)', "python3 train.py --num-workers 5", "5"),
        ('parser.add_argument("--num-workers", type=int)', "python3 train.py --num-workers=5", "5"),
        ('parser.add_argument("--num-workers", type=int, default=os.cpu_count())', "python3 train.py", None),
        ("DataLoader(data)", "python3 train.py", "0"),
        ("DataLoader(data, num_workers=2)", "python3 train.py", "2"),
        ("DataLoader(data, num_workers=2); DataLoader(test, num_workers=0)", "python3 train.py", None),
        ("DataLoader(data, num_workers=workers)", "python3 train.py", None),
        ("TrainingArguments(dataloader_num_workers=4)", "python3 train.py", "4"),
    ],
)
def test_what_a_job_has_without_being_asked(text: str, command: str, present: str | None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{text}\n", "utf-8")
    (parameter,) = parse(["num_workers"], command.split(), tmp_path)
    assert parameter.present == present
