"""An address in place of a path: the report speaks of it, and of nothing that is gone afterwards."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from whyidle import diagnosis
from whyidle.cli import main
from whyidle.errors import WhyIdleError
from whyidle.fetch import brought
from whyidle.fetch.prometheus import Prometheus
from whyidle.read import load

DEMO = Path(__file__).parents[2] / "src" / "whyidle" / "demo" / "before.json.gz"
ADDRESS = "prometheus+http://me:secret@host:9090/?start=-1h"
SHOWN = "prometheus+http://host:9090/?start=-1h"


@pytest.fixture
def brings(monkeypatch, tmp_path):
    """Let Prometheus bring files, whatever they are; what is left of them lies in the folder that this returns."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def bring(*files):
        def fetch(self, address, folder, progress=None):
            assert address == ADDRESS
            return [Path(shutil.copy(file, folder)) for file in files]

        monkeypatch.setattr(Prometheus, "fetch", fetch)
        return tmp_path

    return bring


def test_the_report_names_the_address(brings):
    left = brings(DEMO)
    report = diagnosis.diagnose(ADDRESS)
    assert [file.path for file in report.run.evidence] == [SHOWN]
    assert report.findings == diagnosis.diagnose(DEMO).findings or SHOWN in str(report.findings)
    assert str(left) not in str(report)
    assert "secret" not in str(report)
    assert list(left.iterdir()) == []


def test_an_address_beside_a_file(brings, tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("no evidence\n", "utf-8")
    brings(DEMO)
    report = diagnosis.diagnose([str(note), ADDRESS])
    assert [file.path for file in report.run.evidence] == [SHOWN]
    assert [file.path for file in report.run.ignored] == [str(note)]


def test_what_cannot_be_read_is_named_by_its_address(brings, tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("<html>\n", "utf-8")
    brings(page)
    assert main([ADDRESS, "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"whyidle: {SHOWN}: text of no format that whyidle knows.")
    assert json.loads(out)["judged"] is False
    assert not list(tmp_path.glob("whyidle-*"))
    assert "secret" not in out + err


def test_the_command_line_refuses_what_it_does_not_know(capsys):
    assert main(["gs://bucket/trace.json"]) == 2
    assert "it knows prometheus+http://, prometheus+https://, sagemaker://" in capsys.readouterr().err


def test_a_file_may_have_a_strange_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s3:").mkdir()
    shutil.copy(DEMO, "s3:/trace.json.gz")
    with brought("s3://trace.json.gz") as here:
        assert here.paths == [Path("s3:/trace.json.gz")]


def test_a_job_of_sagemaker_is_judged_by_the_mean_of_its_gpus(aws, train):
    pytest.importorskip("whyidle.read.cloudwatch", reason="nothing reads CloudWatch's answers yet")
    began = train("resnet", {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1})
    dimensions = [{"Name": "Host", "Value": "resnet/algo-1"}]
    for metric, value in (("GPUUtilization", 400.0), ("CPUUtilization", 4800.0)):
        data = [
            {
                "MetricName": metric,
                "Dimensions": dimensions,
                "Timestamp": began + timedelta(minutes=minute),
                "Value": value,
            }
            for minute in range(30)
        ]
        aws.cloudwatch.put_metric_data(Namespace="/aws/sagemaker/TrainingJobs", MetricData=data)
    with brought("sagemaker://resnet") as here:
        (curve,) = here.named(load(here.paths)).curves
    assert curve.path == "sagemaker://resnet"
    series = {one.name: one for one in curve.series}
    assert set(series["utilization_percent"].value) == {50.0}
    assert set(series["cpu_busy_percent"].value) == {50.0}
    assert set(np.diff(series["utilization_percent"].time)) == {60 * 10**9}
    assert {fact.name: fact.value for fact in curve.facts}["name"] == "NVIDIA A100-SXM4-40GB"


def test_nothing_is_fetched_where_another_address_is_wrong(brings):
    left = brings(DEMO)
    with pytest.raises(WhyIdleError, match="fetches nothing from s3://"):
        diagnosis.diagnose([ADDRESS, "s3://bucket/trace.json"])
    assert list(left.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "prometheus+http://user:s3cret@127.0.0.1:1/",
        "prometheus+http://user:s3cret/x@127.0.0.1:1/",
        "prometheus+http://user:s3cret?x@127.0.0.1:1/",
        "prometheus+http://user:x#s3cret@127.0.0.1:1/",
        "prometheus+http://user:s3@s3cret/:x@127.0.0.1:1/?start=-1h",
        "prometheus+http://user:s3cret@127.0.0.1:99999/",
        "prometheus+http://user:s3cret@127.0.0.1:1/?token=x",
        "sagemaker://user:s3cret@job",
        "s3://user:s3cret@bucket/key",
    ],
)
def test_a_password_is_in_no_message(address):
    with pytest.raises(WhyIdleError) as raised, brought(address):
        pass
    assert "s3cret" not in raised.value.message + raised.value.hint
