"""Bad input, which must raise an error. Its tests run in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.contracts.attention.cases.documents import attention

Shapes = Mapping[str, tuple[int, ...]]
USUAL: Shapes = {"query": (2, 4, 5, 8), "key": (2, 4, 7, 8), "value": (2, 4, 7, 8)}


class BadInput(BadInputCase):
    """Shapes or options that must be refused."""

    def __init__(self, name: str, why: str, shapes: Shapes, options: Mapping[str, Any] | None = None) -> None:
        unusual: dict[str, Any] = {**USUAL, **shapes}
        case = replace(attention(name, why, **unusual), options=options or {})
        super().__init__(case)


def bad_input() -> list[Case]:
    """Bad input raises before any work."""
    return [
        BadInput("bad_input/widths_differ", "a query of width 8 and keys of width 12", {"key": (2, 4, 7, 12)}),
        BadInput("bad_input/narrow_keys", "a query of width 8 and keys of width 4", {"key": (2, 4, 7, 4)}),
        BadInput("bad_input/more_keys_than_values", "9 keys with 7 values", {"key": (2, 4, 9, 8)}),
        BadInput("bad_input/more_values_than_keys", "7 keys with 9 values", {"value": (2, 4, 9, 8)}),
        BadInput("bad_input/batches_differ", "a batch of 2 queries and 3 keys",
            {"key": (3, 4, 7, 8), "value": (3, 4, 7, 8)}),
        *lower_ranks(),
        *under_options(),
    ]  # fmt: skip


def of_rank(rank: int, **unusual: tuple[int, ...]) -> Shapes:
    """The usual shapes, and unusual ones, without their leading axes."""
    return {name: shape[4 - rank :] for name, shape in {**USUAL, **unusual}.items()}


def lower_ranks() -> list[Case]:
    """Bad input of rank 4, in lower ranks."""
    rows = (
        ("more_keys_than_values", "9 keys with 7 values", {"key": (2, 4, 9, 8)}),
        ("more_values_than_keys", "7 keys with 9 values", {"value": (2, 4, 9, 8)}),
        ("widths_differ", "a query of width 8 and keys of width 12", {"key": (2, 4, 7, 12)}),
    )
    return [
        *(BadInput(f"bad_input/{name}_in_rank_{rank}", f"{says}, in rank {rank}", of_rank(rank, **unusual))
            for rank in (2, 3) for name, says, unusual in rows),
        BadInput("bad_input/heads_differ_in_rank_3", "3 query heads on 4 key heads, in rank 3",
            of_rank(3, query=(2, 3, 5, 8))),
    ]  # fmt: skip


def under_options() -> list[Case]:
    """The same bad input with options, whose paths need the same checks."""
    options: dict[str, dict[str, Any]] = {"causal": {"is_causal": True}, "scale": {"scale": 0.5},
        "window": {"window": (2, 1)}, "groups": {"enable_gqa": True}}  # fmt: skip
    kinds = (("widths_differ", "a query of width 8 and keys of width 12", {"key": (2, 4, 7, 12)}, (5, 7)),
        ("lengths_differ", "9 keys with 7 values", {"key": (2, 4, 9, 8)}, (5, 9)))  # fmt: skip
    return [
        *(BadInput(f"bad_input/{name}_with_{option}", f"{says}, with {option}", shapes, passed)
            for name, says, shapes, _ in kinds for option, passed in options.items()),
        *(BadInput(f"bad_input/{name}_with_a_mask", f"{says}, with a mask", {**shapes, "attn_mask": mask})
            for name, says, shapes, mask in kinds),
        BadInput("bad_input/widths_differ_for_one_query", "one query of width 8 and keys of width 12",
            {"key": (2, 4, 7, 12), "query": (2, 4, 1, 8)}),
        BadInput("bad_input/lengths_differ_for_one_query", "9 keys with 7 values, for one query",
            {"key": (2, 4, 9, 8), "query": (2, 4, 1, 8)}),
    ]  # fmt: skip
