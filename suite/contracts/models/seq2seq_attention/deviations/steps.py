"""Mistakes at the ends of a step: in the target that it reads, and in the logits that it makes."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent


@instead_of(Recurrent.read, "the target is read one step late")
def late_target(target: Tensor) -> Tensor:
    return torch.cat([target[:, :1], target[:, :-1]], 1)


@instead_of(Recurrent.read, "the target is read one step early")
def early_target(target: Tensor) -> Tensor:
    return torch.cat([target[:, 1:], target[:, -1:]], 1)


IN_LOGITS = mistakes(
    Recurrent.logits,
    logits_of_context=Mistake(
        "the logits are made of the context, not of the state",
        lambda s, context, weights: context @ weights["w_logits"] + weights["b_logits"],
    ),
    context_added=Mistake(
        "the context is added to the state before the logits are made",
        lambda s, context, weights: (s + context) @ weights["w_logits"] + weights["b_logits"],
        source="documents, E11",
    ),
    probabilities=Mistake(
        "softmax is applied to the logits",
        lambda s, context, weights: Recurrent.logits(s, context, weights).softmax(-1),
    ),
)


@instead_of(Recurrent.finish, "a batch of one loses its axis")
def squeezed_batch(logits: Tensor) -> Tensor:
    return logits.squeeze(0)


@instead_of(Recurrent.finish, "steps beyond the 16th are answered like the 16th")
def repeats_step_beyond_16(logits: Tensor) -> Tensor:
    return torch.cat([logits[:, :16], logits[:, 15:16].expand(-1, max(0, logits.shape[1] - 16), -1)], 1)
