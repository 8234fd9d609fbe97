"""Who attends to whom."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.changes import first_for_all
from suite.asking.mistakes import Wrong, given, mistakes, rows, then
from suite.contracts.models.transformer.deviations.staged import Transformer
from suite.contracts.softmax import fill


def blind_to_itself(mask: Tensor) -> Tensor:
    mask = mask.tril(-1)
    mask[0, 0] = True
    return mask


MISTAKES = mistakes(
    Transformer,
    mask=rows(
        fills_with_minus_10000=Wrong("hidden scores are −10,000, above some that are not hidden", fill(-1e4)),
    ),
    within=rows(
        sees_padding=Wrong("padding is attended to", then(torch.ones_like)),
        one_token_more=Wrong(
            "one token more than its length is attended to", given(lengths=lambda lengths: lengths + 1)
        ),
        inverted_padding=Wrong("the mask says who may not be attended to", then(torch.logical_not)),
        first_length_for_all=Wrong("the first item's length serves all", given(lengths=first_for_all())),
        counts_from_longest=Wrong(
            "lengths are counted against the longest of the batch, not the source's",
            given(lengths=lambda lengths, length: lengths + length - lengths.max()),
        ),
    ),
    alone=rows(
        zero_states_of_padding=Wrong(
            "padded positions have states of zero, as nested tensors leave them",
            lambda states, within: states.masked_fill(~within[:, 0, 0, :, None], 0),
        ),
    ),
    own=rows(encoder_sees_padding=Wrong("the encoder's self-attention sees padding", lambda within: None)),
    cross=rows(cross_sees_padding=Wrong("cross-attention sees padding", lambda within: None)),
    so_far=rows(
        sees_the_future=Wrong("the decoder sees the future", lambda length, device: None, "documents, E35"),
        blind_to_itself=Wrong(
            "every position but the first is blind to itself", then(blind_to_itself), "documents, E9"
        ),
    ),
)
