"""Cases that combine features: a covering array of their levels, in which every pair meets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from attnsuite.cases import Case
from attnsuite.cases.contract import CoveringArray, LocalMutant
from attnsuite.cases.covering import Contradiction, Row, Space
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.attention.cases.combined import last_column_unwritten
from attnsuite.contracts.blocks.kv_cache_attention.case import LAYOUTS, CacheCase
from attnsuite.contracts.blocks.kv_cache_attention.computation import Cached, Places
from attnsuite.contracts.varlen_attention.mutants import loses_a_key
from attnsuite.model import COMBINED, DTYPES

LEVELS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "lengths": {
        "ragged": {"valid": (5, 9)},
        "equal": {"valid": (16, 16)},
        "one_item": {"valid": (31,)},
        "empty_item": {"valid": (0, 33, 1)},
        "tiles": {"valid": (128, 63, 129)},
    },
    "queries": {"one_query": {}, "four_queries": {"queries": 4}, "many_queries": {"queries": 33}},
    "append": {"no_append": {}, "append": {"append": True}},
    "cache": {
        "dense": {}, "page_1": {"page": 1}, "page_5": {"page": 5}, "page_16": {"page": 16}, "page_256": {"page": 256},
    },
    "storage": {"as_query": {}, "int8": {"quantised": True}},
    "unwritten": {"finite": {}, "nan": {"unwritten": math.nan}},
    "heads": {
        "equal_heads": {}, "grouped": {"heads": 6, "key_heads": 2}, "one_key_head": {"heads": 4, "key_heads": 1},
    },
    "width": {"e8": {}, "e64": {"width": 64}, "e72": {"width": 72}, "e128": {"width": 128}},
    "window": {
        "no_window": {}, "window_left": {"window": (3, 0)}, "window_own": {"window": (0, 0)},
        "window_both": {"window": (6, 2)},
    },
    "direction": {"causal": {}, "bidirectional": {"is_causal": False}},
    "scale": {"default_scale": {}, "large_scale": {"scale": 0.6}, "negative_scale": {"scale": -0.2}},
    "layout": {layout: {"layout": layout} for layout in LAYOUTS},
    "dtype": {dtype: {"dtypes": (dtype,)} for dtype in ("float32", *(d for d in DTYPES if d != "float32"))},
}  # fmt: skip
"""The levels of each factor as fields of a case, the usual one first."""
CONTRADICTIONS = (
    Contradiction("the scale of wide vectors would leave one key alone", {"width": ("e72", "e128"),
        "scale": ("large_scale",)}),
)  # fmt: skip
SPACE = Space({name: tuple(levels) for name, levels in LEVELS.items()}, CONTRADICTIONS)
FREE = 40
"""Slots that are free behind the longest item: more than any row appends."""


def case(row: Row) -> Case:
    """The case that combines these levels; its name says which are unusual."""
    fields: dict[str, Any] = {}
    for name, level in row.items():
        fields |= LEVELS[name][level]
    fields["capacity"] = max(fields["valid"]) + FREE
    return CacheCase(f"{COMBINED}/{SPACE.write(row)}", "features meet", **fields)


@cache
def array() -> CoveringArray:
    """The array of the contract, without triples."""
    return CoveringArray(SPACE, case, local_mistakes, Path(__file__).parent)


def _all_but_last(cache: Tensor, places: Places, new: Tensor) -> Tensor:
    """The new keys or values; the last number of the last token stays what it was in the cache."""
    changed = new.clone()
    if new.numel():
        changed[-1, -1, -1, -1] = cache[places][-1, -1, -1, -1]
    return changed


def local_mistakes() -> list[LocalMutant]:
    """A key that is lost, an output that is not written, and a number that is not appended."""
    appending = {"new": lambda new, cache, places: _all_but_last(cache, places, new)}
    attended = mutants(
        Cached,
        attend={
            "one_query_loses_a_key": Mutation("one query of each item loses the key it prefers",
                lambda item, totals: loses_a_key(item), dtypes=DTYPES),
            "last_column_is_not_written": Mutation("the last column of the output is not written",
                with_result(last_column_unwritten), dtypes=DTYPES),
        },
    )  # fmt: skip
    written = mutants(
        Cached,
        append_keys={"last_new_key_is_cut": Mutation("the last number of the last new key is not written",
            with_arguments(**appending), dtypes=DTYPES)},
        append_values={"last_new_value_is_cut": Mutation("the last number of the last new value is not written",
            with_arguments(**appending), dtypes=DTYPES)},
    )  # fmt: skip
    return [*map(LocalMutant, attended), *(LocalMutant(mutant, frozenset({"append"})) for mutant in written)]
