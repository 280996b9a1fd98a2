"""The report of `whyidle loader`: read the snapshots as the screens that they are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.sweep.loader.trials import failed, loader, point, trial
from whyidle.model.loader_trial import LoaderTrial, Pass, Storage, Tried
from whyidle.render.base import Look
from whyidle.render.loader import loader_json, loader_text
from whyidle.sweep.loader.advice import advise

WORKERS = (0, 1, 2, 4, 8)
READ = Storage(Pass(20, 8.0, 128_000_000, 128_000_000), None, Pass(20, 2.0, 128_000_000, 0), 1280, 1280, 128_000_000)


def tried(measured: LoaderTrial, cpus: float = 16) -> Tried:
    return Tried(("python", "train.py"), "whyidle-runs/loader-train", measured, advise(measured, cpus), cpus, 1 << 37)


TRIALS = {
    "helps": trial([point(workers, cv=0.2) for workers in WORKERS]),
    "storage": trial([point(workers, cv=0.8) for workers in WORKERS], cached=0.011, storage=READ),
    "fails": trial([point(0), failed(1), failed(2)], loaders=(loader(), loader(loader=1, skipped="gradients are off"))),
    "alone": trial([point(workers) for workers in WORKERS], None, None),
    "healthy": trial([point(workers) for workers in WORKERS], now=0.0253, loaders=(loader(8),)),
}


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("width", [80, 110])
def test_screen(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    text = loader_text(tried(TRIALS[name]), Look(width=width))
    assert len(text.splitlines()) <= 40
    assert text == snapshot


def test_ascii() -> None:
    there = replace(TRIALS["helps"], loaders=(loader(where="entraînement.py:3"),))
    for measured in (TRIALS["helps"], there):
        assert loader_text(tried(measured), Look(unicode=False)).isascii()
        assert loader_json(tried(measured), Look(unicode=False)).isascii()


def test_what_a_script_says_does_not_act_on_the_terminal() -> None:
    hostile = "\x1b[31mred\x07\u202e"
    of_script = replace(
        TRIALS["fails"],
        loaders=(loader(where=hostile, dataset=hostile), loader(loader=1, where=hostile, skipped=hostile)),
        points=(point(0), failed(1, hostile)),
    )
    text = loader_text(tried(of_script), Look())
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_json() -> None:
    told = json.loads(loader_json(tried(TRIALS["helps"]), Look()))
    assert (told["schema_version"], told["state"], told["cpus"]) == (1, "done", 16)
    assert told["advice"]["settings"][0]["name"] == "num_workers"
    assert told["advice"]["speedup_at_most"] == 5.0
    assert told["points"][0]["batches_per_s"] == pytest.approx(10, rel=0.05)
    assert told["training"]["cached"]["mean_s"] == 0.025
    assert json.loads(loader_json(tried(TRIALS["alone"]), Look()))["training"] == {"now": None, "cached": None}
