"""Attention as numpy einsums behind PyTorch's signature, with the backward written as einsums too."""

import math
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs

Array = NDArray[Any]


@implementation
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return dropout(softmax(scale · query keyᵀ + mask)) value, of shape ... h l v and the query's dtype.

    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    check_inputs(query, key, value, attn_mask, dropout_p, enable_gqa)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    output: Tensor = _Attention.apply(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return output


class _Attention(torch.autograd.Function):
    """Axes: b batch, g key heads, r query heads per key head, l queries, s keys, e width, v value width."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, attn_mask, dropout_p, is_causal, scale = inputs
        queries, keys, values = _grouped(query, key), _array(key), _array(value)  # b g r l e, b g s e, b g s v
        scores = numpy.einsum("bgrle,bgse->bgrls", scale * queries, keys)
        shape = (*query.shape[:-1], key.shape[-2])  # ... h l s
        if is_causal:
            scores[..., numpy.tri(*shape[-2:]) == 0] = -numpy.inf
        if attn_mask is not None:
            mask = _array(attn_mask.expand(shape)).reshape(scores.shape)
            scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
        largest = scores.max(axis=-1, keepdims=True, initial=-numpy.inf)  # b g r l 1
        weights = numpy.exp(scores - numpy.where(largest == -numpy.inf, 0, largest))
        total = weights.sum(axis=-1, keepdims=True)
        weights /= numpy.where(total == 0, 1, total)  # an empty row keeps its zeros
        kept = None
        if dropout_p > 0:
            draws = torch.rand(scores.shape, dtype=torch.float64).numpy()
            kept = (draws >= dropout_p) * weights.dtype.type(1 / (1 - dropout_p) if dropout_p < 1 else 0)
        dropped = weights if kept is None else weights * kept
        output = numpy.einsum("bgrls,bgsv->bgrlv", dropped, values)

        ctx.save_for_backward(query, key, value, attn_mask)
        ctx.weights, ctx.kept, ctx.scale = weights, kept, scale
        return _tensor(output, (*query.shape[:-1], value.shape[-1]), query)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attn_mask = ctx.saved_tensors
        weights, kept, scale = ctx.weights, ctx.kept, ctx.scale
        queries, keys, values = _grouped(query, key), _array(key), _array(value)
        upstream = _grouped(output_gradient, key)  # b g r l v

        d_weights = numpy.einsum("bgrlv,bgsv->bgrls", upstream, values)
        if kept is not None:
            d_weights *= kept
        mean = numpy.einsum("bgrls,bgrls->bgrl", weights, d_weights)[..., None]
        d_scores = weights * (d_weights - mean)  # b g r l s

        d_query = scale * numpy.einsum("bgrls,bgse->bgrle", d_scores, keys)
        d_key = scale * numpy.einsum("bgrls,bgrle->bgse", d_scores, queries)
        d_value = numpy.einsum("bgrls,bgrlv->bgsv", weights if kept is None else weights * kept, upstream)
        d_mask = None
        if ctx.needs_input_grad[3]:
            scores_shape = (*query.shape[:-1], key.shape[-2])
            d_mask = torch.from_numpy(d_scores).reshape(scores_shape).sum_to_size(attn_mask.shape).to(attn_mask)
        pairs = (d_query, query), (d_key, key), (d_value, value)
        return *(_tensor(gradient, like.shape, like) for gradient, like in pairs), d_mask, None, None, None


def _array(tensor: Tensor) -> Array:
    """The tensor's numbers on the host with four axes; numpy has no bfloat16, so half types become float32."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor.numpy()[(None,) * (4 - tensor.dim())]


def _grouped(query: Tensor, key: Tensor) -> Array:
    """Split the query's heads into the key's heads and the query heads that share each: b h l e to b g r l e."""
    array = _array(query)
    batch, heads, length, width = array.shape
    key_heads = key.shape[-3] if key.dim() > 2 else 1
    return array.reshape(batch, key_heads, heads // max(key_heads, 1), length, width)


def _tensor(array: Array, shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.from_numpy(array).reshape(shape).to(like)
