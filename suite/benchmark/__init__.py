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

_MODULES = {"Benchmark": "series", "Request": "request", "Table": "request", "bench": "series"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'attnsuite.benchmark' has no attribute {name!r}")
    value = getattr(import_module(f"attnsuite.benchmark.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
