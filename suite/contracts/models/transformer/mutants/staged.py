"""The correct model in small steps, each of which a deviation may replace."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import formula
from attnsuite.contracts.models.eager import Attention, Blocks, Config, Part, part
from attnsuite.contracts.models.greedy import Greedy, Translating
from attnsuite.contracts.models.transformer.contract import shapes

Cache = dict[str, Tensor]
Layer = Callable[[Tensor], Tensor]


class Transformer(Translating, Blocks):
    """The model, step by step."""

    shapes = staticmethod(shapes)

    def compute(
        self,
        config: Config,
        weights: Part,
        *,
        attention: Attention | None = None,
        need_weights: bool = False,
        greedy: Greedy | None = None,
    ) -> Callable[..., Any]:
        if greedy is None:
            return super().compute(config, weights, attention=attention, need_weights=need_weights)
        model, run, kept = self.made(config, weights, attention)
        known = self.check_greedy(greedy, config["target_vocab"])
        if not need_weights:
            return partial(model.translated, run, known)
        watched = partial(model.watched, run, kept, next(iter(weights.values())).dtype)
        return partial(model.translated_and_shown, run, watched, known)

    def run(
        self,
        config: Config,
        weights: Part,
        kept: dict[str, Any],
        dtype: torch.dtype,
        source: Tensor,
        lengths: Tensor,
        target: Tensor | None = None,
    ) -> Tensor:
        source, target = self.check_inputs(config, source, lengths, target)
        within = self.within(lengths, source.shape[-1])
        states = self.keep(kept, source, self.finish(self.encode(config, weights, source, self.own(within))))
        if target is None or not config["decoder_blocks"]:
            return self.alone(states, within).to(dtype)
        decode = self.cached if config.get("decoding") == "cached" else self.full
        cross = self.cross(within)
        return decode(config, weights, kept, states, cross, target).to(dtype)

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
        self, config: Config, weights: Part, kept: Any, states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        so_far = self.so_far(target.shape[-1], target.device)
        hidden = self.embed(target, weights["target_embedding"], 0)
        for number in range(config["decoder_blocks"]):
            block = part(weights, f"decoder.{number}")
            name = f"decoder.{number}.self_attention"
            attend = partial(self.to_itself, part(block, "self_attention"), config["heads"], so_far, name=name)
            hidden = self.decoder_block(number, hidden, attend, block, config["heads"], states, within)
        return self.logits(hidden, weights)

    def cached(
        self, config: Config, weights: Part, kept: dict[str, Any], states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        cache, states, found = self.begin(kept), self.memory(kept, states), []
        for step in range(target.shape[-1]):
            hidden = self.embed(target[:, step : step + 1], weights["target_embedding"], self.position(step))
            for number in range(config["decoder_blocks"]):
                block = part(weights, f"decoder.{number}")
                attend = partial(self.to_cache, number, part(block, "self_attention"), config["heads"], cache)
                hidden = self.decoder_block(number, hidden, attend, block, config["heads"], states, within)
            found.append(self.logits(hidden, weights))
        return torch.cat(found, 1)

    def to_cache(self, number: int, weights: Part, heads: int, cache: Cache, x: Tensor) -> Tensor:
        self.remember(cache, str(number), x)
        return self.multi_head(x, cache[str(number)], weights, heads, None, f"decoder.{number}.self_attention")

    def decoder_block(
        self, number: int, hidden: Tensor, attend: Layer, block: Part, heads: int, states: Tensor, within: Tensor | None
    ) -> Tensor:
        hidden = self.residual(hidden, attend, part(block, "norm1"))
        name = f"decoder.{number}.cross_attention"
        to_states = partial(self.to_states, name, states, part(block, "cross_attention"), heads, within)
        hidden = self.residual(hidden, to_states, part(block, "norm2"))
        return self.residual(hidden, partial(self.feed_forward, weights=part(block, "ffn")), part(block, "norm3"))

    def to_states(
        self, name: str, states: Tensor, weights: Part, heads: int, within: Tensor | None, x: Tensor
    ) -> Tensor:
        return self.multi_head(x, states, weights, heads, within, name)

    def residual(self, x: Tensor, layer: Layer, norm: Part) -> Tensor:
        return self.arrange(x, layer, partial(self.norm, weights=norm), self.add)

    def embed(self, tokens: Tensor, table: Tensor, offset: int) -> Tensor:
        rows = table[tokens]
        return self.place(rows, self.positions(offset, *rows.shape[1:]).to(rows))

    arrange = formula(lambda x, layer, norm, add: norm(add(x, layer(x))))

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"] or config["width"] % 2:
            raise ValueError("heads do not divide the width, or it is odd")

    @staticmethod
    def check_inputs(
        config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Raise for what does not fit; return source and target."""
        batch, length = source.shape
        if any(given is not None and given.dtype != torch.int64 for given in (source, lengths, target)):
            raise ValueError("tokens and lengths are whole numbers")
        for tokens, vocabulary in ((source, "source_vocab"), (target, "target_vocab")):
            if tokens is not None and ((tokens < 0) | (tokens >= config[vocabulary])).any():
                raise ValueError("a token outside the vocabulary")
        if lengths.shape != (batch,) or ((lengths < 1) | (lengths > length)).any():
            raise ValueError("a length that no source has")
        if (target is None) != (config["decoder_blocks"] == 0) or (target is not None and len(target) != batch):
            raise ValueError("the target does not fit")
        return source, target

    within = formula(lambda lengths, length: torch.arange(length, device=lengths.device) < lengths[:, None, None, None])
    own = staticmethod(lambda within: within)  # what the encoder's self-attention may see
    cross = staticmethod(lambda within: within)  # what cross-attention may see
    so_far = staticmethod(lambda length, device: torch.ones(length, length, dtype=torch.bool, device=device).tril())

    place = formula(lambda rows, positions: rows * math.sqrt(rows.shape[-1]) + positions)

    @staticmethod
    def positions(offset: int, length: int, width: int) -> Tensor:
        angles = torch.arange(offset, offset + length)[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    block = staticmethod(lambda number: number)

    finish = formula(lambda states: states)
    # the source's states; `kept` is what the model could keep between calls
    keep = formula(lambda kept, source, states: states)
    alone = formula(lambda states, within: states)  # what an encoder without a decoder returns
    position = staticmethod(lambda step: step)

    @staticmethod
    def begin(kept: dict[str, Any]) -> Cache:
        """An empty cache; `kept` is what the model could keep between calls."""
        return {}

    memory = formula(lambda kept, states: states)  # what every step reads of the source

    @staticmethod
    def remember(cache: Cache, name: str, x: Tensor) -> None:
        cache[name] = torch.cat([cache[name], x], 1) if name in cache else x

    logits = formula(lambda hidden, weights: hidden @ weights["w_logits"] + weights["b_logits"])
