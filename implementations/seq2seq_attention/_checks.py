"""The checks of weights and inputs that the implementations make before any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

GATES = {"gru": 3, "lstm": 4}
SCORES = ("additive", "dot", "scaled_dot")
NUMBERS = ("source_vocab", "target_vocab", "embedding", "hidden", "layers")


def check_model(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> torch.dtype:
    """Return the weights' dtype. Raises ValueError if config and weights do not go together."""
    check_config(config)
    due = shapes(config)
    for name, shape in due.items():
        if name not in weights:
            raise ValueError(f"weights should have {name} of shape {shape}, which is missing")
        if not isinstance(weights[name], Tensor):
            raise ValueError(f"weights[{name!r}] should be a torch.Tensor of shape {shape}, not {_kind(weights[name])}")
    dtype = weights["w_logits"].dtype
    if not dtype.is_floating_point:
        raise ValueError(f"weights['w_logits'] should be of a floating dtype, not {dtype}")
    for name, shape in due.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"weights[{name!r}] should have shape {shape}, not {tuple(weights[name].shape)}")
        if weights[name].dtype != dtype:
            raise ValueError(f"weights[{name!r}] should be {dtype} as w_logits is, not {weights[name].dtype}")
    for name in weights:
        if name not in due:
            raise ValueError(f"weights should be the {len(due)} of the config, without {name}")
    return dtype


def check_inputs(config: Mapping[str, Any], source: Tensor, lengths: Tensor, target: Tensor) -> None:
    """Raise ValueError for inputs that do not fit the model."""
    for name, tensor, rank in (("source", source, 2), ("lengths", lengths, 1), ("target", target, 2)):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} should be a torch.Tensor of {rank} axes, not {_kind(tensor)}")
        if tensor.dtype != torch.int64:
            raise ValueError(f"{name} should be torch.int64, not {tensor.dtype}")
        if tensor.dim() != rank:
            raise ValueError(f"{name} should have {rank} axes, not {tensor.dim()}")
        if len(tensor) != len(source):
            raise ValueError(f"{name} should be of {len(source)} items as source is, not of {len(tensor)}")
    _within("a token of source", source, 0, config["source_vocab"] - 1)
    _within("a token of target", target, 0, config["target_vocab"] - 1)
    _within("a length", lengths, 1, source.shape[1])


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ValueError for a config that no model can be made of."""
    for key in (*NUMBERS, "score", "cell", "window"):
        if key not in config:
            raise ValueError(f"the config should have 8 entries, {key} among them, which is missing")
    for key in NUMBERS:
        if type(config[key]) is not int or config[key] < 1:
            raise ValueError(f"the config's {key} should be a whole number from 1 on, not {config[key]!r}")
    for key, known in (("score", SCORES), ("cell", tuple(GATES))):
        if config[key] not in known:
            raise ValueError(f"the config's {key} should be one of the {len(known)} {known}, not {config[key]!r}")
    window = config["window"]
    if window is not None and (type(window) is not int or window < 0):
        raise ValueError(f"the config's window should be None or a whole number from 0 on, not {window!r}")


def _within(what: str, tensor: Tensor, least: int, most: int) -> None:
    outside = tensor[(tensor < least) | (tensor > most)]
    if outside.numel():
        raise ValueError(f"{what} should be from {least} to {most}, not {outside[0].item()}")


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The weights that are due, by name."""
    embedding, hidden, gates = config["embedding"], config["hidden"], GATES[config["cell"]] * config["hidden"]
    due: dict[str, tuple[int, ...]] = {
        "source_embedding": (config["source_vocab"], embedding),
        "target_embedding": (config["target_vocab"], embedding),
        "w_logits": (hidden, config["target_vocab"]),
        "b_logits": (config["target_vocab"],),
    }
    for layer in range(config["layers"]):
        for part, width in (("encoder", embedding), ("decoder", hidden + embedding)):
            due[f"{part}.{layer}.w_input"] = (hidden if layer else width, gates)
            due[f"{part}.{layer}.w_hidden"] = (hidden, gates)
            due[f"{part}.{layer}.b_input"] = due[f"{part}.{layer}.b_hidden"] = (gates,)
    if config["score"] == "additive":
        due |= {"attention.w_query": (hidden, hidden), "attention.w_key": (hidden, hidden)}
        due["attention.w_score"] = (hidden,)
    return due
