"""Every implementation shipped here on the quick workloads: `pytest benchmarks/ --benchmark-only`."""

from attnsuite.pytest_plugin import benchmarks
from attnsuite.registry import discover

test_speed = benchmarks([declaration for declaration in discover() if declaration.contract == "attention"])
