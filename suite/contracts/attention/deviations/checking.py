"""Mistakes in what is accepted: bad input is answered instead of refused."""

from __future__ import annotations

from dataclasses import replace

import torch

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.sizes import with_first_keys
from suite.contracts.attention.deviations.staged import Dense


@instead_of(Dense.receive, "a query and key of different widths are accepted: the wider is cut")
def accepts_mismatched_widths(asked: Asked) -> Asked:
    width = min(asked.query.shape[-1], asked.key.shape[-1])
    return replace(asked, query=asked.query[..., :width], key=asked.key[..., :width])


@instead_of(
    Dense.receive,
    "keys and values of different lengths are accepted: the longer are cut",
    source="pytorch, scaled_dot_product_attention on a CPU",
)
def accepts_mismatched_lengths(asked: Asked) -> Asked:
    lengths = asked.keys, asked.value.shape[-2]
    return asked if lengths[0] == lengths[1] else with_first_keys(asked, min(lengths))


@instead_of(Dense.receive, "key heads that do not divide the query heads are accepted: some are shared unevenly")
def accepts_indivisible_heads(asked: Asked) -> Asked:
    heads, key_heads = asked.heads, asked.key_heads
    if (
        not asked.enable_gqa
        or key_heads == 0
        or heads % key_heads == 0
        or asked.value.shape[:-2] != asked.key.shape[:-2]
    ):
        return asked
    which = [head * key_heads // heads for head in range(heads)]
    return replace(asked, key=asked.key[..., which, :, :], value=asked.value[..., which, :, :])


@instead_of(
    Dense.receive, "a negative dropout_p is accepted as 0", source="pytorch, scaled_dot_product_attention on a CPU"
)
def accepts_negative_dropout(asked: Asked) -> Asked:
    return replace(asked, dropout_p=max(asked.dropout_p, 0.0))


@instead_of(Dense.receive, "a dropout_p above 1 is accepted as 1")
def accepts_dropout_above_one(asked: Asked) -> Asked:
    return replace(asked, dropout_p=min(asked.dropout_p, 1.0))


@instead_of(Dense.receive, "a mask that is too large is accepted and cut")
def accepts_large_mask(asked: Asked) -> Asked:
    if asked.mask is None:
        return asked
    mask = asked.mask
    for axis in range(1, min(mask.dim(), asked.rank) + 1):
        mask = mask.narrow(-axis, 0, min(mask.shape[-axis], asked.scores_shape[-axis]))
    return replace(asked, mask=mask)


@instead_of(Dense.receive, "a mask that is too small is accepted, the rest is not masked")
def accepts_small_mask(asked: Asked) -> Asked:
    if asked.mask is None:
        return asked
    mask = asked.mask
    for axis in range(1, min(mask.dim(), asked.rank) + 1):
        missing = asked.scores_shape[-axis] - mask.shape[-axis]
        if mask.shape[-axis] > 1 and missing > 0:
            shape = (*mask.shape[: mask.dim() - axis], missing, *mask.shape[mask.dim() - axis + 1 :])
            mask = torch.cat([mask, torch.full(shape, mask.dtype == torch.bool).to(mask)], dim=-axis)
    return replace(asked, mask=mask)
