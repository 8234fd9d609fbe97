"""Mutants with a right output and a wrong gradient."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases.changes import rounded, turned
from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.forward import Whole
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved
from attnsuite.contracts.attention.mutants.inputs import as_contiguous
from attnsuite.contracts.attention.mutants.sizes import with_zero_columns


def _each(change: Callable[[Tensor], Tensor]) -> StepChange:
    """The gradients of query and key, changed."""

    def changed(gradients: Gradients) -> Gradients:
        return {
            name: gradient if gradient is None or name not in ("query", "key") else change(gradient)
            for name, gradient in gradients.items()
        }

    return with_result(changed)


def _times(name: str) -> dict[str, Mutation]:
    return {f"{verb}_{name}_gradient": Mutation(f"the {name}'s gradient {words}", with_result(change))
        for verb, words, change in (("doubles", "is twice as large", lambda gradient: 2 * gradient),
        ("negates", "has the wrong sign", torch.neg))}  # fmt: skip


def _exchanged(first: str, second: str) -> Mutation:
    def change(gradients: Gradients) -> Gradients:
        one, other = gradients[first], gradients[second]
        fits = one is not None and other is not None and one.shape == other.shape
        return {**gradients, first: other, second: one} if fits else gradients

    words = f"the gradients of {first} and {second} are exchanged where their shapes allow it"
    return Mutation(words, with_result(change))


def _like_key(gradients: Gradients, saved: Saved) -> Gradients:
    call = saved.call
    if gradients["value"] is None or call.width == call.value_width:
        return gradients
    raise RuntimeError(f"value.grad has width {call.width}, expected {call.value_width}")


MUTANTS = mutants(
    Backward,
    output_gradient={
        "reads_output_gradient_as_contiguous": Mutation("the output gradient's strides are ignored",
            with_arguments(gradient=as_contiguous), "flash-attention issue 355"),
        "assumes_output_gradient_of_ones": Mutation("the output gradient is taken to be 1 everywhere",
            with_result(torch.ones_like)),
        "crops_output_gradient_to_query_width": Mutation(
            "of the output gradient, the columns beyond the query's width are not read",
            with_result(lambda gradient, saved: with_zero_columns(gradient, saved.call.width))),
    },
    mean={
        "gradient_lacks_mean": Mutation("the gradient of the softmax lacks its mean (the D term)",
            lambda weights, d_weights, saved: 0 * d_weights.sum(-1, keepdim=True)),
        "adds_mean_in_gradient": Mutation(
            "the mean in the gradient of the softmax (the D term) is added, not subtracted", with_result(torch.neg)),
        "takes_mean_over_queries_in_gradient": Mutation(
            "the mean in the gradient of the softmax (the D term) is taken over the queries, not the keys",
            lambda weights, d_weights, saved: (weights * d_weights).sum(-2, keepdim=True)),
        "divides_mean_by_width_in_gradient": Mutation(
            "the D term in the gradient of the softmax is the mean of do · o over the values' width, not the sum",
            lambda weights, d_weights, saved: Backward.mean(weights, d_weights, saved) / max(saved.value.shape[-1], 1)),
        "takes_mean_without_weights_in_gradient": Mutation(
            "the mean in the gradient of the softmax (the D term) is the sum of the weights' gradients, without "
            "weights", lambda weights, d_weights, saved: d_weights.sum(-1, keepdim=True)),
    },
    scores_gradient={
        "gradient_skips_softmax": Mutation(
            "the gradient of the weights is taken for that of the scores: the softmax is skipped",
            lambda weights, d_weights, mean: d_weights.masked_fill(weights == 0, 0.0)),
        "gradient_takes_diagonal_of_softmax": Mutation(
            "of the softmax's derivative only the diagonal is taken, w · (1 − w)",
            lambda weights, d_weights, mean: weights * (1 - weights) * d_weights),
        "scores_gradient_lacks_weights": Mutation("the gradient of the softmax is not multiplied by the weights",
            lambda weights, d_weights, mean: (d_weights - mean).masked_fill(weights == 0, 0.0)),
        "scores_gradient_off_by_one_percent": Mutation("the gradient of the scores is 1 % too large",
            with_result(lambda gradient: gradient * 1.01)),
        "rounds_scores_gradient_to_half": Mutation("the gradient of the scores is rounded to bfloat16",
            with_result(rounded(torch.bfloat16))),
    },
    query_gradient={**_times("query")},
    key_gradient={
        **_times("key"),
    },
    value_gradient={
        **_times("value"),
        "does_not_turn_weights_for_value_gradient": Mutation(
            "where queries and keys are as many, the weights are not transposed for the value's gradient",
            lambda kept_weights, d_output, saved: turned(kept_weights.transpose(-1, -2)) @ d_output),
        "passes_output_gradient_to_value": Mutation(
            "where the shapes allow it, the value's gradient is the output's, without the weights",
            lambda kept_weights, d_output, saved: (d_output.clone() if d_output.shape == saved.value.shape
            else Backward.value_gradient(kept_weights, d_output, saved))),
        "value_gradient_off_by_one_percent": Mutation("the value's gradient is 1 % too large",
            with_result(lambda gradient: gradient * 1.01)),
        "value_gradient_lacks_weights": Mutation(
            "the value's gradient is the mean of the output's over the keys, without the weights",
            with_result(lambda gradient: gradient.mean(-2, keepdim=True).expand_as(gradient) if gradient.numel()
            else gradient)),
    },
    deliver={
        "stops_gradient_at_weights": Mutation("the weights are detached: the gradients of query and key are 0",
            _each(torch.zeros_like)),
        "swaps_gradients_of_key_and_value": _exchanged("key", "value"),
        "swaps_gradients_of_query_and_key": _exchanged("query", "key"),
        "allocates_value_gradient_like_key": Mutation(
            "the value's gradient is allocated like the key's, whose width it then has", with_result(_like_key),
            "flash-attention issue 818"),
        "gives_no_gradient_without_queries": Mutation("without queries, keys and values get no gradient",
            with_result(lambda gradients, saved: gradients if saved.call.queries else dict.fromkeys(gradients))),
        "clips_gradients": Mutation("the gradients of query and key are cut to [−1, 1]",
            _each(lambda gradient: gradient.clamp(-1.0, 1.0))),
    },
)  # fmt: skip
DETACHED = mutants(
    Whole,
    attention={
        "returns_detached_output": Mutation("the output is detached: there is no gradient",
            with_result(lambda output: output.detach())),
        "raises_for_gradient_without_keys": Mutation("the gradient without keys raises an error",
            with_result(lambda output, call: output if call.keys else output.detach()), "flash-attention issue 2470"),
    },
)  # fmt: skip


@Backward.instead(
    "output_gradient",
    "the tail of a tile of 64 queries is not masked in the backward: next to a boundary the last query counts twice",
    source="pytorch issues 196678, 153799",
)
def counts_tail_query_twice_in_backward(gradient: Tensor, saved: Saved) -> Tensor:
    gradient = Backward.output_gradient(gradient, saved)
    if saved.call.queries < 63 or saved.call.queries % 64 not in (1, 63):
        return gradient
    last = torch.arange(gradient.shape[-2], device=gradient.device) == gradient.shape[-2] - 1
    return gradient * (1 + last.to(gradient.dtype)).unsqueeze(-1)


@Backward.instead("value_gradient", "the value's gradient is summed in the half type, query after query",
    dtypes=("float16", "bfloat16"))  # fmt: skip
def sums_value_gradient_in_half(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
    total = Backward.value_gradient(kept_weights[..., :0, :], d_output[..., :0, :], saved)
    for row in range(saved.call.queries):
        term = kept_weights[..., row : row + 1, :].transpose(-1, -2) * d_output[..., row : row + 1, :]
        total = (total + term).to(saved.call.query.dtype).to(total.dtype)
    return total
