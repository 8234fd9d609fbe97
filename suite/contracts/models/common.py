"""Mistakes that all models can make: in their weights, in attention by several heads, and in the layers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.mutants import (
    Mutation,
    filled_beyond,
    mutants,
    swapped_where_equal,
    turned,
    with_arguments,
    with_result,
)
from attnsuite.contracts import asking_plugs
from attnsuite.contracts.models.eager import Blocks, Config, Part, Shapes, mean_square, normalised
from attnsuite.contracts.shown import SHOWN


def of_due_names(weights: Part, due: Shapes) -> dict[str, Tensor]:
    """The weights that are due, without any others."""
    return {name: tensor for name, tensor in weights.items() if name in due}


def of_due_shapes(weights: Part, due: Shapes) -> dict[str, Tensor]:
    """Tensors that have the shapes that are due."""
    return {name: tensor.new_zeros(due.get(name, ())) for name, tensor in weights.items()}


def of_one_dtype(weights: Part) -> dict[str, Tensor]:
    """The weights, all floating ones in float32."""
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


EXTRA_WEIGHTS = Mutation("weights that are not due are accepted", with_arguments(weights=of_due_names))
MIXED_DTYPES = Mutation("weights of several floating dtypes are accepted", with_arguments(weights=of_one_dtype))
"""Mistakes in the step `check_weights`, which all models have."""


def rms_norm(x: Tensor, weights: Part) -> Tensor:
    """The mistake of subtracting no mean."""
    return x / (mean_square(x) + 1e-5).sqrt() * weights["weight"] + weights["bias"]


def transposed(weights: Part) -> dict[str, Tensor]:
    """Attention's maps, each transposed."""
    mapped = ("w_query", "w_key", "w_value", "w_output")
    return {name: tensor.mT if name.endswith(mapped) else tensor for name, tensor in weights.items()}


def shared(first: str, second: str) -> Callable[[Part], dict[str, Tensor]]:
    """Every tensor whose name ends with the second is the one beside it that ends with the first, if that fits."""

    def change(weights: Part) -> dict[str, Tensor]:
        found = dict(weights)
        for name in (name for name in weights if name.endswith(second)):
            other = weights[name.removesuffix(second) + first]
            found[name] = next((each for each in (other, other.mT) if each.shape == weights[name].shape), weights[name])
        return found

    return change


def swapped(first: str, second: str) -> Callable[[Part], dict[str, Tensor]]:
    """Every two tensors beside each other whose names end so are swapped where they have one shape."""

    def change(weights: Part) -> dict[str, Tensor]:
        there, back = shared(first, second)(weights), shared(second, first)(weights)
        return {name: there[name] if name.endswith(second) else back[name] for name in weights}

    return change


