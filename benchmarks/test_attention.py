"""Every implementation shipped here on the quick workloads: `pytest benchmarks/ --benchmark-only`."""

from suite.pytest_plugin import benchmarks
from suite.registry import discover

test_speed = benchmarks([declaration for declaration in discover() if declaration.contract == "attention"])
