"""Ceilings of this machine: the rate of a matrix product in a dtype, and of a copy through memory."""

from __future__ import annotations

from functools import partial

import torch

from attnsuite.benchmark.measure import measure

SIZES = {"cpu": (1536, 2**28), "cuda": (8192, 2**30)}
"""By kind of device: the side of the multiplied matrices, from which on the rate does not grow, and the bytes of the
copy, more than the caches hold."""
BUDGET = 0.5
"""Seconds of products, and of copies."""


def ceilings(dtype: str, device: str, sizes: tuple[int, int] | None = None, budget: float = BUDGET) -> dict[str, float]:
    """FLOPs per second of a matrix product, and bytes per second read and written by a copy: the best of all samples.

    It holds for the present number of PyTorch's threads.
    """
    side, size = sizes or SIZES[torch.device(device).type]
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(side, side, generator=random).to(device, getattr(torch, dtype)) for _ in range(2))
    product = torch.empty_like(left)
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    multiplied = measure(partial(torch.mm, left, right, out=product), device=device, budget=budget, fewest=4)
    copied = measure(partial(target.copy_, source), device=device, budget=budget, fewest=4)
    return {"flops": 2.0 * side**3 / min(multiplied), "bytes": 2.0 * size / min(copied)}
