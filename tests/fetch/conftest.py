"""Servers that addresses lead to."""

from __future__ import annotations

from tests.servers import aws, moto_server, prometheus, prometheus_binary, train

__all__ = ["aws", "moto_server", "prometheus", "prometheus_binary", "train"]
