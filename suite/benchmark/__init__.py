"""Implementations × workloads → measurements. What needs PyTorch is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.benchmark.functions import bench as bench
    from suite.benchmark.request import Request as Request
    from suite.benchmark.request import Table as Table
    from suite.benchmark.series import Benchmark as Benchmark

__all__ = ["Benchmark", "Request", "Table", "bench"]

_HOMES = {"Benchmark": "series", "Request": "request", "Table": "request", "bench": "functions"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'suite.benchmark' has no attribute {name!r}")
    found = getattr(import_module(f"suite.benchmark.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
