"""One implementation in its own process. Requests and replies cross as MessagePack and raw bytes of tensors.

Functions that start processes are imported at once. The rest needs PyTorch and is imported on first use, so that other
processes can begin to import PyTorch before this one does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from attnsuite.worker.forkserver import await_servers, forget_servers, prewarm

if TYPE_CHECKING:
    from attnsuite.worker.calling import run_calls as run_calls
    from attnsuite.worker.worker import Crash as Crash
    from attnsuite.worker.worker import Failure as Failure
    from attnsuite.worker.worker import Ready as Ready
    from attnsuite.worker.worker import Timeout as Timeout
    from attnsuite.worker.worker import Worker as Worker

__all__ = ["Crash", "Failure", "Ready", "Timeout", "Worker", "await_servers", "forget_servers", "prewarm", "run_calls"]

_MODULES = {**dict.fromkeys(("Crash", "Failure", "Timeout", "Ready", "Worker"), "worker"), "run_calls": "calling"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'attnsuite.worker' has no attribute {name!r}")
    value = getattr(import_module(f"attnsuite.worker.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
