"""Kernels in the signatures of other libraries, right ones and wrong ones, on PyTorch's own attention."""

import math
from typing import Any

import torch
from torch import Tensor, nn


def seen(queries: int, keys: int, offset: int, left: int = -1, right: int = -1) -> Tensor:
    """Which keys a query may attend to, with the diagonal moved by an offset; −1 is a side without a bound."""
    i, j = torch.arange(queries)[:, None] + offset, torch.arange(keys)
    return ((j >= i - left) | (left < 0)) & ((j <= i + right) | (right < 0))


def answered(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, p: float = 0.0
) -> Tensor:
    """Attention over … h l e; rows in which nothing is seen answer zeros."""
    scores = query.double() @ key.double().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask
    hidden = ~mask if mask.dtype == torch.bool else mask == -math.inf
    scores = scores if mask.dtype == torch.bool else scores + mask
    empty = hidden.expand(scores.shape).all(-1, keepdim=True)
    weights = scores.masked_fill(hidden, -math.inf).masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    return (torch.dropout(weights, p, p > 0) @ value.double()).to(query.dtype)


def grouped(key: Tensor, heads: int, axis: int) -> Tensor:
    if heads % key.shape[axis]:
        raise ValueError("the heads do not divide")
    return key.repeat_interleave(heads // key.shape[axis], axis)


# flash_attn


def flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    deterministic: bool = False,
) -> Tensor:
    left, right = window_size
    right = 0 if causal else right
    key, value = (grouped(each.transpose(1, 2), q.shape[2], 1) for each in (k, v))
    mask = seen(q.shape[1], k.shape[1], k.shape[1] - q.shape[1], left, right)
    return answered(q.transpose(1, 2), key, value, mask, softmax_scale, dropout_p).transpose(1, 2)


def flash_with_more(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False) -> Any:
    """Returns a log-sum-exp and weights behind its output, as `return_attn_probs` does."""
    return flash(q, k, v, 0.0, softmax_scale, causal), torch.zeros(1), None


class FlashModule(nn.Module):
    """A module in the signature of FlashAttention."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False
    ) -> Tensor:
        return flash(q, k, v, 0.0, softmax_scale, causal)


flash_instance = FlashModule()


def flash_upper_left(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False
) -> Tensor:
    """Wrong: causal is aligned at the first key."""
    key, value = (grouped(each.transpose(1, 2), q.shape[2], 1) for each in (k, v))
    mask = seen(q.shape[1], k.shape[1], 0, -1, 0) if causal else None
    return answered(q.transpose(1, 2), key, value, mask, softmax_scale).transpose(1, 2)


def flash_unscaled(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False) -> Tensor:
    """Wrong: without a scale, there is none."""
    return flash(q, k, v, 0.0, 1.0 if softmax_scale is None else softmax_scale, causal)


def flash_ignores_scale(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
    """Wrong: a given scale is not looked at."""
    return flash(q, k, v)


def flash_over_heads(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False
) -> Tensor:
    """Wrong: heads are taken to stand before positions."""
    return answered(q, k, v, seen(q.shape[2], k.shape[2], 0, -1, 0) if causal else None, softmax_scale)


def flash_answers_transposed(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
    """Wrong: the output has heads before positions."""
    return flash(q, k, v, 0.0, softmax_scale).transpose(1, 2)


# MLX's signature, on the arrays of another library


def fast(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    key, value = (grouped(each, q.shape[1], 1) for each in (k, v))
    if isinstance(mask, str):
        mask = seen(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], -1, 0)
    scores = q.double() @ key.double().mT * scale
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(torch.float64).min)
    elif mask is not None:
        scores = scores + mask
    return (scores.softmax(-1) @ value.double()).to(q.dtype)
