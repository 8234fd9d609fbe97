"""Mistakes in how a mask is laid over batch, heads, queries and keys."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, Whole, correct


@instead_of(Dense.mask, "a square mask is transposed, queries and keys are exchanged")
def transposes_square_mask(asked: Asked) -> Tensor | None:
    mask = asked.mask
    square = mask is not None and mask.dim() > 1 and mask.shape[-1] == mask.shape[-2]
    return mask.transpose(-1, -2) if mask is not None and square else mask


@instead_of(Dense.mask, "the first head's mask is used for all heads", source="tt-metal issue 39910")
def uses_first_heads_mask(asked: Asked) -> Tensor | None:
    return asked.mask[..., :1, :, :] if asked.mask is not None and asked.mask.dim() > 2 else asked.mask


@instead_of(Dense.mask, "the first batch item's mask is used for all items", source="tt-metal issue 39910")
def uses_first_items_mask(asked: Asked) -> Tensor | None:
    return asked.mask[:1] if asked.mask is not None and asked.mask.dim() == 4 else asked.mask


@instead_of(Dense.mask, "the first query's row of the mask is used for all queries")
def uses_first_querys_mask(asked: Asked) -> Tensor | None:
    return asked.mask[..., :1, :] if asked.mask is not None and asked.mask.dim() > 1 else asked.mask


@instead_of(
    Dense.mask, "the last query's row of the mask is used for all queries", source="masks taken for key padding"
)
def uses_last_querys_mask(asked: Asked) -> Tensor | None:
    return asked.mask[..., -1:, :] if asked.mask is not None and asked.mask.dim() > 1 else asked.mask


@instead_of(
    Dense.mask, "the axes of a mask of rank 3 are read as batch, queries and keys", source="documents: doc-001 E7"
)
def reads_heads_of_mask_as_batch(asked: Asked) -> Tensor | None:
    mask = asked.mask
    fits = mask is not None and mask.dim() == 3 and asked.rank == 4 and mask.shape[0] in (1, asked.query.shape[0])
    return mask.unsqueeze(1) if mask is not None and fits else mask


@instead_of(Dense.mask, "batch and heads of a mask are exchanged where their sizes allow it")
def swaps_batch_and_heads_of_mask(asked: Asked) -> Tensor | None:
    mask = asked.mask
    if mask is None or mask.dim() < 4:
        return mask
    sizes = (asked.query.shape[0], asked.heads)
    fits = all(size in (1, due) for size, due in zip((mask.shape[1], mask.shape[0]), sizes, strict=True))
    return mask.transpose(0, 1) if fits else mask


@instead_of(
    Dense.mask, "a mask that holds for all queries is applied to the first query only", source="tt-metal issue 39910"
)
def applies_broadcast_mask_to_first_query(asked: Asked) -> Tensor | None:
    return _only(asked, -2, 0)


@instead_of(Dense.mask, "a mask that holds for all queries is applied to the last query only")
def applies_broadcast_mask_to_last_query(asked: Asked) -> Tensor | None:
    return _only(asked, -2, asked.queries - 1)


@instead_of(Dense.mask, "a mask that holds for all heads is applied to the first head only")
def applies_broadcast_mask_to_first_head(asked: Asked) -> Tensor | None:
    return _only(asked, -3, 0)


@instead_of(Dense.mask, "a mask that holds for all batch items is applied to the first item only")
def applies_broadcast_mask_to_first_item(asked: Asked) -> Tensor | None:
    return _only(asked, -4, 0)


@instead_of(Dense.mask, "a mask that holds for all keys is applied to the first key only")
def applies_broadcast_mask_to_first_key(asked: Asked) -> Tensor | None:
    return _only(asked, -1, 0)


def _only(asked: Asked, axis: int, place: int) -> Tensor | None:
    """The mask at one place of an axis that it is broadcast over, nothing masked elsewhere."""
    mask, shape = asked.mask, asked.scores_shape
    if mask is None or len(shape) < -axis or (mask.dim() >= -axis and mask.shape[axis] != 1) or shape[axis] < 2:
        return mask
    here = torch.arange(shape[axis], device=mask.device) == place
    here = here.reshape(-1, *[1] * (-axis - 1))
    return mask | ~here if mask.dtype == torch.bool else torch.where(here, mask, torch.zeros_like(mask))


@instead_of(Dense.mask, "the mask's last column is not read: the last key is never masked")
def never_masks_last_key(asked: Asked) -> Tensor | None:
    mask = asked.mask
    if mask is None or not mask.dim() or mask.shape[-1] < 2:
        return mask
    last = torch.arange(mask.shape[-1], device=mask.device) == mask.shape[-1] - 1
    return mask | last if mask.dtype == torch.bool else mask.masked_fill(last, 0.0)


@instead_of(Dense.mask, "the mask's last row is not read: the last query attends to all")
def never_masks_last_query(asked: Asked) -> Tensor | None:
    mask = asked.mask
    if mask is None or mask.dim() < 2 or mask.shape[-2] < 2:
        return mask
    last = (torch.arange(mask.shape[-2], device=mask.device) == mask.shape[-2] - 1).unsqueeze(-1)
    return mask | last if mask.dtype == torch.bool else mask.masked_fill(last, 0.0)


@instead_of(Dense.mask, "the mask is shifted by one key")
def shifts_mask_by_one_key(asked: Asked) -> Tensor | None:
    return asked.mask.roll(1, -1) if asked.mask is not None and asked.mask.dim() else asked.mask


@instead_of(Dense.mask, "the mask is ignored when heads are grouped")
def ignores_mask_when_grouped(asked: Asked) -> Tensor | None:
    return None if asked.grouped else asked.mask


@instead_of(Dense.mask, "the mask is ignored when there is dropout")
def ignores_mask_with_dropout(asked: Asked) -> Tensor | None:
    return None if asked.dropout_p > 0 else asked.mask


@instead_of(Dense.mask, "the mask is ignored when there is a single query", source="decoding paths")
def ignores_mask_for_one_query(asked: Asked) -> Tensor | None:
    return None if asked.queries == 1 else asked.mask


@instead_of(Dense.mask, "the mask is ignored in rank 3")
def ignores_mask_in_rank_3(asked: Asked) -> Tensor | None:
    return None if asked.rank == 3 else asked.mask


@instead_of(Dense.mask, "with grouped heads, the mask's heads are read in the order of the keys' heads")
def repeats_mask_heads_by_group(asked: Asked) -> Tensor | None:
    mask = asked.mask
    if mask is None or not asked.grouped or mask.dim() < 3 or mask.shape[-3] == 1:
        return mask
    group = asked.heads // asked.key_heads
    return mask[..., ::group, :, :].repeat_interleave(group, dim=-3)


_BY_ROW = Dense(bool_mask=lambda scores, mask, asked: scores.masked_fill(~mask.any(-1, keepdim=True), -math.inf))


@instead_of(Whole.answer, "a boolean mask is consulted for empty rows only, its other entries are ignored")
def masks_whole_rows_only(asked: Asked) -> Any:
    return _BY_ROW(asked) if asked.mask is not None and asked.mask.dtype == torch.bool else correct(asked)
