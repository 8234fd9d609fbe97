"""A family for each decision of the contract's table."""

from __future__ import annotations

from suite.contracts.attention.cases.case import Case
from suite.contracts.attention.cases.masks import Mask


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


def scale() -> list[Case]:
    """None is 1/√e; any float is legal."""
    return [
        Case("scale/default_of_width_2", "1/√2 is far from 1/2", width=2),
        Case("scale/default_of_width_64", "1/√64 is 1/8", width=64),
        Case("scale/default_of_odd_width", "the width is 13, not padded to 16", width=13),
        Case(
            "scale/default_with_other_value_width", "the query's width counts, not the value's", width=4, value_width=16
        ),
        Case("scale/one", "scale=1 leaves the products alone", scale=1.0),
        Case("scale/half", "an ordinary explicit scale", scale=0.5),
        Case("scale/small", "nearly uniform weights", scale=0.01),
        Case("scale/large", "one key takes nearly all", scale=3.0),
        Case("scale/zero", "scale 0 is not None: all weights are equal", scale=0.0),
        Case("scale/zero_masked", "scale 0: equal weights among the allowed keys", scale=0.0, mask=Mask()),
        Case("scale/zero_causal", "scale 0: 0 · −inf must not arise", scale=0.0, causal=True, queries=7),
        Case("scale/negative", "a negative scale prefers the least similar key", scale=-0.4),
        Case("scale/negative_large", "a large negative scale: the maximum is that of the scaled scores", scale=-40.0),
        Case("scale/negative_causal", "the maximum is taken after scaling", scale=-0.4, causal=True, queries=7),
        Case("scale/negative_float_mask", "the mask is added after scaling", scale=-0.7, mask=Mask("float")),
        Case("scale/with_float_mask", "the mask itself is not scaled", scale=0.25, mask=Mask("float")),
        Case("scale/with_groups", "scale and grouped heads together", scale=0.6, heads=4, key_heads=2),
    ]


def bool_mask() -> list[Case]:
    """True means may attend; broadcastable to … h l s."""
    return [
        Case("bool_mask/random", "True means may attend", mask=Mask()),
        Case("bool_mask/everything", "an all-True mask changes nothing", mask=Mask(pattern="everything")),
        Case("bool_mask/square", "rows are queries, columns are keys", queries=7, mask=Mask()),
        Case("bool_mask/causal_pattern", "a lower triangle", queries=7, mask=Mask(pattern="causal")),
        Case("bool_mask/single_key", "each query sees one key: its value comes out", mask=Mask(pattern="single")),
        Case("bool_mask/window", "a band around the diagonal", queries=16, keys=16, mask=Mask(pattern="window")),
        Case("bool_mask/early", "only the first keys", keys=40, mask=Mask(pattern="early")),
        Case("bool_mask/late", "only the last keys", keys=40, mask=Mask(pattern="late")),
        Case("bool_mask/rank_2", "one mask for all items and heads", mask=Mask(axes="ls")),
        Case("bool_mask/rank_1", "one mask for all queries too", mask=Mask(axes="s")),
        Case("bool_mask/rank_3", "a mask per head, aligned from the right", batch=3, mask=Mask(axes="hls")),
        Case("bool_mask/rank_3_as_many_items", "items and heads of one count", batch=3, heads=3, mask=Mask(axes="hls")),
        Case("bool_mask/per_item", "broadcast over heads", batch=3, heads=4, mask=Mask(axes="b1ls")),
        Case(
            "bool_mask/per_item_as_many_heads", "items and heads of one count", batch=3, heads=3, mask=Mask(axes="b1ls")
        ),
        Case("bool_mask/per_head", "broadcast over items", batch=3, heads=3, mask=Mask(axes="1hls")),
        Case(
            "bool_mask/per_row",
            "one entry opens a whole row",
            mask=Mask(axes="bhl1", pattern="everything"),
        ),
        Case("bool_mask/negative_scale", "hidden after scaling, whatever its sign", scale=-0.4, mask=Mask()),
        *(
            Case(f"bool_mask/axes_{axes}", "broadcast along what it lacks", batch=3, mask=Mask(axes=axes))
            for axes in ("1h1s", "h1s", "11s")
        ),
        Case(
            "bool_mask/triangle_across_tiles",
            "a triangle is a mask like any other",
            queries=70,
            keys=70,
            mask=Mask(pattern="causal"),
        ),
        Case(
            "bool_mask/decode_late",
            "decoding where whole tiles of the cache are hidden",
            queries=1,
            keys=520,
            mask=Mask(pattern="late"),
        ),
        Case(
            "bool_mask/decode_early",
            "decoding where the cache's end is hidden",
            queries=1,
            keys=520,
            mask=Mask(pattern="early"),
        ),
        Case(
            "bool_mask/padding",
            "lengths per item, the commonest mask",
            batch=4,
            mask=Mask(axes="b11s", pattern="padding"),
        ),
        Case(
            "bool_mask/rank_2_inputs",
            "masks for inputs without leading axes",
            rank=2,
            batch=1,
            heads=1,
            mask=Mask(axes="ls"),
        ),
        Case(
            "bool_mask/rank_3_inputs",
            "masks for inputs with one leading axis",
            rank=3,
            batch=1,
            heads=3,
            mask=Mask(axes="hls"),
        ),
        Case("bool_mask/grouped", "one mask per query head", heads=6, key_heads=2, mask=Mask()),
        Case("bool_mask/other_value_width", "mask and value width together", value_width=5, mask=Mask()),
        Case(
            "bool_mask/one_query",
            "decoding with a padded cache",
            queries=1,
            keys=33,
            mask=Mask(axes="b11s", pattern="padding"),
        ),
    ]


