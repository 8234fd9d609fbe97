"""The checks that every factory of Transformers makes: that config, weights and inputs go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]

NUMBERS = ("source_vocab", "target_vocab", "width", "heads", "ffn_width", "encoder_blocks", "decoder_blocks")


def check_model(config: Config, weights: Weights) -> None:
    """Raise ValueError, naming the tensor or number, what came and what was due."""
    for given, of in ((config, "config"), (weights, "weights")):
        if not isinstance(given, Mapping):
            raise ValueError(f"{of} is of type {_kind(given)}, due is a mapping by name")
    check_config(config)
    due = shapes(config)
    for name, shape in due.items():
        if name not in weights:
            raise ValueError(f"the weights lack {name}, due with shape {shape}")
        _check_tensor(name, weights[name])
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, due is {shape}")
    dtype = weights["source_embedding"].dtype
    if not dtype.is_floating_point:
        raise ValueError(f"source_embedding is {dtype}, due is one of torch's floating-point dtypes")
    for name, tensor in weights.items():
        if name not in due:
            raise ValueError(f"the weights have {name}, which is not one of the {len(due)} that are due")
        if tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}, due is {dtype} as source_embedding is")


def check_config(config: Config) -> None:
    """Raise ValueError for a config that no model can be made of."""
    for name in NUMBERS:
        least, number = 0 if name.endswith("blocks") else 1, config.get(name)
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ValueError(f"{name} is {number!r}, due is a whole number from {least} on")
    width, heads, decoding = config["width"], config["heads"], config.get("decoding", "full")
    if width % heads:
        raise ValueError(f"{heads} heads do not divide the width of {width}")
    if width % 2:
        raise ValueError(f"the width is {width}, due is an even one: positions take 2 columns each")
    if decoding not in ("full", "cached"):
        raise ValueError(f"decoding is {decoding!r}, due is one of 2 ways, full or cached")


def check_decoder(config: Config) -> None:
    """Raise ValueError where there is no decoder."""
    if not config["decoder_blocks"]:
        raise ValueError("there are 0 blocks of a decoder, due is 1 at least where translations are wanted")


def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> None:
    """Raise ValueError for tokens outside their vocabulary, lengths beyond the source, and batches that differ."""
    if (target is not None) != (config["decoder_blocks"] > 0):
        came = "no target came" if target is None else "a target came"
        raise ValueError(f"{came}, and there are {config['decoder_blocks']} blocks of a decoder")
    for name, tokens in (("source", source), ("target", target)):
        if tokens is None and name == "target":
            continue
        _check_tensor(name, tokens)
        if tokens.dim() != 2 or len(tokens) != len(source):
            rows = "rows" if name == "source" else f"{len(source)} rows"
            raise ValueError(f"{name} has shape {tuple(tokens.shape)}, due are {rows} of tokens on 2 axes")
        if tokens.dtype != torch.int64:
            raise ValueError(f"{name} is {tokens.dtype}, due is torch.int64")
        last = config[f"{name}_vocab"] - 1
        if tokens.numel() and not (tokens.min() >= 0 and tokens.max() <= last):
            raise ValueError(f"{name} has tokens from {tokens.min()} to {tokens.max()}, due are 0 to {last}")
    if len(source) and not source.shape[1]:
        raise ValueError(f"source has shape {tuple(source.shape)}, due is 1 token at least")
    _check_tensor("lengths", lengths)
    if lengths.dtype != torch.int64:
        raise ValueError(f"lengths is {lengths.dtype}, due is torch.int64")
    if tuple(lengths.shape) != (len(source),):
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}, due is ({len(source)},)")
    if len(source) and not (lengths.min() >= 1 and lengths.max() <= source.shape[1]):
        raise ValueError(f"lengths go from {lengths.min()} to {lengths.max()}, due are 1 to {source.shape[1]}")


def _check_tensor(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise ValueError(f"{name} is of type {_kind(given)}, due is a torch.Tensor")


def _kind(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The weights that are due, by name."""
    width, inner = config["width"], config["ffn_width"]
    due: dict[str, tuple[int, ...]] = {"source_embedding": (config["source_vocab"], width)}
    kinds = {"encoder": ["attention"], "decoder": ["self_attention", "cross_attention"]}
    for kind, attentions in kinds.items():
        for number in range(config[f"{kind}_blocks"]):
            block = f"{kind}.{number}"
            for attention in attentions:
                for role in ("query", "key", "value", "output"):
                    due[f"{block}.{attention}.w_{role}"] = (width, width)
            due |= {f"{block}.ffn.w1": (width, inner), f"{block}.ffn.b1": (inner,)}
            due |= {f"{block}.ffn.w2": (inner, width), f"{block}.ffn.b2": (width,)}
            for norm in range(1, len(attentions) + 2):
                due |= {f"{block}.norm{norm}.weight": (width,), f"{block}.norm{norm}.bias": (width,)}
    if config["decoder_blocks"]:
        vocabulary = config["target_vocab"]
        due |= {"target_embedding": (vocabulary, width), "w_logits": (width, vocabulary), "b_logits": (vocabulary,)}
    return due
