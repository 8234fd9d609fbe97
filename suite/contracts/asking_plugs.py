"""Mistakes in how an attention that is plugged in is asked, which all contracts that take one have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite.cases.mutants import Mutation, StepChange, with_result

Attention = Callable[..., Tensor]
Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, b h l p each."""
Given = Mapping[str, Any]
"""The arguments beside them."""


def left_out(argument: str) -> StepChange:
    """Without one of the arguments that the plug needs."""
    return with_result(lambda needed: {name: each for name, each in needed.items() if name != argument})


def scaled_before(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """The queries are divided by √p already."""
    query, key, value = heads
    return attention(query / math.sqrt(query.shape[-1]), key, value, **given)


def with_scale(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """The scale is given, though it is the usual one."""
    return attention(*heads, **given, scale=1 / math.sqrt(heads[0].shape[-1]))


def as_items(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """b h l p → bh 1 l p, and the mask likewise."""
    (items, count, queries, _), keys = heads[0].shape, heads[1].shape[2]
    given = dict(given)
    if "attn_mask" in given:
        given["attn_mask"] = given["attn_mask"].expand(items, count, queries, keys).flatten(0, 1)[:, None]
    mixed = attention(*(each.flatten(0, 1)[:, None] for each in heads), **given)
    parted: Tensor = mixed[:, 0].unflatten(0, (items, count))
    return parted


def heads_first(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """b h l p → h b l p, and the mask likewise."""
    given = dict(given)
    if "attn_mask" in given and given["attn_mask"].dim() == 4:
        given["attn_mask"] = given["attn_mask"].transpose(0, 1)
    return attention(*(each.transpose(0, 1) for each in heads), **given).transpose(0, 1)


def head_by_head(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """One call for each head, with the head's part of the mask."""
    found = []
    for number in range(heads[0].shape[1]):
        own = dict(given)
        if "attn_mask" in own and own["attn_mask"].dim() == 4 and own["attn_mask"].shape[1] > 1:
            own["attn_mask"] = own["attn_mask"][:, number : number + 1]
        found.append(attention(*(each[:, number : number + 1] for each in heads), **own))
    return torch.cat(found, 1)


def twice(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """The first answer is thrown away."""
    attention(*heads, **given)
    return attention(*heads, **given)


def unused(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """The answer is thrown away, and torch's own is taken."""
    attention(*heads, **given)
    return scaled_dot_product_attention(*heads, **given)


def idle_mask(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """A mask by which everything may be attended to."""
    everything = heads[0].new_ones(heads[0].shape[2], heads[1].shape[2], dtype=torch.bool)
    return attention(*heads, **{"attn_mask": everything, **given})


def with_dropout(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """As if a model were trained."""
    return attention(*heads, **{"dropout_p": 0.1, **given})


def mask_of_numbers(attention: Attention, heads: Heads, given: Given) -> Tensor:
    """0 where a query may attend, and −∞ where not."""
    given = dict(given)
    if "attn_mask" in given:
        mask = given["attn_mask"]
        given["attn_mask"] = heads[0].new_zeros(mask.shape).masked_fill(~mask, -math.inf)
    return attention(*heads, **given)


MUTATIONS = {
    "plug_scaled_twice": Mutation(
        "queries are divided by √p before the plug, which divides by it again", scaled_before
    ),
    "plug_given_scale": Mutation("the attention that is plugged in is given the scale, which is its own", with_scale),
    "plug_given_heads_as_items": Mutation("heads are given to the plug as items of one head each", as_items),
    "plug_given_heads_first": Mutation("the plug is given heads before items", heads_first),
    "plug_called_head_by_head": Mutation("the attention that is plugged in is called once for each head", head_by_head),
    "plug_called_twice": Mutation("the attention that is plugged in is called twice", twice),
    "plug_given_idle_mask": Mutation("the plug is given a mask that hides nothing where none is needed", idle_mask),
    "plug_given_dropout": Mutation(
        "the attention that is plugged in is called with dropout where there is none", with_dropout
    ),
    "plug_unused": Mutation("the attention that is plugged in is called, but its answer is not used", unused),
}
"""By name. They replace a step that is given the plug, the heads, and the other arguments."""
MASKED = {
    "plug_given_mask_of_numbers": Mutation("the plug is given a mask of numbers in place of booleans", mask_of_numbers)
}
"""Mistakes in the same step, of contracts that have masks."""
