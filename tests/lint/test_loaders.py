"""What the source says of DataLoaders: their settings, and the code that makes their batches."""

from __future__ import annotations

import pytest

from tests.lint.pointed import source
from whyidle.lint.engine import follow
from whyidle.lint.job import Job
from whyidle.lint.project import Project
from whyidle.lint.rules.input.loaders import Setting, setting
from whyidle.lint.rules.input.worker_code import worker_code

HEAD = """import argparse, torch
from functools import partial
from torch.utils.data import DataLoader, Dataset
"""
OPTION = """p = argparse.ArgumentParser()
p.add_argument("-j", "--workers", type=int,
    default=9)
args = p.parse_args()
loader = DataLoader(data, num_workers=int(args.workers))
"""


def job(code: str) -> Job:
    return follow(source(HEAD + code), Project(), lambda event, job: None)


@pytest.mark.parametrize(
    ("code", "value", "how", "line"),
    [
        ("loader = DataLoader(data, 8)", 0, "missing", 4),
        ("loader = DataLoader(data, 8, num_workers=3)", 3, "given", 4),
        ("loader = DataLoader(data, 8, True, None, None, 5)", 5, "given", 4),
        ("many = 6\nloader = DataLoader(data, num_workers=many)", 6, "given", 4),
        ("o = dict(num_workers=2)\nloader = DataLoader(data, **o)", 2, "given", 4),
        ("o = {}\no['num_workers'] = 2\nloader = DataLoader(data, **o)", 2, "given", 5),
        ("def f(n=7):\n    return DataLoader(data, num_workers=n)\nf()", 7, "given", 4),
        (
            OPTION,
            9,
            "default",
            6,
        ),
    ],
)
def test_a_setting_of_a_loader_is_found_where_it_is_written(code: str, value: int, how: str, line: int) -> None:
    seen = job(code)
    found = setting(seen.loaders[0], seen, "num_workers", 0)
    assert isinstance(found, Setting)
    assert (found.number, found.how, getattr(found.node, "lineno", 0)) == (value, how, line)


@pytest.mark.parametrize(
    "code",
    [
        "loader = DataLoader(data, **options)",
        "loader = DataLoader(*arguments)",
        "loader = DataLoader(data, num_workers=machine.cores)",
    ],
)
def test_a_setting_that_the_source_does_not_tell_is_unknown(code: str) -> None:
    seen = job(code)
    assert setting(seen.loaders[0], seen, "num_workers", 0) is None


@pytest.mark.parametrize(
    "code",
    [
        "def made(rows):\n    pass\nloader = DataLoader(data, collate_fn=made)",
        "def made(pad, rows):\n    pass\nloader = DataLoader(data, collate_fn=partial(made, 0))",
        "def made(rows):\n    pass\nchosen = partial(made)\nloader = DataLoader(data, collate_fn=chosen)",
        "class C:\n    def __call__(self, rows):\n        pass\nloader = DataLoader(data, collate_fn=C())",
        "class D(Dataset):\n    def __getitem__(self, i):\n        pass\nloader = DataLoader(D(), 8)",
    ],
)
def test_the_code_that_makes_a_batch_is_found(code: str) -> None:
    seen = job(code)
    assert [getattr(body, "name", "") for body, _ in worker_code(seen.loaders[0], seen)] in (
        ["made"],
        ["__call__"],
        ["__getitem__"],
    )


def test_a_collate_function_that_is_made_of_itself_ends() -> None:
    seen = job("collate = partial(collate, 0)\nloader = DataLoader(data, collate_fn=collate)")
    assert list(worker_code(seen.loaders[0], seen)) == []
