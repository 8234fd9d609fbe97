"""Checks of the implementations of `seq2seq_attention`, and the shapes of its weights."""

import torch
from torch import Tensor

from attnsuite.implementations._checks import (
    Config,
    Weights,
    check_choice,
    check_integers,
    check_mappings,
    check_sentences,
    check_tensor,
    check_weights,
)

GATES = {"gru": 3, "lstm": 4}
SCORES = ("additive", "dot", "scaled_dot")
SIZES = ("source_vocab", "target_vocab", "embedding", "hidden", "layers")


def check_model(config: Config, weights: Weights) -> torch.dtype:
    """Return the weights' dtype. Raises ValueError for a config and weights that do not fit together."""
    check_mappings(config=config, weights=weights)
    check_config(config)
    return check_weights(weights, shapes(config), "w_logits")


def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> None:
    """Raise ValueError for inputs that do not fit the model."""
    check_sentences(config, source, lengths, None)
    check_tensor("target", target)
    check_sentences(config, source, lengths, target)


def check_config(config: Config) -> None:
    """Raise ValueError for a config that no model can be made of."""
    check_integers(config, SIZES)
    check_choice("score", config.get("score"), SCORES)
    check_choice("cell", config.get("cell"), tuple(GATES))
    if config.get("window", "missing") is not None:
        check_integers(config, ["window"], 0)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The expected shapes of the weights by name."""
    embedding, hidden, gates = config["embedding"], config["hidden"], GATES[config["cell"]] * config["hidden"]
    expected: dict[str, tuple[int, ...]] = {
        "source_embedding": (config["source_vocab"], embedding),
        "target_embedding": (config["target_vocab"], embedding),
        "w_logits": (hidden, config["target_vocab"]),
        "b_logits": (config["target_vocab"],),
    }
    for layer in range(config["layers"]):
        for part, width in (("encoder", embedding), ("decoder", hidden + embedding)):
            expected[f"{part}.{layer}.w_input"] = (hidden if layer else width, gates)
            expected[f"{part}.{layer}.w_hidden"] = (hidden, gates)
            expected[f"{part}.{layer}.b_input"] = expected[f"{part}.{layer}.b_hidden"] = (gates,)
    if config["score"] == "additive":
        expected |= {"attention.w_query": (hidden, hidden), "attention.w_key": (hidden, hidden)}
        expected["attention.w_score"] = (hidden,)
    return expected
