"""How long threads have waited for a core while others had it, as the system counts it."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path


def own_waits() -> float:
    """Seconds that this thread has been ready to run and did not."""
    return scheduled(Path(f"/proc/self/task/{threading.get_native_id()}"))[1]


def scheduled(thread: Path) -> tuple[float, float]:
    """Seconds that a thread has run, and those that it was ready to and did not; 0 where the system does not tell.

    `thread` is its folder in /proc, or that of its process, for the main one.
    """
    with suppress(OSError, ValueError, IndexError):
        ran, waited = (thread / "schedstat").read_text().split()[:2]
        return int(ran) / 1e9, int(waited) / 1e9
    return 0.0, 0.0
