"""Work that makes many objects that stay: looking among them for garbage, again and again, may take longer than it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python look for no garbage meanwhile. What nothing refers to is freed all the same, cycles are not."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
