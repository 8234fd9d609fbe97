"""Mistakes in the gradient of an answer that is right."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.backward import Backward, Saved, by_group, forward_weights
from suite.contracts.attention.deviations.heads_and_layout import as_contiguous
from suite.contracts.attention.deviations.staged import Whole, correct, multiplier

Gradients = list[Tensor | None]


def _again(saved: Saved, asked: Asked) -> Tensor:
    """The weights, computed anew for a call that was asked slightly differently."""
    return forward_weights(asked, saved.query, saved.key)


@instead_of(Backward.query_gradient, "the query's gradient lacks the scale")
def query_gradient_lacks_scale(d_scores: Tensor, saved: Saved) -> Tensor:
    return d_scores @ saved.key


@instead_of(Backward.key_gradient, "the key's gradient lacks the scale")
def key_gradient_lacks_scale(d_scores: Tensor, saved: Saved) -> Tensor:
    return d_scores.transpose(-1, -2) @ saved.query


@instead_of(Backward.query_gradient, "the query's gradient uses 1/√e although another scale was given")
def query_gradient_ignores_scale(d_scores: Tensor, saved: Saved) -> Tensor:
    return Backward.query_gradient(d_scores, replace(saved, asked=replace(saved.asked, scale=None)))


@instead_of(
    Backward.key_gradient, "the key's gradient has the wrong sign under a negative scale", source="pytorch issue 105190"
)
def key_gradient_loses_sign_of_scale(d_scores: Tensor, saved: Saved) -> Tensor:
    return Backward.key_gradient(d_scores, saved) * (-1 if saved.asked.factor < 0 else 1)


@instead_of(Backward.mean, "the gradient of the softmax lacks its mean (the D term)")
def gradient_lacks_mean(weights: Tensor, d_weights: Tensor) -> Tensor:
    return torch.zeros_like(d_weights[..., :1]) if d_weights.shape[-1] else d_weights.sum(-1, keepdim=True)


@instead_of(Backward.scores_gradient, "the gradient of the scores is 1 % too large")
def scores_gradient_off_by_one_percent(weights: Tensor, d_weights: Tensor, mean: Tensor) -> Tensor:
    return Backward.scores_gradient(weights, d_weights, mean) * 1.01


@instead_of(Backward.value_gradient, "the value's gradient is 1 % too large")
def value_gradient_off_by_one_percent(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    return Backward.value_gradient(kept_weights, d_output, saved) * 1.01


@instead_of(Backward.scores_gradient, "the gradient of the scores is rounded to bfloat16")
def rounds_scores_gradient_to_half(weights: Tensor, d_weights: Tensor, mean: Tensor) -> Tensor:
    return Backward.scores_gradient(weights, d_weights, mean).bfloat16().to(weights.dtype)


@instead_of(Backward.value_gradient, "the value's gradient uses the weights before masking")
def value_gradient_ignores_masks(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    weights = _again(saved, replace(saved.asked, mask=None, is_causal=False)) * saved.keep
    return Backward.value_gradient(weights, d_output, saved)


@instead_of(Backward.weights, "the backward ignores is_causal")
def backward_ignores_causal(saved: Saved) -> Tensor:
    return _again(saved, replace(saved.asked, is_causal=False)) if saved.asked.is_causal else saved.weights


@instead_of(Backward.weights, "the backward ignores a boolean mask")
def backward_ignores_bool_mask(saved: Saved) -> Tensor:
    is_bool = saved.asked.mask is not None and saved.asked.mask.dtype == torch.bool
    return _again(saved, replace(saved.asked, mask=None)) if is_bool else saved.weights


@instead_of(Backward.weights, "the backward ignores a float mask")
def backward_ignores_float_mask(saved: Saved) -> Tensor:
    is_float = saved.asked.mask is not None and saved.asked.mask.dtype != torch.bool
    return _again(saved, replace(saved.asked, mask=None)) if is_float else saved.weights


@instead_of(Backward.keep, "the backward draws other weights to drop", source="xformers issue 724")
def backward_drops_anew(saved: Saved) -> Tensor | float:
    return multiplier(saved.weights, saved.asked.dropout_p) if saved.asked.dropout_p > 0 else 1.0


@instead_of(Backward.keep, "the backward ignores dropout")
def backward_ignores_dropout(saved: Saved) -> Tensor | float:
    return 1.0


@instead_of(Backward.mean, "the gradient's mean is taken before dropout: the D term lacks the kept weights")
def mean_ignores_dropout(weights: Tensor, d_weights: Tensor) -> Tensor:
    # What was dropped has a gradient of exactly 0; its share is filled with the mean of the others.
    dropped = d_weights == 0
    kept = (weights * ~dropped).sum(-1, keepdim=True)
    return Backward.mean(weights, d_weights) / kept.masked_fill(kept == 0, 1.0)


@instead_of(
    Backward.scores_gradient, "a query that may attend to nothing has NaN as gradient", source="pytorch issue 41508"
)
def gives_nan_gradient_for_empty_row(weights: Tensor, d_weights: Tensor, mean: Tensor) -> Tensor:
    empty = (weights == 0).all(-1, keepdim=True)
    return Backward.scores_gradient(weights, d_weights, mean).masked_fill(empty, math.nan)


@instead_of(Backward.value_gradient, "a query that may attend to nothing sends its gradient to all values")
def sends_gradient_of_empty_row_to_values(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    empty = (saved.weights == 0).all(-1, keepdim=True)
    return Backward.value_gradient(kept_weights.masked_fill(empty, 1 / max(saved.asked.keys, 1)), d_output, saved)


@instead_of(Backward.sum_group, "the gradients of a key head are averaged over its query heads, not summed")
def averages_gradients_of_group(gradient: Tensor, saved: Saved) -> Tensor:
    return Backward.sum_group(gradient, saved) * (saved.asked.key_heads / max(saved.asked.heads, 1))


@instead_of(Backward.sum_group, "only the last query head of a group reaches the gradients of its key head")
def keeps_last_gradient_of_group(gradient: Tensor, saved: Saved) -> Tensor:
    if not saved.asked.grouped:
        return gradient
    return by_group(gradient, saved.asked)[..., -1, :, :]


@instead_of(Backward.mask_gradient, "the mask's gradient is that of the first place where it is broadcast, not the sum")
def takes_first_of_mask_gradients(d_scores: Tensor, mask: Tensor) -> Tensor:
    for axis in range(1, d_scores.dim() + 1):
        if (axis > mask.dim() or mask.shape[-axis] == 1) and d_scores.shape[-axis] > 1:
            d_scores = d_scores.narrow(-axis, 0, 1)
    return d_scores.sum_to_size(mask.shape)


@instead_of(Backward.mask_gradient, "the mask's gradient is averaged where it is broadcast, not summed")
def averages_mask_gradients(d_scores: Tensor, mask: Tensor) -> Tensor:
    return d_scores.sum_to_size(mask.shape) * (mask.numel() / max(d_scores.numel(), 1))


@instead_of(Backward.mask_gradient, "the mask's gradient is 0")
def gives_zero_gradient_to_mask(d_scores: Tensor, mask: Tensor) -> Tensor:
    return torch.zeros_like(mask)


@instead_of(Backward.mask_gradient, "the mask's gradient is transposed where it is square")
def transposes_mask_gradient(d_scores: Tensor, mask: Tensor) -> Tensor:
    gradient = d_scores.sum_to_size(mask.shape)
    square = mask.dim() > 1 and mask.shape[-1] == mask.shape[-2]
    return gradient.transpose(-1, -2) if square else gradient


@instead_of(Whole.answer, "the mask gets no gradient: it is detached")
def detaches_mask(asked: Asked) -> Any:
    return correct(asked if asked.mask is None else replace(asked, mask=asked.mask.detach()))


@instead_of(Backward.deliver, "the mask's gradient is multiplied by the scale")
def scales_mask_gradient(gradients: Gradients, saved: Saved) -> Gradients:
    *others, mask = gradients
    return [*others, None if mask is None else mask * saved.asked.factor]


@instead_of(Backward.deliver, "the gradient of the mask alone raises an error", source="pytorch issue 148476")
def raises_for_gradient_of_mask_alone(gradients: Gradients, saved: Saved) -> Gradients:
    if saved.needs == (False, False, False, True):
        raise RuntimeError("attn_bias requires grad but query, key and value do not")
    return gradients


@instead_of(Backward.deliver, "gradients are 0 unless query, key and value all want one")
def gives_gradients_only_together(gradients: Gradients, saved: Saved) -> Gradients:
    if all(saved.needs[:3]):
        return gradients
    return [None if gradient is None else torch.zeros_like(gradient) for gradient in gradients]


@instead_of(Backward.deliver, "the key gets no gradient")
def gives_no_gradient_to_key(gradients: Gradients, saved: Saved) -> Gradients:
    return [gradients[0], None, *gradients[2:]]


@instead_of(Backward.deliver, "the gradients of key and value are exchanged where their shapes allow it")
def swaps_gradients_of_key_and_value(gradients: Gradients, saved: Saved) -> Gradients:
    query, key, value, mask = gradients
    fits = key is not None and value is not None and key.shape == value.shape
    return [query, value, key, mask] if fits else gradients


@instead_of(
    Backward.deliver,
    "the value's gradient is allocated like the key's, whose width it then has",
    source="flash-attention issue 818",
)
def allocates_value_gradient_like_key(gradients: Gradients, saved: Saved) -> Gradients:
    if gradients[2] is None or saved.asked.width == saved.asked.value_width:
        return gradients
    raise RuntimeError(f"value.grad has width {saved.asked.width}, expected {saved.asked.value_width}")


@instead_of(Backward.output_gradient, "the output gradient's strides are ignored", source="flash-attention issue 355")
def reads_output_gradient_as_contiguous(gradient: Tensor, saved: Saved) -> Tensor:
    return Backward.output_gradient(as_contiguous(gradient), saved)


@instead_of(Backward.output_gradient, "the output gradient is taken to be 1 everywhere")
def assumes_output_gradient_of_ones(gradient: Tensor, saved: Saved) -> Tensor:
    return torch.ones_like(Backward.output_gradient(gradient, saved))


@instead_of(Backward.output_gradient, "of the output gradient, the columns beyond the query's width are not read")
def crops_output_gradient_to_query_width(gradient: Tensor, saved: Saved) -> Tensor:
    beyond = torch.arange(gradient.shape[-1], device=gradient.device) >= saved.asked.width
    return Backward.output_gradient(gradient, saved).masked_fill(beyond, 0.0)


@instead_of(
    Backward.output_gradient,
    "the tail of a tile of 64 queries is not masked in the backward: next to a boundary the last query counts twice",
    source="pytorch issues 196678, 153799",
)
def counts_tail_query_twice_in_backward(gradient: Tensor, saved: Saved) -> Tensor:
    gradient = Backward.output_gradient(gradient, saved)
    if saved.asked.queries < 63 or saved.asked.queries % 64 not in (1, 63):
        return gradient
    last = torch.arange(gradient.shape[-2], device=gradient.device) == gradient.shape[-2] - 1
    return gradient * (1 + last.to(gradient.dtype)).unsqueeze(-1)


@instead_of(Backward.key_gradient, "the gradient of keys beyond the 128th is 0")
def loses_key_gradient_beyond_128(d_scores: Tensor, saved: Saved) -> Tensor:
    beyond = torch.arange(saved.asked.keys, device=d_scores.device) >= 128
    return Backward.key_gradient(d_scores, saved).masked_fill(beyond.unsqueeze(-1), 0.0)


@instead_of(
    Backward.value_gradient,
    "the value's gradient is summed in the half type, query after query",
    dtypes=("float16", "bfloat16"),
)
def sums_value_gradient_in_half(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    total = Backward.value_gradient(kept_weights[..., :0, :], d_output[..., :0, :], saved)
    for row in range(saved.asked.queries):
        term = kept_weights[..., row : row + 1, :].transpose(-1, -2) * d_output[..., row : row + 1, :]
        total = (total + term).to(saved.asked.query.dtype).to(total.dtype)
    return total


@instead_of(Whole.answer, "the output is detached: there is no gradient")
def returns_detached_output(asked: Asked) -> Any:
    return correct(asked).detach()


@instead_of(Whole.answer, "the gradient without keys raises an error", source="flash-attention issue 2470")
def raises_for_gradient_without_keys(asked: Asked) -> Any:
    return correct(asked) if asked.keys else correct(asked).detach()
