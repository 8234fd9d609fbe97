"""One implementation in its own process: questions and answers cross as raw bytes and JSON.

What starts processes is there at once. The rest needs PyTorch, and is loaded when it is first used: so processes can
begin to import PyTorch before this one does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from attnsuite.worker.forkserver import await_servers, forget_servers, prewarm

if TYPE_CHECKING:
    from attnsuite.worker.calling import run_calls as run_calls
    from attnsuite.worker.messages import storage_of as storage_of
    from attnsuite.worker.snapshots import fingerprint as fingerprint
    from attnsuite.worker.snapshots import placed as placed
    from attnsuite.worker.worker import Crash as Crash
    from attnsuite.worker.worker import Failure as Failure
    from attnsuite.worker.worker import Ready as Ready
    from attnsuite.worker.worker import Timeout as Timeout
    from attnsuite.worker.worker import Worker as Worker

__all__ = [
    "Crash",
    "Failure",
    "Ready",
    "Timeout",
    "Worker",
    "await_servers",
    "fingerprint",
    "forget_servers",
    "placed",
    "prewarm",
    "run_calls",
    "storage_of",
]  # fmt: skip

_MODULES = {
    **dict.fromkeys(("Crash", "Failure", "Timeout", "Ready", "Worker"), "worker"),
    **dict.fromkeys(("fingerprint", "placed"), "snapshots"),
    "run_calls": "calling",
    "storage_of": "messages",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'attnsuite.worker' has no attribute {name!r}")
    value = getattr(import_module(f"attnsuite.worker.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
