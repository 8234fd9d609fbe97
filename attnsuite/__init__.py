"""A conformance and benchmark suite for attention: the public names, each loaded when it is first used.

`check` asks a function, a file, or what is registered whether it is right, and returns an `Outcome` per question;
`bench` times, and returns a `Measurement` per row; `implementation` declares; `load_results` reads a folder of results
as a table. What cannot be carried out raises `UsageError`, one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import suite

if TYPE_CHECKING:
    from suite import Measurement as Measurement
    from suite import Outcome as Outcome
    from suite import Status as Status
    from suite import UsageError as UsageError
    from suite import __version__ as __version__
    from suite import bench as bench
    from suite import check as check
    from suite import implementation as implementation
    from suite import load_results as load_results

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
    if name not in __all__:
        raise AttributeError(f"module 'attnsuite' has no attribute {name!r}; it has {', '.join(__all__)}")
    found: object = getattr(suite, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
