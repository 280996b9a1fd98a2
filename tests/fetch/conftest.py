"""Servers that addresses lead to."""

from __future__ import annotations

from tests.servers import aws, clients, direct, moto_server, prometheus, prometheus_binary, train

__all__ = ["aws", "clients", "direct", "moto_server", "prometheus", "prometheus_binary", "train"]
