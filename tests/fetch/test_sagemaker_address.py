"""sagemaker://JOB against a stand-in for AWS: what is fetched, by what it will be divided, and what is refused."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from whyidle.errors import WhyIdleError
from whyidle.fetch import brought
from whyidle.fetch import sagemaker as fetch
from whyidle.fetch.sagemaker import Job, SageMaker, window
from whyidle.model.hardware import list_price
from whyidle.model.instances import _FAMILIES, instance

P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2}


def points(aws, job, began, metric, values, host="algo-1"):
    """Put one value a minute into CloudWatch, as the platform does."""
    dimensions = [{"Name": "Host", "Value": f"{job}/{host}"}]
    data = [
        {"MetricName": metric, "Dimensions": dimensions, "Timestamp": began + timedelta(minutes=at), "Value": value}
        for at, value in enumerate(values)
    ]
    aws.cloudwatch.put_metric_data(Namespace="/aws/sagemaker/TrainingJobs", MetricData=data)


def fetched(address, tmp_path, progress=None):
    (path,) = SageMaker().fetch(address, tmp_path, progress)
    return json.loads(path.read_text("utf-8"))


def test_every_instance_of_a_job_with_what_its_sums_are_of(aws, train, tmp_path):
    began = train("resnet", P4D)
    busy = [0.0, 0.0, *([480.0] * 28)]
    points(aws, "resnet", began, "GPUUtilization", busy)
    points(aws, "resnet", began, "GPUUtilization", [800.0] * 30, host="algo-2")
    points(aws, "resnet", began, "CPUUtilization", [960.0] * 30)
    points(aws, "resnet", began, "LossOfSomebodyElse", [1.0])
    points(aws, "another", began, "GPUUtilization", [1.0])
    told = []
    found = fetched("sagemaker://resnet", tmp_path, lambda path, done, total: told.append((str(path), done, total)))
    series = {result["Label"]: result for result in found["MetricDataResults"]}
    assert set(series) == {"algo-1 GPUUtilization", "algo-2 GPUUtilization", "algo-1 CPUUtilization"}
    assert series["algo-1 GPUUtilization"]["Values"] == busy
    assert series["algo-1 GPUUtilization"]["Timestamps"][:2] == [
        began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        (began + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    ]
    assert found["whyidle"] == {
        "job": "resnet",
        "status": "Completed",
        "region": "us-east-1",
        "instance_type": "ml.p4d.24xlarge",
        "instances": 2,
        "gpus_per_instance": 8,
        "gpu": "NVIDIA A100-SXM4-40GB",
        "vcpus": 96,
        "started": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ended": (began + timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert told[-1][0] == "resnet"
    assert 0 < told[-1][1] <= told[-1][2]


def test_pages_are_joined(aws, train, tmp_path, monkeypatch):
    """With a hundred instances CloudWatch is asked once, with 1,000 twice, and each answer may have pages."""
    began = train("big", {"InstanceType": "ml.g5.xlarge", "InstanceCount": 3}, minutes=6)
    for host in ("algo-1", "algo-2", "algo-3"):
        points(aws, "big", began, "GPUUtilization", [float(at) for at in range(6)], host)
    monkeypatch.setattr("whyidle.fetch.sagemaker.QUERIES", 4)
    found = fetched("sagemaker://big", tmp_path)["MetricDataResults"]
    assert [result["Label"] for result in found] == [f"algo-{number} GPUUtilization" for number in (1, 2, 3)]
    assert all(result["Values"] == [0, 1, 2, 3, 4, 5] for result in found)


def test_a_group_without_gpus_beside_one_with(aws, train, tmp_path):
    groups = [
        {"InstanceType": "ml.c5.18xlarge", "InstanceCount": 2, "InstanceGroupName": "data"},
        {"InstanceType": "ml.p3.16xlarge", "InstanceCount": 1, "InstanceGroupName": "gpu"},
    ]
    began = train("mixed", {"InstanceGroups": groups})
    points(aws, "mixed", began, "GPUUtilization", [400.0] * 30, host="algo-3")
    about = fetched("sagemaker://mixed?region=us-east-1", tmp_path)["whyidle"]
    assert (about["instance_type"], about["gpus_per_instance"], about["instances"]) == ("ml.p3.16xlarge", 8, 3)


def test_a_metric_that_cloudwatch_fails_to_give_is_not_left_out(aws, train, tmp_path, monkeypatch):
    class CloudWatch:
        def get_metric_data(self, **asked):
            told = [{"Code": "x", "Value": "of its own"}]
            label = asked["MetricDataQueries"][0]["Label"]
            return {"MetricDataResults": [{"Label": label, "StatusCode": "InternalError", "Messages": told}]}

    train("job", P4D)
    real = fetch.client
    monkeypatch.setattr(
        fetch, "client", lambda name, *more: CloudWatch() if name == "cloudwatch" else real(name, *more)
    )
    with pytest.raises(WhyIdleError, match="does not give algo-1 GPUUtilization of job: InternalError of its own"):
        fetched("sagemaker://job", tmp_path)


@pytest.mark.parametrize(
    ("resources", "options", "said"),
    [
        ({"InstanceType": "ml.m5.xlarge", "InstanceCount": 1}, {}, "no instance type with NVIDIA GPUs"),
        (P4D, {}, "no GPU metrics of job, which ran for 0:30:00"),
        (P4D, {"ended": False}, "has no point of job yet"),
        (P4D, {"minutes": 60 * 24 * 500}, "has forgotten it"),
        (
            {
                "InstanceGroups": [
                    {"InstanceType": f"ml.{kind}", "InstanceCount": 1, "InstanceGroupName": kind[:2]}
                    for kind in ("p3.16xlarge", "g5.xlarge")
                ]
            },
            {},
            "several kinds of GPU (ml.g5.xlarge, ml.p3.16xlarge)",
        ),
    ],
)
def test_what_cannot_be_judged_is_said(aws, train, tmp_path, resources, options, said):
    train("job", resources, **options)
    with pytest.raises(WhyIdleError) as error:
        fetched("sagemaker://job", tmp_path)
    assert said in error.value.message
    assert error.value.hint
    assert not list(tmp_path.iterdir())


def test_a_job_that_is_not_there(aws, tmp_path):
    with pytest.raises(WhyIdleError, match="no training job 'nothing' can be read: ") as error:
        fetched("sagemaker://nothing", tmp_path)
    assert "?region=" in error.value.hint


@pytest.mark.parametrize("address", ["sagemaker://", "sagemaker://a_b", "sagemaker://job/algo-1", "sagemaker://-job"])
def test_what_is_no_name_of_a_job_asks_nobody(tmp_path, address):
    with pytest.raises(WhyIdleError, match="not the name of a training job"):
        fetched(address, tmp_path)


def test_a_parameter_that_is_not_one(tmp_path, aws):
    with pytest.raises(WhyIdleError, match="'regoin' is not one of region"):
        fetched("sagemaker://job?regoin=us-east-1", tmp_path)


def test_without_credentials(aws, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(WhyIdleError, match="Unable to locate credentials") as error:
        fetched("sagemaker://job", tmp_path)
    assert "aws configure" in error.value.hint


def test_without_a_region(aws, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(WhyIdleError, match="no region is known") as error:
        fetched("sagemaker://job", tmp_path)
    assert "?region=us-east-1" in error.value.hint


def test_nobody_answers(aws, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(WhyIdleError, match="Could not connect to the endpoint"):
        fetched("sagemaker://job", tmp_path)


def test_without_boto3(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(WhyIdleError, match="boto3, which is not installed") as error:
        fetched("sagemaker://job", tmp_path)
    assert error.value.hint == 'pip install "whyidle[aws]"'


def test_old_jobs_are_asked_for_in_periods_that_are_still_there():
    now = datetime(2025, 6, 30, tzinfo=UTC)
    for days, period in ((1, 60), (14, 60), (16, 300), (62, 300), (64, 3600)):
        began = now - timedelta(days=days) + timedelta(seconds=59)
        kind = instance("p3.2xlarge")
        job = Job("job", "Completed", "ml.p3.2xlarge", kind, 1, began, began + timedelta(hours=3))
        start, end, found = window(job, now)
        assert found == period
        assert start.timestamp() % period == 0
        assert timedelta() <= began - start < timedelta(seconds=period)
        assert end == job.ended


def test_a_failure_leaves_nothing_behind(aws, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(WhyIdleError), brought(["sagemaker://nothing"]):
        pass
    assert not list(tmp_path.iterdir())


def test_instances_have_gpus_with_the_price_of_their_name():
    for family, (gpu, sizes) in _FAMILIES.items():
        for size, (gpus, vcpus) in sizes.items():
            found = instance(f"ml.{family}.{size}")
            assert (found.gpu, found.gpus, found.vcpus) == (gpu, gpus, vcpus)
            assert vcpus >= 4 * gpus or family == "p2"
        assert list_price(gpu) is not None or family == "p2", gpu
    assert instance("ml.c5.xlarge") is instance("p3") is instance("") is None
