"""AWS as moto plays it, and a real Prometheus, on ports of this machine: fixtures that a conftest imports."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

REGION = "us-east-1"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask this machine without a proxy in between."""
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """Start a stand-in for AWS and return its address."""
    pytest.importorskip("boto3", reason='boto3 is not installed: pip install -e ".[test]"')
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def clients(moto_server: str) -> SimpleNamespace:
    """Return clients of the stand-in for the test itself; to make one takes half a second."""
    session = pytest.importorskip("boto3").Session("testing", "testing", region_name=REGION)
    services = ("sagemaker", "cloudwatch")
    return SimpleNamespace(**{name: session.client(name, endpoint_url=moto_server) for name in services})


@pytest.fixture
def aws(moto_server: str, clients: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Point boto3 at the stand-in, by the variables that it reads itself, and empty it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    given = {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": "testing", "DEFAULT_REGION": REGION}
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_server)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    urllib.request.urlopen(urllib.request.Request(f"{moto_server}/moto-api/reset", method="POST")).close()
    return clients


@pytest.fixture
def train(aws: SimpleNamespace) -> Callable[..., datetime]:
    """Put a training job into the stand-in, that began some minutes ago; return when."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.sagemaker.models import sagemaker_backends

    def make(name: str, resources: dict[str, Any], minutes: int = 30, ended: bool = True) -> datetime:
        aws.sagemaker.create_training_job(
            TrainingJobName=name,
            RoleArn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/trainer",
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            OutputDataConfig={"S3OutputPath": "s3://bucket/"},
            ResourceConfig={"VolumeSizeInGB": 10, **resources},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
        )
        job = sagemaker_backends[DEFAULT_ACCOUNT_ID][REGION].training_jobs[name]
        began = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=minutes + 1)
        job.training_start_time = began.strftime("%Y-%m-%d %H:%M:%S")
        job.training_end_time = (began + timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S") if ended else None
        job.training_job_status = "Completed" if ended else "InProgress"
        return began

    return make


@pytest.fixture(scope="session")
def prometheus_binary() -> str:
    """Return Prometheus' own program; skip where it is not."""
    found = shutil.which("prometheus")
    if found is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    return found


@pytest.fixture
def prometheus(prometheus_binary: str, tmp_path: Path) -> Callable[..., Any]:
    """Return what runs a real Prometheus that scrapes ports of this machine every second."""

    @contextmanager
    def run(*targets: int, rules: str = "") -> Iterator[str]:
        port = free_port()
        (tmp_path / "rules.yml").write_text(rules or "groups: []\n", "utf-8")
        places = ", ".join(f"'127.0.0.1:{target}'" for target in targets)
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: gpus, static_configs: [{{targets: [{places}]}}]}}]\n",
            "utf-8",
        )
        command = [
            prometheus_binary,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            answers(f"http://127.0.0.1:{port}/-/ready")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)

    return run


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str, within_s: float = 60.0) -> None:
    """Wait until a server is ready."""
    until = time.monotonic() + within_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
