"""Mistakes in the linear maps and their biases."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from suite.asking import Deviation
from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.blocks.multi_head_attention.contract import INPUT_BIASES
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead, mapped


def _turned(weights: Tensor) -> Tensor:
    return weights.mT if weights.shape[0] == weights.shape[1] else weights


IN_ROLES = mistakes(
    MultiHead.roles,
    keys_for_values=Mistake(
        "keys are taken for values where they have one shape",
        lambda query, key, value: (query, key, key if key.shape == value.shape else value),
    ),
    swapped_keys_and_values=Mistake(
        "keys and values are swapped where they have one shape",
        lambda query, key, value: (query, value, key) if key.shape == value.shape else (query, key, value),
        source="documents, E26",
    ),
    queries_from_keys=Mistake(
        "queries are taken from the keys where they have one shape: self-attention",
        lambda query, key, value: (key if key.shape == query.shape else query, key, value),
    ),
)


@instead_of(MultiHead.to_queries, "the queries' weights are transposed where they are square")
def transposed_query_weights(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return mapped(x, _turned(weights), bias)


@instead_of(MultiHead.to_keys, "the keys' weights are transposed where they are square")
def transposed_key_weights(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return mapped(x, _turned(weights), bias)


@instead_of(MultiHead.to_values, "the values' weights are transposed where they are square")
def transposed_value_weights(x: Tensor, weights: Tensor) -> Tensor:
    return x @ _turned(weights)


@instead_of(MultiHead.to_output, "the output's weights are transposed where they are square")
def transposed_output_weights(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return mapped(x, _turned(weights), bias)


@instead_of(MultiHead.to_output, "the output map is left out where it is square")
def output_map_left_out(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if weights.shape[0] != weights.shape[1]:
        return mapped(x, weights, bias)
    return x.clone() if bias is None else x + bias


@instead_of(MultiHead.to_queries, "the queries' bias is left out")
def query_bias_left_out(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weights


@instead_of(MultiHead.to_output, "the output's bias is left out")
def output_bias_left_out(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weights


@instead_of(MultiHead.to_output, "the output's bias is added before the map where it is square")
def output_bias_before_map(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None or weights.shape[0] != weights.shape[1]:
        return mapped(x, weights, bias)
    return (x + bias) @ weights


@instead_of(MultiHead.mix, "the values' bias is left out")
def value_bias_left_out(weights: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    return weights @ values


@instead_of(
    MultiHead.mix, "the values' bias is added to the heads, so that dropped weights and empty rows keep all of it"
)
def value_bias_after_weights(weights: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    return weights @ values if bias is None else weights @ values + bias


def _fast_path(query: Tensor, key: Tensor, value: Tensor, *weights: Tensor, **options: Any) -> Any:
    biases = dict.fromkeys(INPUT_BIASES) if query is key is value else {}
    return MultiHead()(query, key, value, *weights, **options | biases)


forgets_biases_of_one_tensor = Deviation(
    "forgets_biases_of_one_tensor",
    "where one tensor is query, key and value, a fast path forgets the biases",
    _fast_path,
)
