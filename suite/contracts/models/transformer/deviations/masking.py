"""Who attends to whom."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.models.transformer.deviations.staged import Transformer


@instead_of(Transformer.mask, "hidden scores are −10,000, above some that are not hidden", of=Transformer)
def fills_with_minus_10000(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -1e4)


IN_WITHIN = mistakes(
    Transformer.within,
    sees_padding=Mistake(
        "padding is attended to",
        lambda lengths, length: torch.ones(len(lengths), 1, 1, length, dtype=torch.bool, device=lengths.device),
    ),
    one_token_more=Mistake(
        "one token more than its length is attended to",
        lambda lengths, length: torch.arange(length, device=lengths.device) <= lengths[:, None, None, None],
    ),
    inverted_padding=Mistake(
        "the mask says who may not be attended to", lambda lengths, length: ~Transformer.within(lengths, length)
    ),
    first_length_for_all=Mistake(
        "the first item's length serves all",
        lambda lengths, length: Transformer.within(lengths[:1].expand_as(lengths), length),
    ),
    counts_from_longest=Mistake(
        "lengths are counted against the longest of the batch, not the source's",
        lambda lengths, length: Transformer.within(lengths + length - lengths.max(), length),
    ),
)


@instead_of(Transformer.alone, "padded positions have states of zero, as nested tensors leave them")
def zero_states_of_padding(states: Tensor, within: Tensor) -> Tensor:
    return states.masked_fill(~within[:, 0, 0, :, None], 0)


@instead_of(Transformer.own, "the encoder's self-attention sees padding")
def encoder_sees_padding(within: Tensor) -> Tensor | None:
    return None


@instead_of(Transformer.cross, "cross-attention sees padding")
def cross_sees_padding(within: Tensor) -> Tensor | None:
    return None


@instead_of(Transformer.so_far, "the decoder sees the future", source="documents, E35")
def sees_the_future(length: int, device: torch.device) -> Tensor | None:
    return None


@instead_of(Transformer.so_far, "every position but the first is blind to itself", source="documents, E9")
def blind_to_itself(length: int, device: torch.device) -> Tensor | None:
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril(-1)
    mask[0, 0] = True
    return mask
