"""The formula itself: no option, no keys, every rank."""

from __future__ import annotations

from suite.contracts.attention.cases.case import Case


def plain() -> list[Case]:
    """Neither mask nor option: the core that nobody may decline."""
    return [
        Case("plain/small", "the definition, nothing else"),
        Case("plain/self_attention", "as many queries as keys", queries=9, keys=9),
        Case("plain/one_head", "a single head of a single item", batch=1, heads=1),
        Case("plain/many_items", "batch items and heads are not mixed up when their counts differ", batch=5, heads=3),
        Case(
            "plain/batch_equals_queries",
            "axes of equal size are not confused",
            batch=6,
            heads=6,
            queries=6,
            keys=6,
            width=6,
        ),
        Case(
            "plain/heads_equal_queries",
            "(b, s, h, e) read as (b, h, s, e) gives a right shape",
            heads=4,
            queries=4,
            keys=4,
        ),
        Case("plain/repeated_queries", "equal queries have equal answers", draw="repeated_queries"),
        Case("plain/ordinary", "an ordinary layer: 4 heads of width 64", heads=4, queries=64, keys=64, width=64),
    ]


def no_keys() -> list[Case]:
    """No keys: zeros. No queries: an empty output. No items: an empty output."""
    return [
        Case("no_keys/plain", "s = 0 answers zeros", keys=0),
        Case("no_keys/value_width", "s = 0: zeros of the values' width", keys=0, value_width=3),
        Case("no_keys/rank_2", "s = 0 without leading axes", keys=0, rank=2, batch=1, heads=1),
        Case("no_keys/no_queries_value_width", "l = 0: no row of the values' width", queries=0, value_width=3),
        Case("no_keys/gradient", "gradients of nothing are zeros", keys=0, gradient_of=("query", "key", "value")),
        Case("no_keys/no_queries", "l = 0 answers an empty output", queries=0),
        Case("no_keys/no_items", "a batch of 0 answers an empty output", batch=0),
    ]


def ranks() -> list[Case]:
    """Rank 2, 3 and 4."""
    return [
        Case("ranks/two", "l e alone", rank=2, batch=1, heads=1),
        Case("ranks/three", "h l e", rank=3, batch=1, heads=3),
        Case("ranks/three_as_many_rows", "h equals l", rank=3, batch=1, heads=5, keys=5),
        Case("ranks/two_long", "rank 2 across tiles", rank=2, batch=1, heads=1, queries=70, keys=140),
        Case("ranks/three_value_width", "rank 3 with another value width", rank=3, batch=1, heads=3, value_width=2),
    ]
