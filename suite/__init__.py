"""A conformance and benchmark suite for attention: the public names, loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.benchmark import bench as bench
    from suite.conformance.session import check as check
    from suite.records import Measurement as Measurement
    from suite.records import Outcome as Outcome
    from suite.records import UsageError as UsageError
    from suite.registry import implementation as implementation
    from suite.store import load as load_results

__all__ = ["Measurement", "Outcome", "UsageError", "bench", "check", "implementation", "load_results"]

_HOMES = {
    "Measurement": ("suite.records", "Measurement"),
    "Outcome": ("suite.records", "Outcome"),
    "UsageError": ("suite.records", "UsageError"),
    "bench": ("suite.benchmark", "bench"),
    "check": ("suite.conformance.session", "check"),
    "implementation": ("suite.registry", "implementation"),
    "load_results": ("suite.store", "load"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'suite' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found
