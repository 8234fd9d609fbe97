"""Mistakes in how a mask is laid over batch, heads, queries and keys, and in how it lies in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnsuite.cases.mutants import Wrong, mutants, rows
from attnsuite.contracts.attention.computation.asked import Asked
from attnsuite.contracts.attention.computation.dense import Dense
from attnsuite.contracts.attention.computation.tiled import Tiled
from attnsuite.contracts.attention.deviations.memory import as_contiguous
from attnsuite.contracts.attention.feature import Grid
from attnsuite.contracts.attention.features.mask import cut, is_bool
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor

Change = Callable[[Any, Asked], Any]


def _read(change: Change) -> Callable[[Asked], Any]:
    """The mask, where there is one, as somebody reads it who makes a mistake."""
    return lambda asked: None if asked["attn_mask"] is None else change(asked["attn_mask"], asked)


def _ignored(where: Callable[[Asked], bool]) -> Callable[[Asked], Any]:
    return lambda asked: None if where(asked) else asked["attn_mask"]


def _transposed(mask: Tensor, asked: Asked) -> Tensor:
    return mask.transpose(-1, -2) if mask.dim() > 1 and mask.shape[-1] == mask.shape[-2] else mask


def _heads_as_batch(mask: Tensor, asked: Asked) -> Tensor:
    fits = mask.dim() == 3 and asked.rank == 4 and mask.shape[0] in (1, asked.query.shape[0])
    return mask.unsqueeze(1) if fits else mask


def _swapped(mask: Tensor, asked: Asked) -> Tensor:
    if mask.dim() < 4:
        return mask
    sizes = (asked.query.shape[0], asked.heads)
    fits = all(size in (1, due) for size, due in zip((mask.shape[1], mask.shape[0]), sizes, strict=True))
    return mask.transpose(0, 1) if fits else mask


def _only(axis: int, place: int) -> Change:
    """The mask at one place of an axis that it is broadcast over, nothing masked elsewhere."""

    def change(mask: Tensor, asked: Asked) -> Tensor:
        shape = asked.scores_shape
        if len(shape) < -axis or (mask.dim() >= -axis and mask.shape[axis] != 1) or shape[axis] < 2:
            return mask
        here = torch.arange(shape[axis], device=mask.device) == place % shape[axis]
        here = here.reshape(-1, *[1] * (-axis - 1))
        return mask | ~here if is_bool(mask) else torch.where(here, mask, torch.zeros_like(mask))

    return change


def _open_last(axis: int) -> Change:
    """The last place along an axis is not masked."""

    def change(mask: Tensor, asked: Asked) -> Tensor:
        if mask.dim() < -axis or mask.shape[axis] < 2:
            return mask
        last = torch.arange(mask.shape[axis], device=mask.device) == mask.shape[axis] - 1
        last = last.reshape(-1, *[1] * (-axis - 1))
        return mask | last if is_bool(mask) else mask.masked_fill(last, 0.0)

    return change


def _by_group(mask: Tensor, asked: Asked) -> Tensor:
    if not asked.grouped or mask.dim() < 3 or mask.shape[-3] == 1:
        return mask
    group = asked.heads // asked.key_heads
    return mask[..., ::group, :, :].repeat_interleave(group, dim=-3)


MASKS = mutants(
    Dense,
    mask=rows(
        transposes_square_mask=Wrong("a square mask is transposed, queries and keys are exchanged", _read(_transposed)),
        uses_first_heads_mask=Wrong(
            "the first head's mask is used for all heads",
            _read(lambda mask, asked: mask[..., :1, :, :] if mask.dim() > 2 else mask),
            "tt-metal issue 39910",
        ),
        uses_first_items_mask=Wrong(
            "the first batch item's mask is used for all items",
            _read(lambda mask, asked: mask[:1] if mask.dim() == 4 else mask),
            "tt-metal issue 39910",
        ),
        uses_first_querys_mask=Wrong(
            "the first query's row of the mask is used for all queries",
            _read(lambda mask, asked: mask[..., :1, :] if mask.dim() > 1 else mask),
        ),
        uses_last_querys_mask=Wrong(
            "the last query's row of the mask is used for all queries",
            _read(lambda mask, asked: mask[..., -1:, :] if mask.dim() > 1 else mask),
            "masks taken for key padding",
        ),
        reads_heads_of_mask_as_batch=Wrong(
            "the axes of a mask of rank 3 are read as batch, queries and keys",
            _read(_heads_as_batch),
            "documents: doc-001 E7",
        ),
        swaps_batch_and_heads_of_mask=Wrong(
            "batch and heads of a mask are exchanged where their sizes allow it", _read(_swapped)
        ),
        applies_broadcast_mask_to_first_query=Wrong(
            "a mask that holds for all queries is applied to the first query only",
            _read(_only(-2, 0)),
            "tt-metal issue 39910",
        ),
        applies_broadcast_mask_to_last_query=Wrong(
            "a mask that holds for all queries is applied to the last query only", _read(_only(-2, -1))
        ),
        applies_broadcast_mask_to_first_head=Wrong(
            "a mask that holds for all heads is applied to the first head only", _read(_only(-3, 0))
        ),
        applies_broadcast_mask_to_first_item=Wrong(
            "a mask that holds for all batch items is applied to the first item only", _read(_only(-4, 0))
        ),
        applies_broadcast_mask_to_first_key=Wrong(
            "a mask that holds for all keys is applied to the first key only", _read(_only(-1, 0))
        ),
        never_masks_last_key=Wrong(
            "the mask's last column is not read: the last key is never masked", _read(_open_last(-1))
        ),
        never_masks_last_query=Wrong(
            "the mask's last row is not read: the last query attends to all", _read(_open_last(-2))
        ),
        shifts_mask_by_one_key=Wrong(
            "the mask is shifted by one key", _read(lambda mask, asked: mask.roll(1, -1) if mask.dim() else mask)
        ),
        ignores_mask_when_grouped=Wrong(
            "the mask is ignored when heads are grouped", _ignored(lambda asked: asked.grouped)
        ),
        ignores_mask_with_dropout=Wrong(
            "the mask is ignored when there is dropout", _ignored(lambda asked: asked["dropout_p"] > 0)
        ),
        ignores_mask_for_one_query=Wrong(
            "the mask is ignored when there is a single query",
            _ignored(lambda asked: asked.queries == 1),
            "decoding paths",
        ),
        ignores_mask_in_rank_3=Wrong("the mask is ignored in rank 3", _ignored(lambda asked: asked.rank == 3)),
        ignores_bool_mask_of_one_query=Wrong(
            "a boolean mask is ignored when there is one query, as in a decoding kernel of its own",
            _read(lambda mask, asked: None if is_bool(mask) and asked.queries == 1 else mask),
        ),
        ignores_float_mask_of_one_query=Wrong(
            "a float mask is ignored when there is one query, as in a decoding kernel of its own",
            _read(lambda mask, asked: None if not is_bool(mask) and asked.queries == 1 else mask),
        ),
        repeats_mask_heads_by_group=Wrong(
            "with grouped heads, the mask's heads are read in the order of the keys' heads", _read(_by_group)
        ),
    ),
)

TILES = mutants(
    Tiled,
    mask_part=rows(
        rereads_first_columns_of_mask=Wrong(
            "each tile of keys reads the first columns of the mask",
            lambda mask, grid: cut(mask, Grid(grid.rows, grid.columns - grid.columns[:1], grid.queries, grid.keys)),
        ),
        rereads_first_rows_of_mask=Wrong(
            "each tile of 128 queries reads the first rows of the mask",
            lambda mask, grid: cut(mask, Grid(grid.rows - grid.rows[:1], grid.columns, grid.queries, grid.keys)),
        ),
    ),
)


@Dense.instead("receive", "the mask's strides are ignored", source="pytorch issue 112577")
def reads_mask_as_contiguous(asked: Asked) -> Asked:
    mask = asked["attn_mask"]
    return asked if mask is None else asked.but(attn_mask=as_contiguous(mask))


@Dense.instead(
    "receive", "an expanded mask, with stride 0, is walked as if it were stored", source="flash-attention issue 2189"
)
def walks_expanded_mask(asked: Asked) -> Asked:
    mask = asked["attn_mask"]
    if mask is None or all(stride or size < 2 for size, stride in zip(mask.shape, mask.stride(), strict=True)):
        return asked
    return asked.but(attn_mask=as_contiguous(mask))
