"""Counts in patterns of kept and dropped places: how many, how evenly, how independently.

A pattern is an array of booleans, True where a place is kept, masked (`numpy.ma`) where no value is possible.
"""

from collections.abc import Callable, Sequence

import numpy as np

from attnsuite.judging.compare import Array
from attnsuite.judging.shares import Share, Spread, Statistic, exactly

Seeds = Sequence[int | None]
"""Of each call; None continues where the call before left the random source."""
Judge = Callable[[Sequence[Array], Seeds, float], list[Statistic]]
"""Counts in the patterns of calls with these seeds and this probability to drop a place."""

WEIGHTS = ("batch items", "heads", "queries", "keys")
"""The axes of a pattern of weights, b h l s."""
LAGS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances of compared places: neighbours, and whole tiles."""
TILE = 16
"""The number of keys that are counted together: the smallest tile of kernels."""


def kept_share(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How many weights are kept."""
    (pattern,) = patterns
    return [_share("weights are kept", pattern, p)]


def everywhere(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How many weights are kept, in total and in each part of each axis: a head, an item, sixteen keys."""
    (pattern,) = patterns
    statistics = [_share("weights are kept", pattern, p)]
    for axis, name in enumerate(WEIGHTS[-pattern.ndim :]):
        size = TILE if name == "keys" else 1
        for start in range(0, pattern.shape[axis], size):
            part = np.moveaxis(pattern, axis, 0)[start : start + size]
            statistics.append(_share(f"weights of {name} from {start} on are kept", part, p))
    return [*statistics]


def _share(says: str, places: Array, p: float) -> Share:
    return exactly(says, int(places.sum()), int(np.ma.count(places)), 1 - p)


def share_and_neighbours(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How many weights are kept everywhere, and how often places some steps apart agree."""
    return [*everywhere(patterns, seeds, p), *neighbours(patterns, seeds, p)]


def rows_vary(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How much the count per row varies."""
    (pattern,) = patterns
    return [Spread("counts per row", pattern.sum(-1), pattern.shape[-1], 1 - p)]


def columns_vary(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How much the count per column varies."""
    (pattern,) = patterns
    return [Spread("counts per column", pattern.sum(-2), pattern.shape[-2], 1 - p)]


def neighbours(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """How often places some steps apart agree, along each axis and for many distances."""
    (pattern,) = patterns
    says, independent = "places of {} {} apart agree", p * p + (1 - p) ** 2
    return [*agreement(pattern, WEIGHTS, LAGS, says, independent, independent)]


def repeated(patterns: Sequence[Array], seeds: Seeds, p: float) -> list[Statistic]:
    """Calls with one seed keep the same; all others agree as often as independent draws do."""
    statistics: list[Statistic] = []
    for number, (pattern, seed) in enumerate(zip(patterns, seeds, strict=True)):
        for earlier, other in zip(patterns[:number], seeds[:number], strict=True):
            if seed is not None and seed == other:
                differ = int((pattern != earlier).sum())
                statistics.append(exactly("places differ between two calls with one seed", differ, pattern.size, 0.0))
            else:
                agree, share = int((pattern == earlier).sum()), p * p + (1 - p) ** 2
                statistics.append(exactly("places agree between two draws", agree, pattern.size, share))
                statistics += _shifted(earlier.ravel(), pattern.ravel(), share)
    return statistics


def _shifted(earlier: Array, later: Array, share: float) -> list[Share]:
    """How often two draws agree where one lies some places behind: streams of random numbers may overlap."""
    says = "places agree between two draws that are {} places apart"
    return [
        exactly(says.format(lag), int((ahead[lag:] == behind[:-lag]).sum()), ahead.size - lag, share)
        for lag in LAGS
        if 2 * lag <= earlier.size
        for ahead, behind in ((earlier, later), (later, earlier))
    ]


def agreement(
    pattern: Array, names: Sequence[str], lags: Sequence[int], says: str, low: float, high: float
) -> list[Share]:
    """How often places some steps apart are equal, along each axis; `says` gets its name and the distance."""
    statistics = []
    for axis, name in enumerate(names):
        places = np.moveaxis(pattern, axis, 0)
        for lag in (lag for lag in lags if 2 * lag <= len(places)):
            earlier_places, other = pairs(places, lag)
            even = earlier_places == other
            if total := int(np.ma.count(even)):
                statistics.append(Share(says.format(name, lag), int(even.sum()), total, low, high))
    return statistics


def pairs(places: Array, lag: int) -> Array:
    """Places that are `lag` steps apart along the first axis, in pairs that share none: 2 n lag, and the other axes."""
    whole = places[: len(places) // (2 * lag) * (2 * lag)]
    return whole.reshape(-1, 2, lag, *places.shape[1:]).swapaxes(0, 1)
