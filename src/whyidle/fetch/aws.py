"""AWS asked through boto3, which is imported only here, and every way in which that can go wrong said.

Region and credentials are whatever boto3's own chain finds: environment, ~/.aws, the role of the machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from whyidle.errors import WhyIdleError

INSTALL = 'pip install "whyidle[aws]"'


def client(service: str, region: str | None) -> Any:
    """Return boto3's client of a service.

    Raises:
        WhyIdleError: boto3 is not there, or no region is known.
    """
    with said(f"cannot ask {service} of AWS"):
        config = _module("botocore.config").Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard"})
        session = _module("boto3").Session(region_name=region or None)  # its default one remembers who asked first
        return session.client(service, config=config)


@contextmanager
def said(what: str) -> Iterator[None]:
    """Turn what boto3 raises into what a person can act on; `what` says what could not be done."""
    errors = _module("botocore.exceptions")
    try:
        yield
    except errors.NoRegionError:
        raise WhyIdleError(f"{what}: no region is known", "name it: ?region=us-east-1, or AWS_REGION") from None
    except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.ProfileNotFound) as error:
        raise WhyIdleError(f"{what}: {error}", "aws configure, aws sso login, or AWS_PROFILE=NAME") from None
    except errors.ClientError as error:
        told = error.response.get("Error", {})
        raise WhyIdleError(f"{what}: {told.get('Message') or error}", _hint(str(told.get("Code", "")))) from None
    except (errors.BotoCoreError, ValueError) as error:  # it makes a ValueError of an endpoint that cannot be
        raise WhyIdleError(f"{what}: {error}", "aws sts get-caller-identity tells whether AWS answers") from None


def _hint(code: str) -> str:
    if "AccessDenied" in code or "Unauthorized" in code:
        return "the role needs sagemaker:DescribeTrainingJob, cloudwatch:GetMetricData; for alarms PutMetricAlarm"
    if "Expired" in code or "Token" in code or "Signature" in code:
        return "the credentials are old or wrong: aws sso login"
    return "is it this account, and this region? ?region=us-east-1 names another" if "Valid" in code else ""


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise WhyIdleError("AWS is asked through boto3, which is not installed", INSTALL) from None
