"""The house of attnsuite. Its public names, which `import attnsuite` gives too, are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.benchmark import bench as bench
    from suite.commands.calling import check as check
    from suite.records import Measurement as Measurement
    from suite.records import Outcome as Outcome
    from suite.records import Status as Status
    from suite.records import UsageError as UsageError
    from suite.registry import implementation as implementation
    from suite.store import load as load_results

    __version__: str

__all__ = [
    "Measurement",
    "Outcome",
    "Status",
    "UsageError",
    "__version__",
    "bench",
    "check",
    "implementation",
    "load_results",
]

_HOMES = {
    "Measurement": ("suite.records", "Measurement"),
    "Outcome": ("suite.records", "Outcome"),
    "Status": ("suite.records", "Status"),
    "UsageError": ("suite.records", "UsageError"),
    "__version__": ("suite.version", "VERSION"),
    "bench": ("suite.benchmark", "bench"),
    "check": ("suite.commands.calling", "check"),
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


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
