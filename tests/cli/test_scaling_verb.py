"""`whyidle scaling`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.compare.scaled_jobs import watched
from whyidle.cli import main

Captured = pytest.CaptureFixture[str]
NUMBERS = ["scaling", "--throughput", "1=1000,4=2400"]


def test_numbers(capsys: Captured) -> None:
    assert main([*NUMBERS, "--unit", "samples"]) == 0
    assert "4 GPUs do 2.40x the work of 1: 60% of linear." in capsys.readouterr().out


def test_runs(tmp_path: Path, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    jobs = ((1, 1.0, 30.0), (2, 3.0, 33.0), (4, 14.0, 38.0))
    runs = [str(watched(tmp_path / f"gpus-{ranks}", ranks, data=data, compute=work)) for ranks, data, work in jobs]
    assert main(["scaling", *runs, "--price", "$2.60"]) == 0
    assert capsys.readouterr().out == snapshot


def test_json_to_a_file(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "scaling.json"
    assert main([*NUMBERS, "--price", "2.60", "-o", str(out)]) == 0
    assert capsys.readouterr().err == f"4 GPUs do 2.40x the work of 1: 60% of linear. Report: {out}\n"
    found = json.loads(out.read_text("utf-8"))
    assert found["sizes"][1]["usd_per_million"] == pytest.approx(1.2037)
    assert main([*NUMBERS, "-o", str(out)]) == 2  # it is there
    assert main([*NUMBERS, "-o", str(out), "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to compare"),
        (["--throughput", "1=1000"], "one run"),
        (["--throughput", "1=1000,1=1100"], "1=1100"),
        (["--throughput", "1=1000,4"], "'4' is not"),
        (["--throughput", "one=1000,4=10"], "'one=1000' is not"),
        (["--throughput", ","], "nothing to compare"),
        (["--throughput", "1=1000,4=-1"], "cannot be"),
        (["--throughput", "1=1000,4=inf"], "cannot be"),
        (["--throughput", "1=1000,4=2400", "--unit", "steps"], "no unit is called 'steps'"),
        (["--throughput", "1=1000,4=2400", "--format", "xml"], "no format is called 'xml'"),
        (["--throughput", "1=1000,4=2400", "--price", "-1"], "the price is"),
        (["--throughput", "1=1000,4=2400", "some/run"], "both say"),
        (["--throughput", "1=1000," + "9" * 400 + "=5"], "is not a number of GPUs"),
        (["--throughput", "1=1e-300,4=1e300"], "is not a number of GPUs and a throughput"),
        (["some/run", "other/run"], "no such file"),
        (["some/run", "--kind", "both"], "no kind of scaling is called 'both'"),
        (["some/run", "--gpus", "many"], "'many' is not a number of GPUs"),
        (["some/run", "--gpus", "0"], "1 or more, not 0"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], said: str, capsys: Captured) -> None:
    assert main(["scaling", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert "hint: " in shown.err
    assert "Traceback" not in shown.err


def test_one_size_is_said(tmp_path: Path, capsys: Captured) -> None:
    runs = [str(watched(tmp_path / name, 2)) for name in ("one", "other")]
    assert main(["scaling", *runs]) == 2
    assert "every run here is on 2 GPUs" in capsys.readouterr().err


def test_more_than_linear_is_doubted_and_is_cheaper(capsys: Captured) -> None:
    assert main(["scaling", "--throughput", "2=1000,4=3000", "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cheapest"], found["dearer_from"], len(found["warnings"])) == (4, None, 1)
    assert found["warnings"][0].startswith("more than linear: something else than the number of GPUs differs")
    assert main(["scaling", "--throughput", "2=1000,4=3000"]) == 0
    assert "cost  a sample is cheapest on 4 GPUs: 0.67x what it costs on 2." in capsys.readouterr().out


def test_the_docs_show_what_is_printed(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(NUMBERS) == 0
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text("utf-8")
    assert capsys.readouterr().out.rstrip() in page


def test_a_table_fits_into_80_columns(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["scaling", "--throughput", "1=1000,1024=2400000", "--price", "2.60"]) == 0
    runs = [str(watched(tmp_path / f"{ranks}", ranks)) for ranks in (1, 2)]
    assert main(["scaling", *runs]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_what_would_record_a_part_is_said(tmp_path: Path, capsys: Captured) -> None:
    runs = [str(watched(tmp_path / f"{ranks}", ranks)) for ranks in (1, 2)]
    assert main(["scaling", *runs]) == 0
    assert "record each size with `whyidle run --trace-ranks all`" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "begins"), [("a.html", "<!doctype html>"), ("a.md", "**4 GPUs do"), ("a.txt", "  4 GPUs")]
)
def test_the_name_of_the_file_says_the_format(name: str, begins: str, tmp_path: Path) -> None:
    file = tmp_path / name
    assert main(["scaling", "--throughput", "1=1000,4=2400", "-o", str(file)]) == 0
    assert file.read_text("utf-8").startswith(begins)
