"""What every factory of Transformers refuses: configs, weights and inputs that do not go together."""

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
    for name in NUMBERS:
        least = 0 if name.endswith("blocks") else 1
        if not isinstance(config.get(name), int) or config[name] < least:
            raise ValueError(f"{name} is {config.get(name)!r}, due is a whole number from {least} on")
    width, heads, decoding = config["width"], config["heads"], config.get("decoding", "full")
    if width % heads:
        raise ValueError(f"{heads} heads do not divide the width of {width}")
    if width % 2:
        raise ValueError(f"the width is {width}, due is an even one: positions take 2 columns each")
    if decoding not in ("full", "cached"):
        raise ValueError(f"decoding is {decoding!r}, due is one of 2 ways, full or cached")
    due = _shapes(config)
    for name, shape in due.items():
        if name not in weights:
            raise ValueError(f"the weights lack {name}, due with shape {shape}")
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, due is {shape}")
    for name, tensor in weights.items():
        if name not in due:
            raise ValueError(f"the weights have {name} of shape {tuple(tensor.shape)}, which is not due")
        if tensor.dtype != weights["source_embedding"].dtype:
            raise ValueError(f"{name} is {tensor.dtype}, source_embedding {weights['source_embedding'].dtype}")


def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> None:
    """Raise ValueError for tokens outside their vocabulary, lengths that no source has, and batches that differ."""
    if (target is not None) != (config["decoder_blocks"] > 0):
        came = "no target came" if target is None else f"a target of shape {tuple(target.shape)} came"
        raise ValueError(f"{came}, and there are {config['decoder_blocks']} blocks of a decoder")
    for name, tokens in (("source", source), ("target", target)):
        if tokens is None:
            continue
        if tokens.dim() != 2 or len(tokens) != len(source):
            rows = "rows" if tokens is source else f"{len(source)} rows"
            raise ValueError(f"{name} has shape {tuple(tokens.shape)}, due are {rows} of tokens on 2 axes")
        if tokens.dtype != torch.int64:
            raise ValueError(f"{name} is {tokens.dtype}, due is torch.int64")
        last = config[f"{name}_vocab"] - 1
        if tokens.numel() and not (tokens.min() >= 0 and tokens.max() <= last):
            raise ValueError(f"{name} has tokens from {tokens.min()} to {tokens.max()}, due are 0 to {last}")
    if lengths.dtype != torch.int64:
        raise ValueError(f"lengths is {lengths.dtype}, due is torch.int64")
    if tuple(lengths.shape) != (len(source),):
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}, due is ({len(source)},)")
    if len(source) and not (lengths.min() >= 1 and lengths.max() <= source.shape[1]):
        raise ValueError(f"lengths go from {lengths.min()} to {lengths.max()}, due are 1 to {source.shape[1]}")


def _shapes(config: Config) -> dict[str, tuple[int, ...]]:
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
