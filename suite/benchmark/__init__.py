"""Implementations × workloads → measurements. What needs PyTorch is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnsuite.benchmark.request import Request as Request
    from attnsuite.benchmark.request import Table as Table
    from attnsuite.benchmark.series import Benchmark as Benchmark
    from attnsuite.benchmark.series import bench as bench

__all__ = ["Benchmark", "Request", "Table", "bench"]

_HOMES = {"Benchmark": "series", "Request": "request", "Table": "request", "bench": "series"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'attnsuite.benchmark' has no attribute {name!r}")
    found = getattr(import_module(f"attnsuite.benchmark.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
