"""Where the time of a benchmark went, by activity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Accounts(defaultdict[str, float]):
    """Seconds by activity."""

    def __init__(self) -> None:
        super().__init__(float)

    @contextmanager
    def spending(self, activity: str) -> Iterator[None]:
        """Add the time until the end of the block to an activity."""
        started = perf_counter()
        try:
            yield
        finally:
            self[activity] += perf_counter() - started

    def move(self, activity: str, other: str, seconds: float) -> None:
        """Count seconds of one activity as another's."""
        self[activity] -= seconds
        self[other] += seconds
