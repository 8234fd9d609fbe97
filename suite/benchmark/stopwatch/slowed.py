"""The shipped baseline, slowed by a known share, for the audit of the stopwatch."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch import Tensor

from attnsuite.implementations.attention.matmul import attention


def slowed(share: float) -> Callable[..., Tensor]:
    """The baseline, followed by a busy wait for this share of its own time.

    The share is of wall time, so that a disturbance lengthens the wait in proportion. It works on CPUs only: the wait
    keeps no other device busy.
    """

    def function(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        started = perf_counter()
        output: Tensor = attention(query, key, value, **options)
        until = started + (1 + share) * (perf_counter() - started)
        while perf_counter() < until:
            pass
        return output

    return function


_ballast = [bytearray(random.randrange(1, 2**16)) for _ in range(256)]
"""Blocks of random size, which shift memory in each process, as different imports of implementations do."""

plain = slowed(0.0)
"""The identical implementation: the same wrapper without a wait, which is the only difference to the others."""
slower_3 = slowed(0.03)
slower_5 = slowed(0.05)
slower_10 = slowed(0.10)
