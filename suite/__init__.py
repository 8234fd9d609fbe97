"""A conformance and benchmark suite for attention: the public names, each loaded when it is first used.

`check` tests a function, a file, or what is registered, and returns an `Outcome` per test; `bench` times, and returns a
`Measurement` per row; `implementation` declares; `load_results` reads a folder of results as a table. A request that
cannot be carried out raises `UsageError`, one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnsuite.benchmark.series import bench as bench
    from attnsuite.cli.check import check as check
    from attnsuite.model import Measurement as Measurement
    from attnsuite.model import Outcome as Outcome
    from attnsuite.model import Status as Status
    from attnsuite.model import UsageError as UsageError
    from attnsuite.model.words import VERSION as __version__
    from attnsuite.registry import implementation as implementation
    from attnsuite.results import load as load_results

_HOMES = {
    **dict.fromkeys(("Measurement", "Outcome", "Status", "UsageError"), "attnsuite.model"),
    "__version__": "attnsuite.model.words",
    "bench": "attnsuite.benchmark.series",
    "check": "attnsuite.cli.check",
    "implementation": "attnsuite.registry",
    "load_results": "attnsuite.results",
}
_NAMES = {"__version__": "VERSION", "load_results": "load"}
"""Public names that have another name at home."""
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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'attnsuite' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    globals()[name] = getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
