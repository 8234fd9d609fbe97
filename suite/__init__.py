"""A conformance and benchmark suite for attention: the public names, each loaded when it is first used.

`check` tests a function, a file, or what is registered, and returns an `Outcome` per test; `bench` times, and returns a
`Measurement` per row; `implementation` declares; `load_results` reads a folder of results as a table. A request that
cannot be carried out raises `UsageError`, one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnsuite.benchmark import bench as bench
    from attnsuite.cli.check import check as check
    from attnsuite.model import Measurement as Measurement
    from attnsuite.model import Outcome as Outcome
    from attnsuite.model import Status as Status
    from attnsuite.model import UsageError as UsageError
    from attnsuite.registry import implementation as implementation
    from attnsuite.results.store import load as load_results

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
    "Measurement": ("attnsuite.model", "Measurement"),
    "Outcome": ("attnsuite.model", "Outcome"),
    "Status": ("attnsuite.model", "Status"),
    "UsageError": ("attnsuite.model", "UsageError"),
    "__version__": ("attnsuite.model.version", "VERSION"),
    "bench": ("attnsuite.benchmark", "bench"),
    "check": ("attnsuite.cli.check", "check"),
    "implementation": ("attnsuite.registry", "implementation"),
    "load_results": ("attnsuite.results.store", "load"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'attnsuite' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
