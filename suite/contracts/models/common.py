"""Mistakes that all models can make: in their weights, in attention by several heads, and in the layers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.mutants import Wrong, filled_beyond, given, mutants, rows, swapped_where_equal, then, turned
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


EXTRA_WEIGHTS = Wrong("weights that are not due are accepted", given(weights=of_due_names))
MIXED_DTYPES = Wrong("weights of several floating dtypes are accepted", given(weights=of_one_dtype))
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


def deviations(of: type[Blocks]) -> list[Mutant]:
    """The mistakes that any model made of these blocks can make."""
    widened = rows(
        transposed_weights=Wrong(
            "attention's weights are applied transposed, as torch.nn.Linear does", given(weights=transposed)
        ),
        values_by_key_weights=Wrong(
            "attention's keys and values have the keys' weights both", given(weights=shared("w_key", "w_value"))
        ),
        keys_by_query_weights=Wrong(
            "attention's queries and keys have the queries' weights both", given(weights=shared("w_query", "w_key"))
        ),
        swapped_query_and_key_weights=Wrong(
            "the weights of attention's queries and keys are swapped", given(weights=swapped("w_query", "w_key"))
        ),
        swapped_norms=Wrong(
            "the first two normalisations of a block are swapped",
            given(
                weights=lambda weights: swapped("norm1.weight", "norm2.weight")(
                    swapped("norm1.bias", "norm2.bias")(weights)
                )
            ),
        ),
        swapped_network=Wrong(
            "the weights of a block's network are swapped where they have one shape", given(weights=swapped("w1", "w2"))
        ),
        tied_network=Wrong(
            "the second weights of a block's network are the first, transposed, where their shapes allow it",
            given(weights=shared("w1", "w2")),
        ),
        transposed_network=Wrong(
            "the weights of a block's network are transposed where they are square",
            given(
                weights=lambda weights: {
                    name: turned(each) if name.endswith(("w1", "w2")) else each for name, each in weights.items()
                }
            ),
        ),
        first_weights=Wrong("a model has the weights of the first one of its config", then(Remembering().first)),
        latest_weights=Wrong("a model has the weights of the latest one of its config", then(Remembering().latest)),
    )
    return mutants(of, widened=widened, **HEADS, **LAYERS, **SHOWN)


HEADS = {
    "factor": rows(
        full_width_scale=Wrong(
            "the scores are divided by the root of the full width, not the head's",
            lambda head_width, heads: 1 / math.sqrt(head_width * heads),
            "documents, E3",
        ),
        unscaled=Wrong("the scores are not scaled", lambda head_width, heads: 1.0),
    ),
    "split": rows(
        swapped_items_and_heads=Wrong(
            "items and heads are swapped where there are as many, and never swapped back",
            then(swapped_where_equal(of_rank=4)),
        ),
        interleaved_heads=Wrong(
            "neighbouring columns belong to different heads",
            lambda tensor, heads: tensor.unflatten(-1, (-1, heads)).movedim(-1, 1),
        ),
    ),
    "merge": rows(
        heads_not_moved_back=Wrong(
            "heads are merged without moving their axis back",
            lambda mixed: mixed.reshape(len(mixed), mixed.shape[2], -1),
            "documents, E30",
        )
    ),
    "plug": rows(ignores_the_plug=Wrong("an attention that is plugged in is not called", lambda own, plugged: own)),
    "ask": asking_plugs.MISTAKES,
    "softmax": rows(
        softmax_over_queries=Wrong(
            "the softmax runs over the queries", lambda scores: scores.clamp_min(-1e9).softmax(-2)
        ),
        drops_keys_beyond_128=Wrong("keys beyond the 128th are left out", given(scores=filled_beyond(128, -math.inf))),
    ),
}
LAYERS = {
    "activate": rows(
        leaky_features=Wrong("features below zero leak through", lambda x: torch.where(x > 0, x, 0.01 * x))
    ),
    "add": rows(no_residual=Wrong("there are no residual connections", lambda x, y: y)),
    "norm": rows(
        unbiased_variance=Wrong(
            "the variance is divided by the count less one",
            lambda x, weights: normalised(x, weights, lambda _: (x.var(-1, keepdim=True) + 1e-5).sqrt()),
        ),
        rms_norm=Wrong("the root mean square is taken: no mean is subtracted", rms_norm),
        plain_norm=Wrong(
            "normalisation leaves out its weight and bias",
            lambda x, weights: Blocks.norm(x, {"weight": x.new_ones(()), "bias": x.new_zeros(())}),
        ),
        eps_outside=Wrong(
            "ε is added to the root, not under it",
            lambda x, weights: normalised(x, weights, lambda centred: mean_square(centred).sqrt() + 1e-5),
        ),
        eps_of_a_millionth=Wrong(
            "ε is 10⁻⁶", lambda x, weights: normalised(x, weights, lambda c: (mean_square(c) + 1e-6).sqrt())
        ),
    ),
}
"""Mistakes in steps of the layers; those of attention are in HEADS."""
