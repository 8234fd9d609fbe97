"""Numbers that overflow, underflow, cancel or tie."""

from __future__ import annotations

from attnsuite.contracts.attention.cases.case import AttentionCase


def numerics() -> list[AttentionCase]:
    """The result is known to the dtype's precision, however extreme the numbers on the way are."""
    return [
        AttentionCase("numerics/huge_logits", "logits of ±10⁴", draw="huge_logits", width=16),
        AttentionCase("numerics/cancelling_products", "products near 1,000 cancel, and small ones decide: their sum is made in float32", draw="cancelling_products", width=16, keys=20),
        AttentionCase("numerics/huge_equal_logits", "equal logits of 10⁴", draw="huge_equal_logits"),
        AttentionCase("numerics/far_below_zero", "all logits near −200: the maximum must be subtracted", draw="opposite_logits"),
        AttentionCase("numerics/scores_beyond_float16", "scores of ±10⁵: kept in float16 they would be infinite", draw="huge_logits", width=16, scale=4.0),
        AttentionCase("numerics/uneven_sizes", "large queries, small keys: the score is their product, not a difference of squares", draw="uneven_sizes"),
        AttentionCase("numerics/equal_logits", "every weight is 1/s", draw="equal_logits"),
        AttentionCase("numerics/equal_logits_many", "every weight is 1/4,097", draw="equal_logits", batch=1, heads=1, keys=4097, queries=9),
        AttentionCase("numerics/equal_constant_many", "rounding errors add up coherently", draw="equal_constant", batch=1, heads=1, keys=4097, queries=9),
        AttentionCase("numerics/dominant_key", "one key takes all weight", draw="dominant_key", keys=40),
        AttentionCase("numerics/dominant_key_late", "the running maximum jumps in a late tile", draw="dominant_key", keys=700, queries=9),
        AttentionCase("numerics/products_overflow", "|q| near 400: unscaled products exceed float16", draw="overflowing_products", width=64, scale=1e-5, dtypes=("float64", "float32", "float16")),
        AttentionCase("numerics/large_values", "values near the largest number", draw="large_values"),
        AttentionCase("numerics/large_values_many", "unnormalised sums of values overflow", draw="large_values", keys=300, heads=1),
        AttentionCase("numerics/subnormal_values", "values next to the subnormal ones", draw="subnormal_values"),
        AttentionCase("numerics/subnormal_queries", "subnormal queries weigh all keys alike", draw="subnormal_queries"),
        AttentionCase("numerics/offset_values", "values share an offset of 1,000", draw="offset_values"),
        AttentionCase("numerics/offset_values_many", "weights sum to one over 1,025 keys", draw="offset_values", batch=1, heads=1, keys=1025, queries=20),
        AttentionCase("numerics/identity_values", "the weights themselves, each to its own precision", draw="identity_values", keys=8),
        AttentionCase("numerics/identity_values_many", "small weights beside large ones", draw="identity_values", keys=64, width=64, queries=20),
    ]  # fmt: skip
