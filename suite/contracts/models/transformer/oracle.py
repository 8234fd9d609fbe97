"""The slow, obvious answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models.layers import (
    Attention,
    Attentions,
    Part,
    add_norm,
    feed_forward,
    multi_head,
    part,
    root,
)
from attnsuite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def transformer(
    config: Mapping[str, Any], weights: Part, source: Array, lengths: Array, target: Array | None = None
) -> tuple[Rounded, Attentions]:
    """The logits, b t v, or without a decoder the encoder's states, b s d; and the weights of every attention."""
    attentions: dict[str, Attention] = {}

    def attended(name: str, x: Rounded, memory: Rounded, allowed: Array) -> Rounded:
        mixed, attentions[name] = multi_head(x, memory, part(weights, name), heads, allowed)
        return mixed

    heads, within = config["heads"], np.arange(source.shape[-1]) < lengths[:, None, None, None]  # b 1 1 s
    states = embedded(source, weights["source_embedding"])
    for number in range(config["encoder_blocks"]):
        block = part(weights, f"encoder.{number}")
        read = attended(f"encoder.{number}.attention", states, states, within)
        states = add_norm(states, read, part(block, "norm1"))
        states = add_norm(states, feed_forward(states, part(block, "ffn"), "relu"), part(block, "norm2"))
    if target is None:
        return states, attentions
    so_far = np.tri(target.shape[-1], dtype=bool)  # t t
    hidden = embedded(target, weights["target_embedding"])
    for number in range(config["decoder_blocks"]):
        block = part(weights, f"decoder.{number}")
        seen = attended(f"decoder.{number}.self_attention", hidden, hidden, so_far)
        hidden = add_norm(hidden, seen, part(block, "norm1"))
        read = attended(f"decoder.{number}.cross_attention", hidden, states, within)
        hidden = add_norm(hidden, read, part(block, "norm2"))
        hidden = add_norm(hidden, feed_forward(hidden, part(block, "ffn"), "relu"), part(block, "norm3"))
    return hidden.affine(weights["w_logits"], weights["b_logits"]), attentions


def embedded(tokens: Array, table: Rounded) -> Rounded:
    """Each token's row times the root of the width, plus its position, b l d."""
    return positional_encoding(table[tokens] * root(table.shape[-1], table))
