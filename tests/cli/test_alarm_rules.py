"""Alarms for others: rules that a real Prometheus runs, alarms that a stand-in for CloudWatch takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.collect.conftest import nvml_library, nvml_stub
from whyidle.alarm_rules.prometheus import rules
from whyidle.cli import main
from whyidle.cli.sagemaker import METRICS, definitions
from whyidle.launch.pace import Sum, _line

__all__ = ("nvml_library", "nvml_stub")

JOB = ["--job", "resnet", "--instance-type", "ml.p4d.24xlarge"]
IDLE = 'whyidle_gpu_idle_share{gpu="0",instance="n1:9400",name="NVIDIA H100",uuid="GPU-0"}'
DCGM = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1",instance="n1:9400"}'


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    return found


def made(capsys, *arguments):
    assert main(["alarm", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("metrics", ["whyidle", "dcgm"])
@pytest.mark.parametrize("more", [[], ["--held", "--match", r'{cluster=~"a\\.b|é😀",pod!=""}', "--window", "100s"]])
def test_promtool_takes_the_rules(promtool, capsys, tmp_path, metrics, more):
    path = tmp_path / "rules.yml"
    assert made(capsys, "prometheus", "--metrics", metrics, *more, "-o", str(path)) == ""
    check = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


# In Prometheus' notation: a value every minute, "_" for none.
SERIES = {
    "always idle": ("1x60", {14: True, 59: True, 5: False}),
    "always busy": ("0x60", {59: False}),
    "busy for a moment every ten minutes": ("1 1 1 1 1 1 1 1 1 0 " * 6, {30: True, 59: True}),
    "busy, then idle, then busy": ("0x30 1x30 0x30", {30: False, 40: False, 46: True, 60: True, 66: False}),
    "as busy as the floor asks": ("0.84x60", {59: False}),
    "not measured": ("_x60", {59: False}),
    "idle for two minutes after a gap": ("0x10 _x30 1x2", {42: False}),
    "gone after it was idle": ("1x20 _x40", {18: True, 50: False}),
}


@pytest.mark.parametrize("metrics", ["whyidle", "dcgm"])
@pytest.mark.parametrize("name", SERIES)
def test_when_a_rule_fires(promtool, tmp_path, metrics, name):
    values, expected = SERIES[name]
    series = IDLE
    if metrics == "dcgm":
        values = re.sub(r"\b([01](?:\.\d+)?)(?=x| |$)", lambda told: f"{100 * (1 - float(told[1])):g}", values)
        series = DCGM
    (tmp_path / "rules.yml").write_text(rules(metrics, 0.15, 900), "utf-8")
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values.strip()}],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="GpuIdle",alertstate="firing"}) or vector(0)',
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                    for minute, fires in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test), "utf-8")  # JSON is YAML
    run = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in for NVML is a Linux library")
def test_a_rule_fires_and_resolves_in_a_real_prometheus(prometheus, capsys, nvml_stub, tmp_path):
    """The whole way: a GPU, `whyidle watch --listen`, Prometheus, and the rule of `whyidle alarm prometheus`."""
    pytest.importorskip("prometheus_client")
    seconds = tmp_path / "seconds"
    seconds.write_text("0")
    row = "row {second} {gpu} {busy} 41 40000 600 1755 66 0 0 0\n"
    played = [(0, 0, 3), (0, 1, 97), (10, 0, 90)]
    rows = "".join(row.format(second=second, gpu=gpu, busy=busy) for second, gpu, busy in played)
    environ = {**os.environ, **nvml_stub(f"gpus 2\nclock {seconds}\n{rows}")}
    verb = [sys.executable, "-m", "whyidle", "watch", "--listen", "0", "--last", "2s", "--interval", "0.5"]
    with subprocess.Popen(verb, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as watch:
        try:
            port = int(re.search(r":(\d+)/metrics", watch.stderr.readline())[1])
            with prometheus(port, rules=made(capsys, "prometheus", "--window", "3s")) as host:
                (alert,) = until(host, lambda alerts: len(alerts) == 1)
                seconds.write_text("10")
                assert until(host, lambda alerts: not alerts) == []
        finally:
            watch.terminate()
        assert watch.wait(30) == 0
    assert (alert["labels"]["alertname"], alert["labels"]["gpu"]) == ("GpuIdle", "0")
    assert alert["annotations"]["summary"].startswith("GPU 0 of 127.0.0.1:")
    assert alert["annotations"]["summary"].endswith("(NVIDIA H100 80GB HBM3): idle 97% of the last 3s")


def until(host, holds, within_s=60.0):
    """Return the alerts for idle GPUs that fire, when they are as they have to be."""
    end = time.monotonic() + within_s
    while True:
        with urllib.request.urlopen(f"http://{host}/api/v1/alerts", timeout=5) as answer:
            told = json.load(answer)["data"]["alerts"]
        alerts = [one for one in told if one["state"] == "firing" and one["labels"]["alertname"] == "GpuIdle"]
        if holds(alerts) or time.monotonic() > end:
            return alerts
        time.sleep(0.2)


def test_a_call_of_aws_that_can_be_pasted(capsys):
    text = made(capsys, "cloudwatch", *JOB, "--instances", "2", "--sns", "arn:aws:sns:us-east-1:1:gpus")
    calls = [shlex.split(line) for line in text.replace("\\\n", "").splitlines() if line.startswith("aws ")]
    assert len(calls) == 2
    assert calls[1][:3] == ["aws", "cloudwatch", "put-metric-alarm"]
    options = dict(zip(calls[1][3::2], calls[1][4::2], strict=True))
    assert options.pop("--alarm-description").endswith("Why: whyidle sagemaker://resnet")
    assert options == {
        "--alarm-name": "whyidle-idle-resnet-algo-2",
        "--namespace": "/aws/sagemaker/TrainingJobs",
        "--metric-name": "GPUUtilization",
        "--dimensions": "Name=Host,Value=resnet/algo-2",
        "--statistic": "Average",
        "--period": "300",
        "--evaluation-periods": "3",
        "--datapoints-to-alarm": "3",
        "--threshold": "120.0",
        "--comparison-operator": "LessThanThreshold",
        "--treat-missing-data": "notBreaching",
        "--alarm-actions": "arn:aws:sns:us-east-1:1:gpus",
        "--ok-actions": "arn:aws:sns:us-east-1:1:gpus",
    }
    assert "8 x 15%: the metric is the sum over the 8 GPUs of ml.p4d.24xlarge" in text


def test_the_call_has_options_that_aws_knows(capsys):
    session = pytest.importorskip("botocore.session").get_session()
    xform = pytest.importorskip("botocore").xform_name
    shape = session.get_service_model("cloudwatch").operation_model("PutMetricAlarm").input_shape
    known = {f"--{xform(name, '-')}" for name in shape.members}
    text = made(capsys, "cloudwatch", *JOB, "--sns", "arn:aws:sns:us-east-1:1:gpus")
    assert set(re.findall(r"^ +(--[a-z-]+)", text, re.MULTILINE)) <= known


def test_apply_makes_the_alarms_of_the_instances_that_the_job_has(aws, train, capsys):
    train("resnet", {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 2}, ended=False)
    topic = "arn:aws:sns:us-east-1:123456789012:gpus"
    assert main(["alarm", "cloudwatch", "--job", "resnet", "--floor", "0.3", "--sns", topic, "--apply"]) == 0
    assert "whyidle: made 2 alarms of resnet" in capsys.readouterr().err
    first, second = aws.cloudwatch.describe_alarms()["MetricAlarms"]
    assert (first["AlarmName"], second["AlarmName"]) == ("whyidle-idle-resnet-algo-1", "whyidle-idle-resnet-algo-2")
    assert {name: first[name] for name in ("Namespace", "MetricName", "Statistic", "Period", "Threshold")} == {
        "Namespace": "/aws/sagemaker/TrainingJobs",
        "MetricName": "GPUUtilization",
        "Statistic": "Average",
        "Period": 300,
        "Threshold": 120.0,  # 30% of each of 4
    }
    assert (first["EvaluationPeriods"], first["DatapointsToAlarm"]) == (3, 3)
    assert (first["ComparisonOperator"], first["TreatMissingData"]) == ("LessThanThreshold", "notBreaching")
    assert first["Dimensions"] == [{"Name": "Host", "Value": "resnet/algo-1"}]
    assert first["AlarmActions"] == first["OKActions"] == [topic]


def test_without_apply_nobody_is_asked(capsys, monkeypatch):
    monkeypatch.setattr("whyidle.alarm_rules.cloudwatch.client", lambda *_: pytest.fail("asked"))
    assert main(["alarm", "cloudwatch", *JOB]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cloudwatch"], "of which training job?"),
        (["cloudwatch", "--job", "resnet"], "how many has it?"),
        (["cloudwatch", "--job", "a b", "--instance-type", "ml.p4d.24xlarge"], "not the name of a training job"),
        (["cloudwatch", "--job", "resnet", "--instance-type", "ml.m5.large"], "no instance type with NVIDIA GPUs"),
        (["cloudwatch", *JOB, "--window", "7m"], "CloudWatch looks every 5 minutes"),
        (["cloudwatch", *JOB, "--instances", "0"], "a job has 1 to 1,000 instances, not 0"),
        (["cloudwatch", *JOB, "--metrics", "dcgm", "--held"], "--metrics, --held: not of `whyidle alarm cloudwatch`"),
        (["prometheus", "--job", "resnet"], "--job: not of `whyidle alarm prometheus`"),
        (["prometheus", "--floor", "15"], "--floor is between 0% and 100%, not '15'"),
        (["prometheus", "--floor", "nan"], "--floor is between 0% and 100%"),
        (["prometheus", "--floor", "some"], "'some' is not a share"),
        (["prometheus", "--window", "soon"], "--window is a time like 15s, 5m or 1h30m, not 'soon'"),
        (["prometheus", "--match", "gpu=0"], "match is a label selector"),
        (["nagios"], "'nagios' is not one of 'prometheus', 'cloudwatch'"),
    ],
)
def test_mistakes(capsys, arguments, said):
    assert main(["alarm", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "hint: " in err


def test_no_file_stays_behind_a_mistake(capsys, tmp_path):
    path = tmp_path / "rules.yml"
    assert main(["alarm", "prometheus", "--match", "gpu=0", "-o", str(path)]) == 2
    assert not path.exists()


def test_metric_definitions_find_what_run_emits(capsys):
    assert main(["sagemaker", "metrics"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == definitions()
    line = _line([Sum(steps=10, elapsed_ns=1_234_000_000, wait_ns=505_940_000, batches=10, samples=642, tokens=32100)])
    values = {one["Name"]: re.findall(one["Regex"], line) for one in found}
    assert values == {
        "whyidle:step_time_sec": ["0.123400"],
        "whyidle:data_wait_frac": ["0.4100"],
        "whyidle:samples_per_sec": ["520.26"],
        "whyidle:tokens_per_sec": ["26012.97"],
    }
    assert {name.partition("=")[0] for name in line.split()} == set(METRICS)
    bare = _line([Sum(steps=10, elapsed_ns=1_000_000_000)])
    assert [one["Name"] for one in found if re.search(one["Regex"], bare)] == ["whyidle:step_time_sec"]


def test_metric_definitions_for_python(capsys):
    assert main(["sagemaker", "metrics", "--format", "python"]) == 0
    assert eval(f"dict({capsys.readouterr().out})") == {"metric_definitions": definitions()}


def test_sagemaker_takes_the_definitions(aws, train):
    """As SageMaker limits them: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricDefinition.html."""
    assert all(1 <= len(one["Name"]) <= 255 and 1 <= len(one["Regex"]) <= 500 for one in definitions())


def test_docs_show_the_definitions_that_are():
    page = (Path(__file__).parents[2] / "docs" / "sagemaker.md").read_text("utf-8")
    for one in definitions():
        assert json.dumps(one) in page
