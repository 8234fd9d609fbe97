"""Cases that combine features: a covering array of their levels, in which every pair meets and every fused triple.

The array is data, in two files: rows in which every pair of levels meets, and more rows for the triples. Features name
their levels in their own files; after a change of levels, `python -m attnsuite.conformance.drawing attention` draws anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnsuite.cases import Case
from attnsuite.cases.contract import FULL, QUICK, CoveringArray
from attnsuite.cases.covering import Row, Space, drawn
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.combined.levels import LEVELS
from attnsuite.contracts.attention.cases.dropout import kept
from attnsuite.contracts.attention.feature import Feature, features
from attnsuite.model import COMBINED

PAIRS, TRIPLES = (Path(__file__).with_name(f"{name}.txt") for name in ("pairs", "triples"))
"""A row in each line, written as its unusual levels: those in which all pairs meet, and those that triples need more."""
FUSED = tuple(("size", "width", visibility, "gradient") for visibility in ("mask", "causal", "window"))
"""What kernels fuse: every triple of levels among these meets."""
LACKING = (
    ("gradients", "value widths", "dropout", "masks", "windows"),
    ("value widths", "dropout", "masks", "windows"),
    ("dropout", "masks", "windows"),
    ("masks", "windows"),
    ("windows",),  # PyTorch's SDPA
    ("masks",),  # FlashAttention
)
"""What implementations lack together: each is asked about every pair of the levels that it has."""
ALL_LEVELS = (*LEVELS, *(each.levels for each in features()))
"""What is combined: first what is no feature's, then by feature."""


def space(of_features: Sequence[Feature]) -> Space:
    """What these features and the others' levels can combine. ValueError, which names the file, for an unknown word."""
    combined = (*LEVELS, *(each.levels for each in of_features))
    factors = {name: tuple(levels) for each in combined for name, levels in each.factors.items()}
    for feature in of_features:
        if said := _unknown(feature, factors):
            raise ValueError(f"suite/contracts/attention/features/{feature.name}: {said}")
    return Space(
        factors,
        [one for each in combined for one in each.contradictions],
        FUSED,
        [[name for each in combined if each.unsupported in lacking for name in each.factors] for lacking in LACKING],
    )


def _unknown(feature: Feature, factors: Mapping[str, Collection[str]]) -> str:
    """What the feature's levels name that there is not, or empty."""
    if feature.levels.unsupported not in {"", *LACKING[0]}:
        return f"implementations lack {feature.levels.unsupported!r}; they may lack: {', '.join(LACKING[0])}"
    return next(filter(None, (each.unknown(factors) for each in feature.levels.contradictions)), "")


SPACE = space(features())


def rows(profile: str = FULL, seed: int = 0) -> list[Row]:
    """The array that is asked: in the profile `quick` every pair meets, in `full` every fused triple, too.

    Seed 0 is the one that is kept; another seed draws another array. ValueError where the kept one does not fit the
    levels.
    """
    if seed:
        return list(_drawn(seed, profile == FULL))
    files = (PAIRS,) if profile == QUICK else (PAIRS, TRIPLES)
    return [SPACE.read(line) for file in files for line in file.read_text().splitlines()]


@lru_cache(maxsize=4)  # drawing takes seconds, and one check asks for the same array several times
def _drawn(seed: int, fused: bool) -> tuple[Row, ...]:
    return tuple(drawn(SPACE, seed, fused=fused))


def case(row: Row) -> Case:
    """The case that combines these levels; its name says which are unusual."""
    values = {name: levels[row[name]] for each in ALL_LEVELS for name, levels in each.factors.items()}
    given: dict[str, Any] = {}
    for each in ALL_LEVELS:
        given |= each.arguments(values)
    levels = SPACE.write(row)
    one = AttentionCase(f"{COMBINED}/{levels}", "features meet", **given)
    return kept(one.name, one.why, one, one.dtypes) if row["dropout"] == "dropout" else one


def array() -> CoveringArray:
    """The array of the contract."""
    from attnsuite.contracts.attention.cases.combined.mistakes import local_mistakes  # needs all features

    return CoveringArray(SPACE, rows, case, local_mistakes, (PAIRS, TRIPLES))