class Remembering:
    """Keeps weights from one model to the next of the same config."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Tensor]] = {}

    def first(self, weights: Part, config: Config) -> Part:
        return self.kept.setdefault(str(sorted(config.items())), {name: each.clone() for name, each in weights.items()})

    def latest(self, weights: Part, config: Config) -> Part:
        found = self.kept.setdefault(str(sorted(config.items())), {})
        found.update(weights)
        return found


def general_mutants(of: type[Blocks]) -> list[Mutant]:
    """The mistakes that any model made of these blocks can make."""
    widened = {
        "transposed_weights": Mutation(
            "attention's weights are applied transposed, as torch.nn.Linear does", with_arguments(weights=transposed)
        ),
        "values_by_key_weights": Mutation(
            "attention's keys and values have the keys' weights both",
            with_arguments(weights=shared("w_key", "w_value")),
        ),
        "keys_by_query_weights": Mutation(
            "attention's queries and keys have the queries' weights both",
            with_arguments(weights=shared("w_query", "w_key")),
        ),
        "swapped_query_and_key_weights": Mutation(
            "the weights of attention's queries and keys are swapped",
            with_arguments(weights=swapped("w_query", "w_key")),
        ),
        "swapped_norms": Mutation(
            "the first two normalisations of a block are swapped",
            with_arguments(
                weights=lambda weights: swapped("norm1.weight", "norm2.weight")(
                    swapped("norm1.bias", "norm2.bias")(weights)
                )
            ),
        ),
        "swapped_network": Mutation(
            "the weights of a block's network are swapped where they have one shape",
            with_arguments(weights=swapped("w1", "w2")),
        ),
        "tied_network": Mutation(
            "the second weights of a block's network are the first, transposed, where their shapes allow it",
            with_arguments(weights=shared("w1", "w2")),
        ),
        "transposed_network": Mutation(
            "the weights of a block's network are transposed where they are square",
            with_arguments(
                weights=lambda weights: {
                    name: turned(each) if name.endswith(("w1", "w2")) else each for name, each in weights.items()
                }
            ),
        ),
        "first_weights": Mutation(
            "a model has the weights of the first one of its config", with_result(Remembering().first)
        ),
        "latest_weights": Mutation(
            "a model has the weights of the latest one of its config", with_result(Remembering().latest)
        ),
    }
    return mutants(of, widened=widened, **HEADS, **LAYERS, **SHOWN)


HEADS = {
    "factor": {
        "full_width_scale": Mutation(
            "the scores are divided by the root of the full width, not the head's",
            lambda head_width, heads: 1 / math.sqrt(head_width * heads),
            "documents, E3",
        ),
        "unscaled": Mutation("the scores are not scaled", lambda head_width, heads: 1.0),
    },
    "split": {
        "swapped_items_and_heads": Mutation(
            "items and heads are swapped where there are as many, and never swapped back",
            with_result(swapped_where_equal(of_rank=4)),
        ),
        "interleaved_heads": Mutation(
            "neighbouring columns belong to different heads",
            lambda tensor, heads: tensor.unflatten(-1, (-1, heads)).movedim(-1, 1),
        ),
    },
    "merge": {
        "heads_not_moved_back": Mutation(
            "heads are merged without moving their axis back",
            lambda mixed: mixed.reshape(len(mixed), mixed.shape[2], -1),
            "documents, E30",
        )
    },
    "plug": {"ignores_the_plug": Mutation("an attention that is plugged in is not called", lambda own, plugged: own)},
    "ask": asking_plugs.MUTATIONS,
    "softmax": {
        "softmax_over_queries": Mutation(
            "the softmax runs over the queries", lambda scores: scores.clamp_min(-1e9).softmax(-2)
        ),
        "drops_keys_beyond_128": Mutation(
            "keys beyond the 128th are left out", with_arguments(scores=filled_beyond(128, -math.inf))
        ),
    },
}
LAYERS = {
    "activate": {
        "leaky_features": Mutation("features below zero leak through", lambda x: torch.where(x > 0, x, 0.01 * x))
    },
    "add": {"no_residual": Mutation("there are no residual connections", lambda x, y: y)},
    "norm": {
        "unbiased_variance": Mutation(
            "the variance is divided by the count less one",
            lambda x, weights: normalised(x, weights, lambda _: (x.var(-1, keepdim=True) + 1e-5).sqrt()),
        ),
        "rms_norm": Mutation("the root mean square is taken: no mean is subtracted", rms_norm),
        "plain_norm": Mutation(
            "normalisation leaves out its weight and bias",
            lambda x, weights: Blocks.norm(x, {"weight": x.new_ones(()), "bias": x.new_zeros(())}),
        ),
        "eps_outside": Mutation(
            "ε is added to the root, not under it",
            lambda x, weights: normalised(x, weights, lambda centred: mean_square(centred).sqrt() + 1e-5),
        ),
        "eps_of_a_millionth": Mutation(
            "ε is 10⁻⁶", lambda x, weights: normalised(x, weights, lambda c: (mean_square(c) + 1e-6).sqrt())
        ),
    },
}
"""Mistakes in steps of the layers; those of attention are in HEADS."""