def float_mask() -> list[Case]:
    """Added to the scaled scores; may hold −inf."""
    return [
        Case("float_mask/random", "biases with some −inf", mask=Mask("float")),
        Case("float_mask/bias_only", "finite biases hide nothing", mask=Mask("float", "everything")),
        Case("float_mask/rank_2", "one bias for all items and heads", mask=Mask("float", axes="ls")),
        Case("float_mask/rank_1", "one bias for all queries too", mask=Mask("float", axes="s")),
        Case("float_mask/rank_3", "a bias per head, aligned from the right", batch=3, mask=Mask("float", axes="hls")),
        Case("float_mask/rank_3_as_many_items", "as many heads", batch=3, heads=3, mask=Mask("float", axes="hls")),
        Case("float_mask/per_item", "broadcast over heads", batch=3, heads=3, mask=Mask("float", axes="b1ls")),
        Case("float_mask/per_head", "broadcast over items", batch=3, heads=3, mask=Mask("float", axes="1hls")),
        *(Case(f"float_mask/axes_{axes}", "broadcast along what it lacks", batch=3, mask=Mask("float", "everything", axes)) for axes in ("1h1s", "h1s", "l1", "hl1", "b1l1", "1")),
        Case("float_mask/padding", "−inf beyond each length", batch=4, mask=Mask("float", "padding", "b11s")),
        Case("float_mask/per_row", "a constant per row cancels", mask=Mask("float", "everything", "bhl1")),
        Case("float_mask/causal_pattern", "a triangle of −inf", queries=7, mask=Mask("float", "causal")),
        Case("float_mask/square", "rows are queries, columns are keys", queries=7, mask=Mask("float")),
        Case("float_mask/single_key", "all but one key −inf", mask=Mask("float", "single")),
        Case("float_mask/rank_3_inputs", "a bias for inputs with one leading axis", rank=3, batch=1, heads=3, mask=Mask("float", axes="hls")),
        Case("float_mask/rank_2_inputs", "a bias for inputs without leading axes", rank=2, batch=1, heads=1, mask=Mask("float", axes="ls")),
        Case("float_mask/grouped", "one bias per query head", heads=6, key_heads=3, mask=Mask("float")),
        Case("float_mask/one_query", "decoding with a bias", queries=1, keys=33, mask=Mask("float", axes="b11s")),
    ]  # fmt: skip


def causal() -> list[Case]:
    """Query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s."""
    square = [
        Case(f"causal/square_{size}", "j ≤ i, the own position included", causal=True, queries=size, keys=size)
        for size in (1, 2, 5, 16, 33, 65)
    ]
    return [
        *square,
        Case("causal/more_queries", "later queries see all keys", causal=True, queries=9, keys=4),
        Case("causal/more_keys", "keys beyond the last query are never seen", causal=True, queries=4, keys=9),
        Case("causal/one_query", "a lone query sees the first key only", causal=True, queries=1, keys=6),
        Case("causal/one_key", "every query sees the one key", causal=True, queries=6, keys=1),
        Case("causal/many_more_queries", "upper left across several tiles", causal=True, queries=150, keys=40),
        Case("causal/many_more_keys", "upper left across several tiles", causal=True, queries=40, keys=150),
        Case("causal/repeated_queries", "rows differ by what they see alone", causal=True, queries=12, keys=12, draw="repeated_queries"),
        Case("causal/other_value_width", "causal and value width together", causal=True, queries=7, value_width=3),
        Case("causal/grouped", "causal and grouped heads together", causal=True, queries=9, keys=9, heads=4, key_heads=1),
        Case("causal/scaled", "causal with an explicit scale", causal=True, queries=8, keys=8, scale=0.9),
        Case("causal/rank_2", "causal without leading axes", causal=True, queries=6, keys=6, rank=2, batch=1, heads=1),
        Case("causal/rank_3", "causal with one leading axis", causal=True, queries=6, keys=6, rank=3, batch=1, heads=3),
    ]  # fmt: skip


