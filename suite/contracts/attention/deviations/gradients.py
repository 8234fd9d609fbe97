"""Mistakes in the gradient of an answer that is right."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.changes import rounded
from suite.asking.layouts import INPUTS
from suite.asking.mistakes import given, mistakes, then
from suite.contracts.attention.computation.backward import Backward, Gradients, Saved, forward_weights
from suite.contracts.attention.computation.dense import Whole
from suite.contracts.attention.deviations.memory import as_contiguous
from suite.contracts.attention.deviations.sizes import with_zero_columns, with_zero_queries


def one_percent_off(gradient: Tensor) -> Tensor:
    return gradient * 1.01


def no_mean(weights: Tensor, d_weights: Tensor) -> Tensor:
    return torch.zeros_like(d_weights[..., :1]) if d_weights.shape[-1] else d_weights.sum(-1, keepdim=True)


def of_unmasked(kept_weights: Tensor, saved: Saved) -> Tensor:
    return forward_weights(saved.asked.unmasked, saved.query, saved.key) * saved.keep


def all_or_nothing(gradients: Gradients, saved: Saved) -> Gradients:
    if saved.wanted >= set(INPUTS):
        return gradients
    return {name: None if gradient is None else torch.zeros_like(gradient) for name, gradient in gradients.items()}


def exchanged(gradients: Gradients) -> Gradients:
    key, value = gradients["key"], gradients["value"]
    fits = key is not None and value is not None and key.shape == value.shape
    return {**gradients, "key": value, "value": key} if fits else gradients


def of_equal_widths(gradients: Gradients, saved: Saved) -> Gradients:
    if gradients["value"] is None or saved.asked.width == saved.asked.value_width:
        return gradients
    raise RuntimeError(f"value.grad has width {saved.asked.width}, expected {saved.asked.value_width}")


def tail_twice(gradient: Tensor) -> Tensor:
    queries = gradient.shape[-2]
    if queries < 63 or queries % 64 not in (1, 63):
        return gradient
    last = torch.arange(queries, device=gradient.device) == queries - 1
    return gradient * (1 + last.to(gradient.dtype)).unsqueeze(-1)


def in_half(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    total = Backward.value_gradient(kept_weights[..., :0, :], d_output[..., :0, :], saved)
    for row in range(saved.asked.queries):
        term = kept_weights[..., row : row + 1, :].transpose(-1, -2) * d_output[..., row : row + 1, :]
        total = rounded(saved.asked.query.dtype)(total + term)
    return total


def without_last_of_127(gradient: Tensor) -> Tensor:
    queries = gradient.shape[-2]
    return with_zero_queries(gradient, queries - 1) if queries % 128 == 127 else gradient


MISTAKES = mistakes(
    Backward,
    mean={"gradient_lacks_mean": ("the gradient of the softmax lacks its mean (the D term)", no_mean)},
    output_gradient={
        "reads_output_gradient_as_contiguous": (
            "the output gradient's strides are ignored",
            given(gradient=as_contiguous),
            "flash-attention issue 355",
        ),
        "assumes_output_gradient_of_ones": ("the output gradient is taken to be 1 everywhere", then(torch.ones_like)),
        "crops_output_gradient_to_query_width": (
            "of the output gradient, the columns beyond the query's width are not read",
            then(lambda gradient, saved: with_zero_columns(gradient, saved.asked.width)),
        ),
        "counts_tail_query_twice_in_backward": (
            "the tail of a tile of 64 queries is not masked in the backward: "
            "next to a boundary the last query counts twice",
            then(tail_twice),
            "pytorch issues 196678, 153799",
        ),
    },
    scores_gradient={
        "scores_gradient_off_by_one_percent": (
            "the gradient of the scores is 1 % too large",
            then(one_percent_off),
        ),
        "rounds_scores_gradient_to_half": (
            "the gradient of the scores is rounded to bfloat16",
            then(rounded(torch.bfloat16)),
        ),
    },
    query_gradient={
        "loses_last_query_gradient_at_127_of_128": (
            "the gradient of the last query is 0 where the queries modulo 128 leave 127",
            then(without_last_of_127),
            "pytorch issues 196678, 153799",
        ),
    },
    key_gradient={
        "loses_key_gradient_beyond_128": (
            "the gradient of keys beyond the 128th is 0",
            then(lambda gradient: with_zero_queries(gradient, 128)),
        ),
    },
    value_gradient={
        "value_gradient_off_by_one_percent": ("the value's gradient is 1 % too large", then(one_percent_off)),
        "value_gradient_ignores_masks": (
            "the value's gradient uses the weights before masking",
            given(kept_weights=of_unmasked),
        ),
        "sums_value_gradient_in_half": (
            "the value's gradient is summed in the half type, query after query",
            in_half,
            "",
            ("float16", "bfloat16"),
        ),
    },
    deliver={
        "gives_gradients_only_together": (
            "gradients are 0 unless query, key and value all want one",
            then(all_or_nothing),
        ),
        "gives_no_gradient_to_key": (
            "the key gets no gradient",
            then(lambda gradients: {**gradients, "key": None}),
        ),
        "swaps_gradients_of_key_and_value": (
            "the gradients of key and value are exchanged where their shapes allow it",
            then(exchanged),
        ),
        "allocates_value_gradient_like_key": (
            "the value's gradient is allocated like the key's, whose width it then has",
            then(of_equal_widths),
            "flash-attention issue 818",
        ),
    },
)
DETACHED = mistakes(
    Whole,
    answer={
        "returns_detached_output": (
            "the output is detached: there is no gradient",
            then(lambda output: output.detach()),
        ),
        "raises_for_gradient_without_keys": (
            "the gradient without keys raises an error",
            then(lambda output, asked: output if asked.keys else output.detach()),
            "flash-attention issue 2470",
        ),
    },
)
