"""What this machine can reach: the rate of a matrix product in a dtype, and of a copy through memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from attnsuite.benchmark.measure import measure


@dataclass(frozen=True)
class Sizes:
    """What is multiplied and copied to find the ceilings, and for how long."""

    side: int
    """Rows and columns of the matrices that are multiplied: large enough for the rate not to grow any more."""
    copied: int
    """Bytes that are copied: more than the caches hold that one program has to itself."""
    budget: float = 0.5
    """Seconds of products, and as many of copies."""


SIZES = {"cpu": Sizes(1536, 2**28), "cuda": Sizes(8192, 2**30)}
"""By kind of device."""


def ceilings(dtype: str, device: str, sizes: Sizes | None = None) -> dict[str, float]:
    """FLOPs per second of a matrix product, and bytes per second read and written by a copy: the best of all samples.

    The best, because a ceiling is what could be reached. It holds for the threads that PyTorch has now.
    """
    sizes = sizes or SIZES[torch.device(device).type]
    side, size = sizes.side, sizes.copied
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(side, side, generator=random).to(device, getattr(torch, dtype)) for _ in range(2))
    product = torch.empty_like(left)
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    multiplied = measure(partial(torch.mm, left, right, out=product), device=device, budget=sizes.budget, fewest=4)
    copied = measure(partial(target.copy_, source), device=device, budget=sizes.budget, fewest=4)
    return {"flops": 2.0 * side**3 / min(multiplied), "bytes": 2.0 * size / min(copied)}
