"""The oracle of the contract `transformer`, and the eager model in steps that mutants replace."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.mutants import formula
from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Blocks, Config, Part, Storage, check_sentences, part
from attnsuite.contracts.models.greedy import Translating
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.judging.running_error import WithError

Array = np.ndarray[Any, Any]
Cache = dict[str, Tensor]
Layer = Callable[[Tensor], Tensor]


def oracle(
    config: Mapping[str, Any], weights: blocks.Part, source: Array, lengths: Array, target: Array | None = None
) -> tuple[WithError, blocks.Attentions]:
    """The logits, b t v, or without a decoder the encoder's states, b s d; and the weights of every attention."""
    attentions: dict[str, blocks.Attention] = {}
    heads, within = config["heads"], np.arange(source.shape[-1]) < lengths[:, None, None, None]  # b 1 1 s

    def attended(name: str, x: WithError, memory: WithError, allowed: Array) -> WithError:
        mixed, attentions[name] = blocks.multi_head(x, memory, blocks.part(weights, name), heads, allowed)
        return mixed

    def embedded(tokens: Array, table: WithError) -> WithError:
        return positional_encoding(table[tokens] * blocks.root(table.shape[-1], table))

    def network(x: WithError, block: blocks.Part, norm: str) -> WithError:
        inner = blocks.feed_forward(x, blocks.part(block, "ffn"), "relu")
        return blocks.add_norm(x, inner, blocks.part(block, norm))

    states = embedded(source, weights["source_embedding"])
    for number in range(config["encoder_blocks"]):
        block = blocks.part(weights, f"encoder.{number}")
        output = attended(f"encoder.{number}.attention", states, states, within)
        states = network(blocks.add_norm(states, output, blocks.part(block, "norm1")), block, "norm2")
    if target is None:
        return states, attentions
    causal = np.tri(target.shape[-1], dtype=bool)  # t t
    hidden = embedded(target, weights["target_embedding"])
    for number in range(config["decoder_blocks"]):
        block = blocks.part(weights, f"decoder.{number}")
        output = attended(f"decoder.{number}.self_attention", hidden, hidden, causal)
        hidden = blocks.add_norm(hidden, output, blocks.part(block, "norm1"))
        output = attended(f"decoder.{number}.cross_attention", hidden, states, within)
        hidden = network(blocks.add_norm(hidden, output, blocks.part(block, "norm2")), block, "norm3")
    return hidden.affine(weights["w_logits"], weights["b_logits"]), attentions


