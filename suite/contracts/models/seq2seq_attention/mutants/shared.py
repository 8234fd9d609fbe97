"""Weights that serve twice, or are swapped or transposed, where their shapes allow it."""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, turned, with_arguments
from attnsuite.contracts.models.common import shared, swapped
from attnsuite.contracts.models.eager import Part
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Recurrent


def renamed(weights: Part, taken: Callable[[str], str]) -> dict[str, Tensor]:
    """Each tensor is the one of another name, where that has its shape."""
    others = {name: weights.get(taken(name), each) for name, each in weights.items()}
    return {name: others[name] if others[name].shape == each.shape else each for name, each in weights.items()}


def of_first_layer(weights: Part, stack: str) -> dict[str, Tensor]:
    return renamed(weights, lambda name: re.sub(rf"^{stack}[.]\d+", f"{stack}.0", name))


def of_the_encoder(weights: Part) -> dict[str, Tensor]:
    return renamed(weights, lambda name: name.replace("decoder", "encoder"))


SHARED = mutants(
    Recurrent,
    take={
        "one_embedding": Mutation(
            "the target's tokens have the source's embedding where the vocabularies are as large",
            with_arguments(weights=shared("source_embedding", "target_embedding")),
        ),
        "encoder_of_one_layer": Mutation(
            "every layer of the encoder has the first one's weights where their shapes allow it",
            with_arguments(weights=lambda weights: of_first_layer(weights, "encoder")),
        ),
        "decoder_of_one_layer": Mutation(
            "every layer of the decoder has the first one's weights where their shapes allow it",
            with_arguments(weights=lambda weights: of_first_layer(weights, "decoder")),
        ),
        "one_network": Mutation(
            "the decoder has the encoder's weights where their shapes allow it", with_arguments(weights=of_the_encoder)
        ),
        "inputs_for_states": Mutation(
            "the state has the input's weights where their shapes allow it",
            with_arguments(weights=shared("w_input", "w_hidden")),
        ),
        "swapped_attention_weights": Mutation(
            "attention's weights of query and key are swapped", with_arguments(weights=swapped("w_query", "w_key"))
        ),
        "transposed_attention_weights": Mutation(
            "attention's weights are transposed, as torch.nn.Linear does",
            with_arguments(
                weights=lambda weights: {
                    name: each.mT if name.endswith(("w_query", "w_key")) else each for name, each in weights.items()
                }
            ),
        ),
        "tied_logits": Mutation(
            "the logits' weights are the target's embedding, transposed, where their shapes allow it",
            with_arguments(weights=shared("target_embedding", "w_logits")),
        ),
        "transposed_logits": Mutation(
            "the logits' weights are transposed where they are square",
            with_arguments(
                weights=lambda weights: {
                    name: turned(each) if name == "w_logits" else each for name, each in weights.items()
                }
            ),
        ),
    },
)