def empty_row() -> list[Case]:
    """A query that may attend to nothing answers exact zeros."""
    return [
        Case("empty_row/bool", "all keys of some queries are False", mask=Mask(pattern="empty_rows")),
        Case("empty_row/float", "all keys of some queries are −inf", mask=Mask("float", "empty_rows")),
        Case("empty_row/one_bool", "one empty row of one head", mask=Mask(pattern="one_empty_row")),
        Case("empty_row/one_float", "one empty row of one head", mask=Mask("float", "one_empty_row")),
        Case("empty_row/all_bool", "nobody may attend to anything", mask=Mask(pattern="nothing")),
        Case("empty_row/all_float", "nobody may attend to anything", mask=Mask("float", "nothing")),
        Case("empty_row/per_row_bool", "one entry closes a whole row", mask=Mask(pattern="closed_rows", axes="bhl1")),
        Case("empty_row/per_row_float", "one −inf closes a whole row", mask=Mask("float", "closed_rows", "bhl1")),
        Case("empty_row/broadcast", "an all-False key padding", mask=Mask(pattern="nothing", axes="b11s")),
        Case("empty_row/rank_2", "empty rows in a mask for all heads", mask=Mask(pattern="empty_rows", axes="ls")),
        Case("empty_row/long_bool", "empty rows across several tiles", keys=300, mask=Mask(pattern="empty_rows")),
        Case("empty_row/long_float", "empty rows across several tiles", keys=300, mask=Mask("float", "empty_rows")),
        Case("empty_row/scale_zero", "0 · −inf must not arise", scale=0.0, mask=Mask("float", "empty_rows")),
        Case(
            "empty_row/grouped", "empty rows with grouped heads", heads=4, key_heads=2, mask=Mask(pattern="empty_rows")
        ),
    ]


def no_keys() -> list[Case]:
    """No keys: zeros. No queries: an empty output. No items: an empty output."""
    return [
        Case("no_keys/plain", "s = 0 answers zeros", keys=0),
        Case("no_keys/causal", "s = 0 under causal", keys=0, causal=True),
        Case("no_keys/value_width", "s = 0: zeros of the values' width", keys=0, value_width=3),
        Case("no_keys/rank_2", "s = 0 without leading axes", keys=0, rank=2, batch=1, heads=1),
        Case("no_keys/grouped", "s = 0 with grouped heads", keys=0, heads=4, key_heads=2),
        Case("no_keys/biased", "s = 0 with a float mask", keys=0, mask=Mask("float", "everything")),
        Case("no_keys/no_queries_value_width", "l = 0: no row of the values' width", queries=0, value_width=3),
        Case("no_keys/masked", "s = 0 with a mask of no columns", keys=0, mask=Mask(pattern="everything")),
        Case("no_keys/scaled", "s = 0 with a scale", keys=0, scale=0.3),
        Case("no_keys/gradient", "gradients of nothing are zeros", keys=0, gradient_of=("query", "key", "value")),
        Case("no_keys/no_queries", "l = 0 answers an empty output", queries=0),
        Case("no_keys/no_queries_causal", "l = 0 under causal", queries=0, causal=True),
        Case("no_keys/no_items", "a batch of 0 answers an empty output", batch=0),
    ]


def heads() -> list[Case]:
    """Query head i reads key/value head i // (h/g)."""
    return [
        Case("heads/two_groups", "4 query heads on 2 key heads, interleaved", heads=4, key_heads=2),
        Case("heads/three_groups", "6 on 3: h/g differs from g", heads=6, key_heads=3),
        Case("heads/groups_of_three", "6 on 2: h/g differs from g", heads=6, key_heads=2),
        Case("heads/multi_query", "8 on 1", heads=8, key_heads=1),
        Case("heads/equal", "enable_gqa with equal counts changes nothing", heads=3, key_heads=3),
        Case("heads/one_query", "decoding with grouped heads", heads=6, key_heads=2, queries=1, keys=20),
        Case(
            "heads/long_masked",
            "grouped heads under a mask across tiles",
            heads=4,
            key_heads=2,
            queries=70,
            keys=130,
            mask=Mask(),
        ),
        Case(
            "heads/long_causal",
            "grouped heads under causal across tiles",
            heads=4,
            key_heads=2,
            queries=130,
            keys=130,
            causal=True,
        ),
        Case(
            "heads/transposed",
            "grouped heads that are not contiguous",
            heads=6,
            key_heads=2,
            layout=dict.fromkeys(("query", "key", "value"), "transposed_heads"),
        ),
        Case("heads/long", "grouped heads across tiles", heads=4, key_heads=2, queries=70, keys=130),
        Case("heads/other_value_width", "grouped heads and value width", heads=6, key_heads=2, value_width=5),
        Case("heads/rank_3", "heads are the leading axis of rank 3", batch=1, heads=4, key_heads=2, rank=3),
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
