"""The workloads of the contract `kv_cache_attention`."""

from __future__ import annotations

from attnsuite.cases import Workload


def workloads() -> list[Workload]:
    """All of them, in the order of tables."""
    return []
