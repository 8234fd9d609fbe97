"""Sizes around every boundary where kernels break: vector widths, tiles, split thresholds, grid limits."""

from __future__ import annotations

from attnsuite.contracts.attention.cases.case import AttentionCase

SMALL = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 96, 112, 127, 128, 129)
LARGE = (192, 255, 256, 257, 320, 384, 511, 512, 513, 640)
BOUNDARIES = (*SMALL, *LARGE)
"""Each size, and those beside it, at which some kernel changes its path."""
LONG = (1023, 1024, 1025, 2048, 2049, 4096, 4097)
"""The same, of sizes that are asked with one head, for the time."""
WIDTHS = (1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 512)
SCORES = 2**18
"""l·s stays near this, so that one case takes milliseconds."""


def keys() -> list[AttentionCase]:
    """The number of keys around each boundary."""
    return [
        AttentionCase(f"keys/{count}", f"{count} keys", batch=1, queries=min(24, SCORES // count), keys=count)
        for count in BOUNDARIES
    ] + [
        AttentionCase(
            f"keys/{count}", f"{count} keys", batch=1, heads=1, queries=min(60, SCORES // count), keys=count, width=16
        )
        for count in LONG
    ]


def queries() -> list[AttentionCase]:
    """The number of queries around each boundary."""
    return [
        AttentionCase(f"queries/{count}", f"{count} queries", batch=1, queries=count, keys=24) for count in BOUNDARIES
    ] + [
        AttentionCase(f"queries/{count}", f"{count} queries", batch=1, heads=1, queries=count, keys=60, width=16)
        for count in LONG
    ]


def both() -> list[AttentionCase]:
    """Both at once."""
    square = (31, 64, 65, 127, 129, 257, 512)
    return [
        *(AttentionCase(f"both/{n}", f"{n} queries and keys", batch=1, heads=1, queries=n, keys=n, width=16) for n in square),
        *(AttentionCase(f"both/width_{width}", f"width {width} across tiles", batch=1, queries=130, keys=140, width=width) for width in (20, 72, 96, 128, 256)),
        AttentionCase("both/decode_long", "one query before many keys", heads=4, queries=1, keys=4097, width=16),
        AttentionCase("both/decode_batch", "one query each for many items", batch=64, heads=8, queries=1, keys=65, width=16),
    ]  # fmt: skip


def widths() -> list[AttentionCase]:
    """Widths that fill no vector register, value widths of their own."""
    return [
        *(AttentionCase(f"widths/{width}", f"width {width}", width=width, queries=12, keys=20) for width in WIDTHS),
        *(
            AttentionCase(f"widths/value_{value}_of_{width}", f"values of width {value}, queries of {width}", width=width, value_width=value, queries=9, keys=18)
            for width, value in ((8, 1), (8, 3), (8, 24), (64, 80), (80, 64), (128, 20), (1, 8), (256, 64), (64, 256), (16, 512))
        ),
    ]  # fmt: skip


def items() -> list[AttentionCase]:
    """Few and many batch items and heads."""
    return [
        AttentionCase("items/one", "batch · heads is 1", batch=1, heads=1),
        AttentionCase("items/many_heads", "96 heads", batch=1, heads=96, queries=3, keys=5),
        AttentionCase("items/many", "batch · heads is 1,024", batch=32, heads=32, queries=2, keys=3),
        AttentionCase("items/many_across_tiles", "70 items of ordinary size", batch=70, heads=1, queries=33, keys=33),
        AttentionCase("items/many_heads_across_tiles", "32 heads of ordinary size", batch=1, heads=32, queries=64, keys=64),
        AttentionCase("items/prime", "batch · heads has no small divisor", batch=17, heads=19, queries=3, keys=4),
        AttentionCase("items/beyond_the_grid", "batch · heads exceeds 65,535, the limit of a grid axis", batch=4100, heads=16, queries=1, keys=2, width=2, dtypes=("float32", "float16")),
    ]  # fmt: skip
