"""Bad input that is accepted."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead


@instead_of(MultiHead.check_heads, "heads that do not divide the columns become as many as do", source="documents, E4")
def fewer_heads_where_they_do_not_divide(heads: int, w_query: Tensor, w_value: Tensor) -> int:
    while heads > 1 and (w_query.shape[1] % heads or w_value.shape[1] % heads):
        heads -= 1
    return max(1, heads)


IN_CHECK_MASK = mistakes(
    MultiHead.check_mask,
    mask_of_3_axes_for_heads=Mistake(
        "a mask of 3 axes is read as heads, queries and keys",
        lambda mask, due: mask if mask.dim() == 3 else MultiHead.check_mask(mask, due),
        source="documents, E7",
    ),
    mask_of_more_items=Mistake(
        "of a mask for more items than there are the first serve",
        lambda mask, due: MultiHead.check_mask(mask[: due[0]] if mask.dim() == 4 else mask, due),
    ),
    numbers_for_mask=Mistake(
        "numbers are taken for a mask: all but zeros may be attended to",
        lambda mask, due: MultiHead.check_mask(mask.to(torch.bool), due),
    ),
)


@instead_of(MultiHead.check_output, "an output bias without an output map is ignored")
def ignored_lone_output_bias(
    w_value: Tensor, w_output: Tensor | None, b_output: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    return MultiHead.check_output(w_value, w_output, None if w_output is None else b_output)


@instead_of(MultiHead.check_inputs, "keys and values of one item serve all queries")
def broadcasts_item(query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor) -> None:
    items = -1 if len(key) != 1 else len(query)
    MultiHead.check_inputs(query, key.expand(items, -1, -1), value.expand(items, -1, -1), w_query, w_key, w_value)


@instead_of(MultiHead.check_biases, "a bias of width 1 is added to all columns")
def broadcast_biases(
    w_query: Tensor, w_value: Tensor, b_query: Tensor | None, b_key: Tensor | None, b_value: Tensor | None
) -> None:
    wide = [None if bias is None or len(bias) == 1 else bias for bias in (b_query, b_key, b_value)]
    MultiHead.check_biases(w_query, w_value, *wide)


@instead_of(MultiHead.check_dropout, "a probability outside [0, 1] is taken for the nearest inside")
def clamped_dropout(p: float) -> float:
    return min(1.0, max(0.0, p))
