"""Mistakes in half types that are smaller than one rounding, and show only in many numbers taken together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.cases.tensors import HALF
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, normalised
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.features.scale import factor

LONG = 128
"""Rows and keys from which these mistakes are made."""
ONE_KEY = 700
"""The key that is left out or counted twice where there are 1,024."""


def is_half(asked: Asked) -> bool:
    return asked.query.dtype.itemsize == 2


def of_one_key(times: float) -> Any:
    """The softmax with one weight of 1,024 counted so many times."""

    def softmax(weights: Tensor, asked: Asked) -> Tensor:
        if asked.keys != 1024 or not is_half(asked):
            return weights
        counted = torch.ones(asked.keys)
        counted[ONE_KEY] = times
        return normalised(weights * counted)

    return with_result(softmax)


def of_one_tile(weights: Tensor, asked: Asked) -> Tensor:
    """The weights with those of the second tile of 64 keys 1 % too large."""
    counted = torch.ones(asked.keys)
    counted[64:128] = 1.01
    return normalised(weights * counted) if is_half(asked) else weights


def cut(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of which those digits are cut off that the dtype cannot hold."""
    nearest = numbers.to(dtype)
    beyond = nearest.float().abs() > numbers.abs()
    return torch.where(beyond, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)


def cut_through(numbers: Tensor, asked: Asked) -> Tensor:
    """The same on the way; the gradient passes through."""
    if not is_half(asked):
        return numbers
    return numbers + (cut(numbers.detach(), asked.query.dtype).to(numbers.dtype) - numbers.detach())


def edge_moved_in_long_rows(by: int) -> Callable[..., Any]:
    """The causal edge, in rows beyond the first ones, moved by some keys."""
    return lambda grid, asked: grid.j <= grid.i + by * ((grid.i >= LONG) & is_half(asked))


def by_a_little(gradient: Tensor, saved: Saved) -> Tensor:
    return gradient * 1.005 if is_half(saved.asked) else gradient


MUTANTS = mutants(
    Dense,
    softmax={
        "drops_one_key_of_1024_in_half": Mutation("one key of 1,024 is left out", of_one_key(0.0), dtypes=HALF),
        "counts_one_key_of_1024_twice_in_half": Mutation("one key of 1,024 counts twice", of_one_key(2.0), dtypes=HALF),
        "weighs_one_tile_too_much_in_half": Mutation(
            "the weights of one tile of 64 keys are 1 % too large", with_result(of_one_tile), dtypes=HALF
        ),
    },
    factor={
        "scale_half_a_percent_off_in_half": Mutation(
            "the scale is 0.5 % too large",
            lambda asked: factor(asked) * (1.005 if is_half(asked) else 1.0),
            dtypes=HALF,
        )
    },
    causal={
        "sees_one_ahead_in_long_rows": Mutation(
            f"a query beyond the first {LONG} sees one key of the future", edge_moved_in_long_rows(1), dtypes=HALF
        ),
        "misses_its_own_key_in_long_rows": Mutation(
            f"a query beyond the first {LONG} does not see its own key", edge_moved_in_long_rows(-1), dtypes=HALF
        ),
    },
    combine={
        "cuts_weights_to_half": Mutation(
            "the weights' digits are cut off, not rounded",
            with_arguments(weights=lambda weights, asked: cut_through(weights, asked)),
            dtypes=HALF,
        )
    },
    finish={
        "cuts_output_to_half": Mutation(
            "the output's digits are cut off, not rounded",
            with_arguments(output=lambda output, asked: cut_through(output, asked)),
            "conversions by a shift of bits",
            HALF,
        )
    },
)
GRADIENTS = mutants(
    Backward,
    key_gradient={
        "key_gradient_half_a_percent_off_in_half": Mutation(
            "the key's gradient is 0.5 % too large", with_result(by_a_little), dtypes=HALF
        )
    },
    value_gradient={
        "value_gradient_half_a_percent_off_in_half": Mutation(
            "the value's gradient is 0.5 % too large", with_result(by_a_little), dtypes=HALF
        ),
        "cuts_value_gradient_to_half": Mutation(
            "the digits of the value's gradient are cut off, not rounded",
            with_result(lambda gradient, saved: cut_through(gradient, saved.asked)),
            dtypes=HALF,
        ),
    },
)
