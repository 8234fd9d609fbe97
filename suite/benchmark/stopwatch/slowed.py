"""The shipped baseline, made slower by a known share: for workers to import, and in no list of implementations."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch import Tensor

from attnsuite.implementations.attention.matmul import attention


def slowed(share: float) -> Callable[..., Tensor]:
    """The baseline, which then keeps the processor busy for this share of its own time.

    The share is of wall time, so that what disturbs the call makes the wait longer in proportion. It is for CPUs alone:
    the wait would not keep another device busy.
    """

    def function(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        started = perf_counter()
        output = attention(query, key, value, **options)
        until = started + (1 + share) * (perf_counter() - started)
        while perf_counter() < until:
            pass
        return output

    return function


_ballast = [bytearray(random.randrange(1, 2**16)) for _ in range(256)]
"""Blocks of random size, so that memory is laid out otherwise in each process, as it is where implementations import
different libraries."""

plain = slowed(0.0)
"""The identical one: the same wrapper without a wait, so that nothing but the wait tells it from the others."""
slower_3 = slowed(0.03)
slower_5 = slowed(0.05)
slower_10 = slowed(0.10)