class Transformer(Translating, Blocks):
    """The model, step by step."""

    shapes = staticmethod(shapes)

    def run(
        self, config: Config, weights: Part, storage: Storage, dtype: torch.dtype, source: Tensor, lengths: Tensor,
        target: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        source, lengths, target = self.check_inputs(config, source, lengths, target)
        within = self.within(lengths, source.shape[-1])
        states = self.keep(storage, source, self.encode(config, weights, source, self.own(within)))
        if target is None or not config["decoder_blocks"]:
            return self.alone(states, within).to(dtype)
        decode = self.cached if config.get("decoding") == "cached" else self.full
        return decode(config, weights, storage, states, self.cross(within), target).to(dtype)

    def encode(self, config: Config, weights: Part, source: Tensor, within: Tensor | None) -> Tensor:
        states = self.embed(source, weights["source_embedding"], 0)
        for number in range(config["encoder_blocks"]):
            block = part(weights, f"encoder.{self.block(number)}")
            name = f"encoder.{number}.attention"
            attend = partial(self.to_itself, part(block, "attention"), config["heads"], within, name=name)
            states = self.residual(states, attend, part(block, "norm1"))
            states = self.residual(states, partial(self.feed_forward, weights=part(block, "ffn")), part(block, "norm2"))
        return states

    def full(
        self, config: Config, weights: Part, storage: Storage, states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        causal = self.causal(target.shape[-1], target.device)
        hidden = self.embed(target, weights["target_embedding"], 0)
        for number in range(config["decoder_blocks"]):
            block = part(weights, f"decoder.{number}")
            name = f"decoder.{number}.self_attention"
            attend = partial(self.to_itself, part(block, "self_attention"), config["heads"], causal, name=name)
            hidden = self.decoder_block(number, hidden, attend, block, config["heads"], states, within)
        return self.logits(hidden, weights)

    def cached(
        self, config: Config, weights: Part, storage: Storage, states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        cache, states, logits = self.begin(storage), self.memory(storage, states), []
        for step in range(target.shape[-1]):
            hidden = self.embed(target[:, step : step + 1], weights["target_embedding"], self.position(step))
            for number in range(config["decoder_blocks"]):
                block = part(weights, f"decoder.{number}")
                attend = partial(self.to_cache, number, part(block, "self_attention"), config["heads"], cache)
                hidden = self.decoder_block(number, hidden, attend, block, config["heads"], states, within)
            logits.append(self.logits(hidden, weights))
        return torch.cat(logits, 1)

    def to_cache(self, number: int, weights: Part, heads: int, cache: Cache, x: Tensor) -> Tensor:
        self.remember(cache, str(number), x)
        return self.multi_head(x, cache[str(number)], weights, heads, None, f"decoder.{number}.self_attention")

    def decoder_block(
        self, number: int, hidden: Tensor, attend: Layer, block: Part, heads: int, states: Tensor, within: Tensor | None
    ) -> Tensor:
        name, cross = f"decoder.{number}.cross_attention", part(block, "cross_attention")
        hidden = self.residual(hidden, attend, part(block, "norm1"))
        hidden = self.residual(
            hidden, lambda x: self.multi_head(x, states, cross, heads, within, name), part(block, "norm2")
        )
        return self.residual(hidden, partial(self.feed_forward, weights=part(block, "ffn")), part(block, "norm3"))

    def residual(self, x: Tensor, layer: Layer, norm: Part) -> Tensor:
        return self.arrange(x, layer, partial(self.norm, weights=norm), self.add)

    def embed(self, tokens: Tensor, table: Tensor, offset: int) -> Tensor:
        rows = table[tokens]
        return self.place(rows, self.positions(offset, *rows.shape[1:]).to(rows))

    arrange = formula(lambda x, layer, norm, add: norm(add(x, layer(x))))

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"] or config["width"] % 2:
            raise ValueError("the heads do not divide the width, or the width is odd")

    @staticmethod
    def check_inputs(
        config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Raise for inputs that do not fit; return the inputs."""
        if (target is None) != (config["decoder_blocks"] == 0):
            raise ValueError("a target without a decoder, or a decoder without a target")
        return check_sentences(config, source, lengths, target)

    within = formula(lambda lengths, length: torch.arange(length, device=lengths.device) < lengths[:, None, None, None])
    own = staticmethod(lambda within: within)  # the mask of the encoder's self-attention
    cross = staticmethod(lambda within: within)  # the mask of cross-attention
    causal = staticmethod(lambda length, device: torch.ones(length, length, dtype=torch.bool, device=device).tril())
    place = formula(lambda rows, positions: rows * math.sqrt(rows.shape[-1]) + positions)

    @staticmethod
    def positions(offset: int, length: int, width: int, base: float = 10000.0) -> Tensor:
        angles = torch.arange(offset, offset + length)[:, None] / base ** (torch.arange(0, width, 2).double() / width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    block = staticmethod(lambda number: number)
    keep = formula(lambda storage, source, states: states)  # the source's states
    alone = formula(lambda states, within: states)  # the output of an encoder without a decoder
    position = staticmethod(lambda step: step)

    @staticmethod
    def begin(storage: Storage) -> Cache:
        """An empty cache."""
        return {}

    memory = formula(lambda storage, states: states)  # the states that every cached step reads

    @staticmethod
    def remember(cache: Cache, name: str, x: Tensor) -> None:
        cache[name] = torch.cat([cache[name], x], 1) if name in cache else x

    logits = formula(lambda hidden, weights: hidden @ weights["w_logits"] + weights["b_logits"])
