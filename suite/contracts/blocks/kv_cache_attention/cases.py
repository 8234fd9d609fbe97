"""The cases of the contract `kv_cache_attention`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from attnsuite.cases import Calls, Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.contract import QUICK, CoveringArray, LocalMutant
from attnsuite.cases.covering import Contradiction, Row, Space
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE
from attnsuite.contracts.attention.cases.combined import last_column_unwritten
from attnsuite.contracts.blocks.kv_cache_attention.case import LAYOUTS, CacheCase, StepsCase
from attnsuite.contracts.blocks.kv_cache_attention.mutants import Cached, Places
from attnsuite.contracts.varlen_attention.mutants import loses_a_key
from attnsuite.model import COMBINED, DTYPES

case = CacheCase
append = partial(CacheCase, append=True)
paged = partial(CacheCase, page=4)
int8 = partial(CacheCase, quantised=True)
NAN = float("nan")


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/two_items", "one new token of each item, equal lengths", valid=(7, 7)),
        case("plain/one_item", "a single item", valid=(9,)),
        case("plain/one_key", "one slot is valid: the output is its value", valid=(1, 1)),
        *_lengths(),
        *_appends(),
        *_pages(),
        *_int8(),
        *_options(),
        *_layouts(),
        *_steps(),
        *_bad_input(),
        *array().cases(QUICK, 0),
    ]


def _lengths() -> list[Case]:
    """Lengths, unwritten slots and several queries."""
    return [
        case("lengths/split", "a long item next to a short one, as split between thread blocks", valid=(513, 5),
            capacity=600, dtypes=PRECISE),
        case("no_tokens/one_item", "an item without tokens: zeros", valid=(0, 6)),
        case("no_tokens/no_item", "only items without tokens", valid=(0, 0)),
        case("no_tokens/no_batch", "no items", valid=()),
        case("no_tokens/no_query", "no new tokens", queries=0),
        case("no_tokens/fewer_keys", "more queries than keys: the first attend to nothing", valid=(2, 5), queries=4),
        case("nan_unwritten/dense", "NaN in slots that are not written", valid=(5, 9), unwritten=NAN),
        case("nan_unwritten/infinite", "infinity in slots that are not written", unwritten=float("inf")),
        paged("nan_unwritten/paged", "NaN in free pages and in the rest of the last page", unwritten=NAN),
        case("lengths/last_key_of_each", "the last query of each item sees its last key", valid=(5, 11), queries=4),
        case("lengths/prefill", "as many queries as keys", valid=(6, 6), queries=6),
        case("lengths/queries_in_tiles", "queries across a tile of 64", valid=(150, 97), capacity=160, queries=70,
            dtypes=PRECISE),
    ]  # fmt: skip


def _appends() -> list[Case]:
    """New keys and values in dense caches."""
    return [
        append("append/ragged", "each item has its own end", valid=(3, 10, 6)),
        append("append/at_0", "into empty caches", valid=(0, 0)),
        append("append/to_capacity", "into the last slots", valid=(11, 9)),
        append("append/chunk", "four tokens at once", valid=(2, 7), queries=4),
        append("append/prefill", "the first tokens of all items", valid=(0, 0), queries=9),
        append("append/no_token", "nothing is appended", queries=0),
    ]


def _pages() -> list[Case]:
    """Pools of pages."""
    return [
        paged("paged/usual", "pages of 4 in any order", valid=(5, 9)),
        paged("paged/edges", "a last page that is full, has one slot, lacks one", valid=(8, 5, 7)),
        paged("paged/page_of_256", "pages of 256", page=256, valid=(300, 20, 256), capacity=512,
            dtypes=PRECISE),
        paged("paged/shared_prefix", "two items begin with the same two pages", valid=(10, 9), shared=2),
        paged("paged/shared_by_three", "three items begin with one page", valid=(5, 12, 4), shared=1),
        paged("append/paged_page_edge", "a token begins a page, another fills one", append=True, valid=(8, 7, 4)),
        paged("append/paged_across_pages", "tokens across an edge", append=True, valid=(6, 3), queries=5),
        paged("append/paged_several_pages", "tokens in four pages", append=True, valid=(3, 0), queries=13,
            capacity=16),
        paged("paged/append_after_shared", "after pages that both items have", append=True, valid=(8, 9), shared=2,
            queries=2),
    ]  # fmt: skip


def _int8() -> list[Case]:
    """Caches of int8 with a scale for each token and head."""
    both = ("key", "value")
    halves = dict.fromkeys(both, lambda x: np.array([127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.0]) + 0 * x)
    return [
        int8("int8/dense", "numbers times scales"),
        int8("int8/append", "a new vector has a scale of its own", append=True),
        int8("size/int8", "vectors of 128 features, whose largest decides", append=True, width=128),
        int8("grouped/int8_append", "fewer heads than the query's", append=True, heads=6, key_heads=3, queries=3),
        int8("int8/halves", "numbers halfway between two integers are rounded to the even one", append=True,
            replaced=halves),
        int8("int8/zeros", "a vector of zeros has a scale of 0", append=True,
            replaced=dict.fromkeys(both, lambda x: 0 * x)),
        int8("int8/paged_append", "across an edge of pages", page=4, append=True, valid=(6, 3), queries=5),
        int8("grouped/int8_paged", "pages of fewer heads", page=4, append=True, heads=4, key_heads=2),
        int8("nan_unwritten/int8", "scales of NaN in slots that are not written", page=4, unwritten=NAN, append=True),
        StepsCase("again/int8_decode", "token by token", valid=(0, 0), quantised=True, append=True, chunks=(3, 1, 1),
            page=4, dtypes=PRECISE),
    ]  # fmt: skip


def _options() -> list[Case]:
    """Heads, window, scale, and attention in both directions."""
    return [
        case("grouped/three", "groups of two on three heads", heads=6, key_heads=3, queries=2),
        *(case(f"window/left_{left}", f"{left} keys before its own", window=(left, 0), valid=(7, 12))
            for left in (0, 1, 4)),
        case("window/unbounded", "neither side is bounded", window=(None, None), queries=3),
        case("window/causal_right", "is_causal wins over a window to the right", window=(2, 3), queries=4),
        case("bidirectional/window", "both sides, without is_causal", window=(3, 1), queries=5, is_causal=False),
        case("bidirectional/window_right", "the right side alone", window=(None, 2), queries=5, is_causal=False, valid=(6, 11)),
        paged("window/hides_pages", "a window that hides whole pages", window=(3, 0), valid=(40, 22), capacity=40,
            queries=2),
        case("scale/zero", "a scale of 0: the mean of the values", scale=0.0),
        case("scale/negative", "a scale below 0", scale=-0.3, queries=2),
        case("scale/large", "scores whose powers overflow", scale=40.0, dtypes=PRECISE),
        case("bidirectional/usual", "all queries see all keys", is_causal=False, queries=4),
        case("size/wide", "a width of 128", width=128),
        case("lengths/tiles_of_1024", "keys across several tiles of 1,024", valid=(2100,), capacity=2200, heads=1, width=16,
            dtypes=PRECISE),
    ]  # fmt: skip


@dataclass(frozen=True)
class RepeatedCase(CacheCase):
    """Three calls of equal sizes and different numbers; those of the third are in the tensors of the second."""

    def calls(self, dtype: str) -> Calls:
        first, second, third = (self.call(dtype, f" {number}") for number in (1, 2, 3))
        return first, second, replace(third, same_storage=True)


def _layouts() -> list[Case]:
    """Memory layouts, and several calls."""
    return [
        append("layout/heads_first", "views of b g s e, as other libraries store caches", layout="heads_first",
            queries=2),
        append("layout/with_gaps", "from the last axis to the first, with gaps", layout="with_gaps", queries=2),
        paged("layout/paged", "pages with heads first", layout="heads_first", append=True, queries=2),
        RepeatedCase("again/usual", "other numbers, and others yet in the same tensors", dtypes=PRECISE),
        RepeatedCase("again/append", "the same, with new tokens", append=True, dtypes=PRECISE),
        RepeatedCase("again/paged", "another block table in the same tensor", page=4, dtypes=PRECISE),
    ]  # fmt: skip


def _steps() -> list[Case]:
    """Prefill in chunks and decoding: each call finds the caches as the one before leaves them."""
    steps = partial(StepsCase, valid=(0, 0), append=True, dtypes=PRECISE)
    return [
        steps("again/decode", "token by token", chunks=(1, 1, 1, 1)),
        steps("again/prefill", "a prefill in chunks, then two tokens", chunks=(4, 3, 1, 1)),
        steps("again/ragged", "items of different lengths go on", valid=(5, 1, 8), chunks=(1, 2, 1)),
        steps("again/decode_paged", "across pages", chunks=(3, 3, 1, 1, 1), page=4),
        steps("again/window", "with a window", chunks=(4, 1, 1), window=(2, 0)),
    ]


def _bad_input() -> Iterator[Case]:
    """Bad input, without new tokens except where these are bad: a refused call writes nothing."""

    def bad(name: str, why: str, **unusual: Any) -> Case:
        return BadInputCase(case(f"bad_input/{name}", why, **unusual))

    yield bad("length_negative", "a length of −1", replaced={"cache_seqlens": np.array([5, -1], np.int32)})
    yield bad("length_too_long", "13 valid slots of 12", replaced={"cache_seqlens": np.array([5, 13], np.int32)})
    yield bad("length_too_long_paged", "13 valid slots of 3 pages of 4", page=4,
        replaced={"cache_seqlens": np.array([5, 13], np.int32)})  # fmt: skip
    yield bad("lengths_of_others", "3 lengths of 2 items", replaced={"cache_seqlens": np.array([5, 9, 5], np.int32)})
    yield bad("full", "a token for a full cache", valid=(5, 12), append=True)
    yield bad("full_chunk", "four tokens for three free slots", valid=(5, 9), append=True, queries=4)
    yield bad("full_paged", "a token for full pages", valid=(5, 12), append=True, page=4)
    yield bad("page_negative", "page −1 among those of an item", page=4, replaced={"block_table": _with_page(-1)})
    yield bad("page_too_large", "a page that the pool does not have", page=4, replaced={"block_table": _with_page(99)})
    yield bad("page_missing", "no page for a new token", page=4, valid=(5, 8), append=True,
        replaced={"block_table": _with_page(-1, 2)})  # fmt: skip
    yield bad("table_of_others", "a block table with 1 row for 2 items", page=4, valid=(7, 7),
        replaced={"block_table": lambda table: table[:1]})  # fmt: skip
    yield bad("heads", "3 query heads on 2 key heads", heads=3, key_heads=2)
    yield bad("width", "a query of width 8 and keys of width 6", replaced={"key_cache": lambda x: x[..., :6]})
    yield bad("items", "caches of 3 items for 2", replaced=dict.fromkeys(("key_cache", "value_cache"), _longer))
    yield bad("slots", "12 slots of keys and 9 of values", valid=(5, 7), replaced={"value_cache": lambda x: x[:, :9]})
    yield bad("key_alone", "a key without a value", append=True, replaced={"value": np.array(None)})
    yield bad("new_tokens", "2 new keys for 1 query", append=True,
        replaced={name: lambda x: np.repeat(x, 2, 1) for name in ("key", "value")})  # fmt: skip
    yield bad("window", "a window of −1 keys to the left", window=(-1, 0))
    yield bad("window_of_three", "a window of three numbers", window=(1, 0, 0))
    scaled = partial(bad, quantised=True)
    yield bad("int8_without_scales", "a key cache of int8 without scales",
        replaced={"key_cache": lambda x: x.astype(np.int8)})  # fmt: skip
    yield scaled("scales_of_keys_alone", "scales of keys alone", replaced={"value_scales": np.array(None)})
    yield scaled("scales_of_floats", "a scale for each token and head of float caches",
        replaced={"key_cache": lambda x: x.astype(np.float64)})  # fmt: skip
    yield scaled("scales_of_tokens", "a scale for each token, without heads",
        replaced={"key_scales": lambda x: x[..., 0]})  # fmt: skip
    yield bad("integers", "a key cache of integers", replaced={"key_cache": lambda x: x.astype(np.int32)})


def _with_page(number: int, place: int = 1) -> Any:
    def change(table: Any) -> Any:
        changed = table.copy()
        changed[1, place] = number
        return changed

    return change


def _longer(x: Any) -> Any:
    return np.concatenate([x, x[:1]])


# Cases that combine features: a covering array of their levels, in which every pair meets

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


def combined_case(row: Row) -> Case:
    """The case that combines these levels; its name says which are unusual."""
    fields: dict[str, Any] = {}
    for name, level in row.items():
        fields |= LEVELS[name][level]
    fields["capacity"] = max(fields["valid"]) + FREE
    return CacheCase(f"{COMBINED}/{SPACE.write(row)}", "features meet", **fields)


@cache
def array() -> CoveringArray:
    """The array of the contract, without triples."""
    return CoveringArray(SPACE, combined_case, local_mistakes, Path(__file__).parent)


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
