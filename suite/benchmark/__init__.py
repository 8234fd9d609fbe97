"""Implementations × workloads → measurements."""

from suite.benchmark.functions import bench
from suite.benchmark.request import Request, Table
from suite.benchmark.series import Benchmark

__all__ = ["Benchmark", "Request", "Table", "bench"]
