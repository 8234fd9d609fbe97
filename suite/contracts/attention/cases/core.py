"""The formula itself: no option, no keys, every rank."""

from __future__ import annotations

from attnsuite.contracts.attention.cases.case import AttentionCase


def plain() -> list[AttentionCase]:
    """Neither mask nor option: the core, which no implementation may decline."""
    return [
        AttentionCase("plain/small", "the definition, nothing else"),
        AttentionCase("plain/self_attention", "as many queries as keys", queries=9, keys=9),
        AttentionCase("plain/one_head", "a single head of a single item", batch=1, heads=1),
        AttentionCase(
            "plain/many_items", "batch items and heads are not mixed up when their counts differ", batch=5, heads=3
        ),
        AttentionCase(
            "plain/batch_equals_queries",
            "axes of equal size are not confused",
            batch=8,
            heads=8,
            queries=8,
            keys=8,
            width=8,  # of the core: tensor cores take rows of 16 bytes alone
        ),
        AttentionCase(
            "plain/heads_equal_queries",
            "(b, s, h, e) read as (b, h, s, e) gives a right shape",
            heads=4,
            queries=4,
            keys=4,
        ),
        AttentionCase("plain/repeated_queries", "equal queries have equal answers", draw="repeated_queries"),
        AttentionCase(
            "plain/ordinary", "an ordinary layer: 4 heads of width 64", heads=4, queries=64, keys=64, width=64
        ),
    ]


def no_keys() -> list[AttentionCase]:
    """No keys: zeros. No queries: an empty output. No items: an empty output."""
    return [
        AttentionCase("no_keys/plain", "s = 0 answers zeros", keys=0),
        AttentionCase("no_keys/value_width", "s = 0: zeros of the values' width", keys=0, value_width=3),
        AttentionCase("no_keys/rank_2", "s = 0 without leading axes", keys=0, rank=2, batch=1, heads=1),
        AttentionCase("no_keys/no_queries_value_width", "l = 0: no row of the values' width", queries=0, value_width=3),
        AttentionCase(
            "no_keys/gradient", "gradients of nothing are zeros", keys=0, gradient_of=("query", "key", "value")
        ),
        AttentionCase("no_keys/no_queries", "l = 0 answers an empty output", queries=0),
        AttentionCase("no_keys/no_items", "a batch of 0 answers an empty output", batch=0),
    ]


def ranks() -> list[AttentionCase]:
    """Rank 2, 3 and 4."""
    return [
        AttentionCase("ranks/two", "l e alone", rank=2, batch=1, heads=1),
        AttentionCase("ranks/three", "h l e", rank=3, batch=1, heads=3),
        AttentionCase("ranks/three_as_many_rows", "h equals l", rank=3, batch=1, heads=5, keys=5),
        AttentionCase("ranks/two_long", "rank 2 across tiles", rank=2, batch=1, heads=1, queries=70, keys=140),
        AttentionCase(
            "ranks/three_value_width", "rank 3 with another value width", rank=3, batch=1, heads=3, value_width=2
        ),
    ]
