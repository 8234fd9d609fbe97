"""Cases in which a mask decides: its kind, its axes, its patterns, its gradient, and what it meets."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnsuite.cases import Call, Case
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import PRECISE
from attnsuite.contracts.attention.cases import several_calls
from attnsuite.contracts.attention.cases.bad_input import USUAL, BadInput
from attnsuite.contracts.attention.cases.case import case, gradients, single
from attnsuite.contracts.attention.cases.one_call import STRANGE
from attnsuite.contracts.attention.cases.several_calls import SMALL, CallSequence, followed_by, same_storage
from attnsuite.contracts.attention.features.mask import Mask

WITH_MASK = (*INPUTS, "attn_mask")


def cases() -> Sequence[Case]:
    """All cases of masks."""
    return [*forward(), *special(), *bad_input()]


def forward() -> Sequence[Case]:
    """Kinds, axes and patterns of masks, in calls of every size."""
    return [
        case("bool_mask/random", "True means may attend", mask=Mask()),
        case("bool_mask/square", "rows are queries, columns are keys", queries=7, mask=Mask()),
        case("bool_mask/window", "a band around the diagonal", length=16, mask=Mask(pattern="window")),
        case("bool_mask/rank_2", "one mask for all items and heads", mask=Mask(axes="ls")),
        case("bool_mask/rank_1", "one mask for all queries too", mask=Mask(axes="s")),
        case("bool_mask/rank_3_as_many_items", "items and heads of one count", batch=3, heads=3, mask=Mask(axes="hls")),
        case("bool_mask/per_item", "broadcast over heads", batch=3, heads=4, mask=Mask(axes="b1ls")),
        case("bool_mask/per_head", "broadcast over items", batch=3, heads=3, mask=Mask(axes="1hls")),
        case("bool_mask/per_row", "one entry opens a whole row", mask=Mask(axes="bhl1", pattern="everything")),
        *(case(f"bool_mask/axes_{axes}", "broadcast along what it lacks", batch=3, mask=Mask(axes=axes))
            for axes in ("1h1s", "h1s", "11s")),
        case("bool_mask/decode_late", "decoding where whole tiles of the cache are hidden", queries=1, keys=520,
            mask=Mask(pattern="late")),
        case("bool_mask/padding", "lengths per item, the commonest mask", batch=4,
            mask=Mask(axes="b11s", pattern="padding")),
        single("bool_mask/rank_2_inputs", "masks for inputs without leading axes", rank=2, mask=Mask(axes="ls")),
        case("bool_mask/rank_3_inputs", "masks for inputs with one leading axis", rank=3, batch=1, heads=3,
            mask=Mask(axes="hls")),
        case("bool_mask/grouped", "one mask per query head", heads=6, key_heads=2, mask=Mask()),
        case("float_mask/random", "biases with some −inf", mask=Mask("float")),
        case("float_mask/rank_2", "one bias for all items and heads", mask=Mask("float", axes="ls")),
        case("float_mask/rank_1", "one bias for all queries too", mask=Mask("float", axes="s")),
        case("float_mask/rank_3_as_many_items", "as many heads", batch=3, heads=3, mask=Mask("float", axes="hls")),
        case("float_mask/per_head", "broadcast over items", batch=3, heads=3, mask=Mask("float", axes="1hls")),
        *(case(f"float_mask/axes_{axes}", "broadcast along what it lacks", batch=3,
            mask=Mask("float", "everything", axes)) for axes in ("1h1s", "h1s", "l1", "hl1", "b1l1", "1")),
        case("float_mask/per_row", "a constant per row cancels", mask=Mask("float", "everything", "bhl1")),
        case("float_mask/causal_pattern", "a triangle of −inf", queries=7, mask=Mask("float", "causal")),
        case("float_mask/grouped", "one bias per query head", heads=6, key_heads=3, mask=Mask("float")),
        case("float_mask/one_query", "decoding with a bias", queries=1, keys=33, mask=Mask("float", axes="b11s")),
        case("no_keys/masked", "s = 0 with a mask of no columns", keys=0, mask=Mask(pattern="everything")),
        case("no_keys/no_queries_masked", "l = 0 with a mask of no rows", queries=0, mask=Mask(pattern="everything")),
        case("no_keys/no_items_masked", "a batch of 0 with a mask for it", batch=0,
            mask=Mask(axes="b1ls", pattern="everything")),
        case("no_keys/no_items_biased", "a batch of 0 with one bias for all items", batch=0,
            mask=Mask("float", "everything", "ls")),
        *(single(f"both/masked_{n}", f"masked, {n} queries and keys", length=n, width=16, mask=Mask())
            for n in (31, 65, 129, 257)),
        *(single(f"both/biased_{n}", f"biased, {n} queries and keys", length=n, width=16, mask=Mask("float"))
            for n in (31, 65, 129, 257)),
        case("both/padded_long", "padding ends inside a late tile", batch=2, heads=1, queries=20, keys=1500,
            mask=Mask(axes="b11s", pattern="padding")),
    ]  # fmt: skip


def special() -> Sequence[Case]:
    """Masks with extreme numbers, odd layouts and gradients; no mask is written or remembered."""
    padded = case("", "", queries=6, keys=9, mask=Mask(axes="b11s", pattern="padding"))
    padded_float = padded.but(mask=Mask("float", "padding", "b11s"))
    hidden = "what masked keys and values hold does not matter"
    return [
        case("numerics/far_below_zero_masked", "a masked score of 0 is not the maximum", draw="opposite_logits",
            mask=Mask()),
        case("numerics/allowed_below_fill", "allowed scores of −23,000: a hidden one filled with −10⁴ would win",
            draw="abysmal_logits", mask=Mask()),
        case("numerics/lowest_mask", "hidden by finfo.min instead of −inf", mask=Mask("float", hidden="lowest"),
            dtypes=PRECISE),
        case("numerics/lowest_mask_leading", "a leading block of finfo.min wider than any tile", keys=700,
            mask=Mask("float", "late", hidden="lowest"), dtypes=PRECISE),
        case("numerics/minus_ten_thousand", "hidden by −10⁴, which float16 can hold", mask=Mask("float", hidden=-1e4)),
        case("numerics/leading_block_float", "a leading block of −inf wider than any tile", keys=1400, heads=1,
            mask=Mask("float", "late", "b1ls")),
        case("numerics/leading_block_bool", "a leading block of False wider than any tile", keys=1400, heads=1,
            mask=Mask("bool", "late", "b1ls")),
        *(case(f"layout/{kind}_mask_{layout}", f"{kind} mask: {words}", queries=6, mask=Mask(kind),
            layout={"attn_mask": layout}) for kind in ("bool", "float") for layout, words in STRANGE.items()
            if layout != "expanded_last"),
        *(case(f"layout/{kind}_mask_expanded_last", f"{kind} mask: stride 0 along keys", queries=6,
            mask=Mask(kind, pattern), layout={"attn_mask": "expanded_last"}) for kind, pattern in
            (("bool", "empty_rows"), ("float", "everything"))),
        *(case(f"layout/long_{kind}_mask_{layout}", f"{kind} mask across tiles: {STRANGE[layout]}", batch=1, queries=70,
            keys=140, mask=Mask(kind), layout={"attn_mask": layout}) for kind, layout in (("bool", "sliced"),
            ("float", "strided"))),
        gradients("gradients/bool_mask_padding", "a broadcast mask", mask=Mask(axes="b11s", pattern="padding")),
        case("mask_gradient/full", "a bias for every score", gradient_of=WITH_MASK, mask=Mask("float", "everything")),
        case("mask_gradient/square", "rows are queries, columns are keys", gradient_of=WITH_MASK, queries=7,
            mask=Mask("float", axes="ls")),
        case("mask_gradient/alone", "nothing but the mask requires one", gradient_of=("attn_mask",),
            mask=Mask("float")),
        case("mask_gradient/alone_broadcast", "nothing but a broadcast mask", gradient_of=("attn_mask",),
            mask=Mask("float", axes="ls")),
        *(case(f"mask_gradient/axes_{axes}", "summed over the axes it was broadcast along", gradient_of=WITH_MASK,
            batch=3, mask=Mask("float", "everything", axes)) for axes in ("ls", "1hls", "b1ls", "b11s", "bhl1", "hls",
            "s", "11l1")),
        case("mask_gradient/grouped", "one bias per query head", gradient_of=WITH_MASK, heads=4, key_heads=2,
            mask=Mask("float")),
        case("mask_gradient/tiles", "across tiles", gradient_of=WITH_MASK, batch=1, heads=2, queries=70, keys=130,
            mask=Mask("float", axes="1hls")),
        *(CallSequence(f"metamorphic/poisoned_masked_keys{kind}", hidden, followed_by(masked, poisoned_masked_keys))
            for kind, masked in (("", padded), ("_float", padded_float))),
        CallSequence("behaviour/same_pointers_other_mask", "another mask behind the same pointer",
            same_storage(SMALL.but(mask=Mask()))),
    ]  # fmt: skip


def poisoned_masked_keys(call: Call) -> Call:
    """Every hidden score is huge and tempting."""
    mask = call.tensors["attn_mask"]
    hidden = ~mask if mask.dtype == torch.bool else mask == -torch.inf
    poison = torch.where(hidden.reshape(*hidden.shape[:2], -1, 1), 3000.0, 0.0)  # hidden is b 1 1 s: b 1 s 1
    changed = {name: (call.tensors[name] + poison).to(call.tensors[name].dtype) for name in ("key", "value")}
    return several_calls.with_tensors(call, query=call.tensors["query"].abs() + 1, **changed)


def bad_input() -> Sequence[Case]:
    """Masks that cannot broadcast to the scores."""
    return [
        BadInput("bad_input/mask_of_other_keys", "a mask for 6 of 7 keys", {"attn_mask": (5, 6)}),
        BadInput("bad_input/mask_of_more_keys", "a mask for 8 keys where there are 7", {"attn_mask": (5, 8)}),
        BadInput("bad_input/mask_of_other_queries", "a mask for 4 of 5 queries", {"attn_mask": (4, 7)}),
        BadInput("bad_input/mask_of_other_heads", "a mask for 3 of 4 heads", {"attn_mask": (2, 3, 5, 7)}),
        BadInput("bad_input/mask_of_other_items", "a mask for 3 items where there are 2", {"attn_mask": (3, 1, 5, 7)}),
        BadInput("bad_input/mask_expands_one_query", "a mask for 5 queries where there is 1",
            {"query": (2, 4, 1, 8), "attn_mask": (5, 7)}),
        BadInput("bad_input/mask_expands_one_key", "a mask for 7 keys where there is 1",
            {**dict.fromkeys(("key", "value"), (2, 4, 1, 8)), "attn_mask": (5, 7)}),
        BadInput("bad_input/mask_expands_one_item", "a mask for 3 items where there is 1",
            {**{name: (1, *shape[1:]) for name, shape in USUAL.items()}, "attn_mask": (3, 1, 5, 7)}),
        BadInput("bad_input/mask_expands_one_head", "a mask for 3 heads where there is 1",
            {**{name: (2, 1, *shape[2:]) for name, shape in USUAL.items()}, "attn_mask": (2, 3, 5, 7)}),
        BadInput("bad_input/mask_of_higher_rank", "a mask of rank 4 for inputs of rank 3",
            {**{name: shape[1:] for name, shape in USUAL.items()}, "attn_mask": (2, 4, 5, 7)}),
        BadInput("bad_input/mask_of_more_keys_in_rank_2", "a mask for 8 keys where there are 7, in rank 2",
            {**{name: shape[2:] for name, shape in USUAL.items()}, "attn_mask": (5, 8)}),
    ]  # fmt: skip
