"""Transformers with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from suite.contracts import eager
from suite.contracts.base import Deviation
from suite.contracts.eager import Blocks, Part, part
from suite.contracts.staged import collected, imprecise, instead_of
from suite.contracts.transformer.contract import shapes

Config = Mapping[str, Any]
Cache = dict[str, Tensor]
Layer = Callable[[Tensor], Tensor]


class Transformer(Blocks):
    """The model, step by step."""

    def __call__(self, config: Config, weights: Part) -> Callable[..., Tensor]:
        self.check_config(config)
        self.check_weights(weights, shapes(config))
        return partial(self.run, config, self.widened(config, weights), {}, next(iter(weights.values())).dtype)

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
        states = self.embed(source, weights["source_embedding"], 0)
        for number in range(config["encoder_blocks"]):
            block = part(weights, f"encoder.{self.block(number)}")
            states = self.residual(
                states, partial(self.to_itself, part(block, "attention"), config["heads"], within), part(block, "norm1")
            )
            states = self.residual(states, partial(self.feed_forward, weights=part(block, "ffn")), part(block, "norm2"))
        states = self.keep(kept, self.finish(states))
        if target is None or not config["decoder_blocks"]:
            return self.alone(states, within).to(dtype)
        decode = self.cached if config.get("decoding") == "cached" else self.full
        cross = self.cross(within)
        return decode(config, weights, kept, states, cross, target).to(dtype)

    def to_itself(self, weights: Part, heads: int, allowed: Tensor | None, x: Tensor) -> Tensor:
        return self.multi_head(x, x, weights, heads, allowed)

    def full(
        self, config: Config, weights: Part, kept: Any, states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        so_far = self.so_far(target.shape[-1], target.device)
        hidden = self.embed(target, weights["target_embedding"], 0)
        for number in range(config["decoder_blocks"]):
            block = part(weights, f"decoder.{number}")
            attend = partial(self.to_itself, part(block, "self_attention"), config["heads"], so_far)
            hidden = self.decoder_block(hidden, attend, block, config["heads"], states, within)
        return self.logits(hidden, weights)

    def cached(
        self, config: Config, weights: Part, kept: dict[str, Any], states: Tensor, within: Tensor | None, target: Tensor
    ) -> Tensor:
        cache, found = self.begin(kept), []
        for step in range(target.shape[-1]):
            hidden = self.embed(target[:, step : step + 1], weights["target_embedding"], self.position(step))
            for number in range(config["decoder_blocks"]):
                block = part(weights, f"decoder.{number}")
                attend = partial(self.to_cache, part(block, "self_attention"), config["heads"], cache, str(number))
                hidden = self.decoder_block(hidden, attend, block, config["heads"], states, within)
            found.append(self.logits(hidden, weights))
        return torch.cat(found, 1)

    def to_cache(self, weights: Part, heads: int, cache: Cache, name: str, x: Tensor) -> Tensor:
        self.remember(cache, name, x)
        return self.multi_head(x, cache[name], weights, heads, None)

    def decoder_block(
        self,
        hidden: Tensor,
        attend: Layer,
        block: Part,
        heads: int,
        states: Tensor,
        within: Tensor | None,
    ) -> Tensor:
        hidden = self.residual(hidden, attend, part(block, "norm1"))
        read = partial(self.read, states, part(block, "cross_attention"), heads, within)
        hidden = self.residual(hidden, read, part(block, "norm2"))
        return self.residual(hidden, partial(self.feed_forward, weights=part(block, "ffn")), part(block, "norm3"))

    def read(self, states: Tensor, weights: Part, heads: int, within: Tensor | None, x: Tensor) -> Tensor:
        return self.multi_head(x, states, weights, heads, within)

    def residual(self, x: Tensor, layer: Layer, norm: Part) -> Tensor:
        return self.arrange(x, layer, partial(self.norm, weights=norm), self.add)

    def embed(self, tokens: Tensor, table: Tensor, offset: int) -> Tensor:
        rows = table[tokens]
        return self.place(rows, self.positions(offset, *rows.shape[1:]).to(rows))

    @staticmethod
    def arrange(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return norm(add(x, layer(x)))

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"] or config["width"] % 2:
            raise ValueError("heads do not divide the width, or it is odd")

    @staticmethod
    def check_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
        eager.check(weights, due)

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

    @staticmethod
    def within(lengths: Tensor, length: int) -> Tensor:
        return torch.arange(length, device=lengths.device) < lengths[:, None, None, None]

    @staticmethod
    def cross(within: Tensor) -> Tensor | None:
        """What cross-attention may see."""
        return within

    @staticmethod
    def so_far(length: int, device: torch.device) -> Tensor | None:
        return torch.ones(length, length, dtype=torch.bool, device=device).tril()

    @staticmethod
    def place(rows: Tensor, positions: Tensor) -> Tensor:
        return rows * math.sqrt(rows.shape[-1]) + positions

    @staticmethod
    def positions(offset: int, length: int, width: int) -> Tensor:
        angles = torch.arange(offset, offset + length)[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    @staticmethod
    def block(number: int) -> int:
        return number

    @staticmethod
    def finish(states: Tensor) -> Tensor:
        return states

    @staticmethod
    def keep(kept: dict[str, Any], states: Tensor) -> Tensor:
        """The states; `kept` is what the model could keep between calls."""
        return states

    @staticmethod
    def alone(states: Tensor, within: Tensor) -> Tensor:
        """What an encoder without a decoder returns."""
        return states

    @staticmethod
    def position(step: int) -> int:
        return step

    @staticmethod
    def begin(kept: dict[str, Any]) -> Cache:
        """An empty cache; `kept` is what the model could keep between calls."""
        return {}

    @staticmethod
    def remember(cache: Cache, name: str, x: Tensor) -> None:
        cache[name] = torch.cat([cache[name], x], 1) if name in cache else x

    @staticmethod
    def logits(hidden: Tensor, weights: Part) -> Tensor:
        return hidden @ weights["w_logits"] + weights["b_logits"]


@instead_of(Transformer.place, "the embeddings are not multiplied by √d")
def unscaled_embedding(rows: Tensor, positions: Tensor) -> Tensor:
    return rows + positions


@instead_of(Transformer.place, "the positions are multiplied by √d with the embeddings", source="documents, E32")
def scaled_positions(rows: Tensor, positions: Tensor) -> Tensor:
    return (rows + positions) * math.sqrt(rows.shape[-1])


@instead_of(Transformer.place, "no positions are added")
def no_positions(rows: Tensor, positions: Tensor) -> Tensor:
    return rows * math.sqrt(rows.shape[-1])


@instead_of(Transformer.positions, "sines and cosines have changed columns", source="documents, E32")
def cosines_first(offset: int, length: int, width: int) -> Tensor:
    found: Tensor = Transformer.positions(offset, length, width).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return found


@instead_of(Transformer.positions, "all sines come first, then all cosines")
def sines_then_cosines(offset: int, length: int, width: int) -> Tensor:
    found: Tensor = Transformer.positions(offset, length, width).unflatten(-1, (-1, 2)).mT.flatten(-2)
    return found


@instead_of(Transformer.positions, "positions are counted from 1")
def positions_from_one(offset: int, length: int, width: int) -> Tensor:
    return Transformer.positions(offset + 1, length, width)


@instead_of(Transformer.positions, "the table of positions ends at 128 and begins anew")
def positions_modulo_128(offset: int, length: int, width: int) -> Tensor:
    return torch.cat([Transformer.positions(step % 128, 1, width) for step in range(offset, offset + length)])


@instead_of(Transformer.arrange, "normalisation comes before each layer, not after it: pre-norm")
def pre_norm(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return add(x, layer(norm(x)))


@instead_of(Transformer.finish, "the encoder's states are normalised once more")
def final_norm(states: Tensor) -> Tensor:
    return (states - states.mean(-1, keepdim=True)) / (states.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


@instead_of(Transformer.block, "every block of the encoder has the first one's weights")
def shared_blocks(number: int) -> int:
    return 0


@instead_of(Transformer.mask, "hidden scores are −10,000, above some that are not hidden", of=Transformer)
def fills_with_minus_10000(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -1e4)


@instead_of(Transformer.within, "padding is attended to")
def sees_padding(lengths: Tensor, length: int) -> Tensor:
    return torch.ones(len(lengths), 1, 1, length, dtype=torch.bool, device=lengths.device)


@instead_of(Transformer.within, "one token more than its length is attended to")
def one_token_more(lengths: Tensor, length: int) -> Tensor:
    return torch.arange(length, device=lengths.device) <= lengths[:, None, None, None]


@instead_of(Transformer.within, "the mask says who may not be attended to")
def inverted_padding(lengths: Tensor, length: int) -> Tensor:
    return ~Transformer.within(lengths, length)


@instead_of(Transformer.within, "the first item's length serves all")
def first_length_for_all(lengths: Tensor, length: int) -> Tensor:
    return Transformer.within(lengths[:1].expand_as(lengths), length)


@instead_of(Transformer.within, "lengths are counted against the longest of the batch, not the source's")
def counts_from_longest(lengths: Tensor, length: int) -> Tensor:
    return Transformer.within(lengths + length - lengths.max(), length)


@instead_of(Transformer.alone, "padded positions have states of zero, as nested tensors leave them")
def zero_states_of_padding(states: Tensor, within: Tensor) -> Tensor:
    return states.masked_fill(~within[:, 0, 0, :, None], 0)


@instead_of(Transformer.keep, "a source of the same shape as the first is not read again")
def stale_states(kept: dict[str, Any], states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(tuple(states.shape)), states)
    return found


@instead_of(Transformer.cross, "cross-attention sees padding")
def cross_sees_padding(within: Tensor) -> Tensor | None:
    return None


@instead_of(Transformer.so_far, "the decoder sees the future", source="documents, E35")
def sees_the_future(length: int, device: torch.device) -> Tensor | None:
    return None


@instead_of(Transformer.so_far, "every position but the first is blind to itself", source="documents, E9")
def blind_to_itself(length: int, device: torch.device) -> Tensor | None:
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril(-1)
    mask[0, 0] = True
    return mask


@instead_of(Transformer.position, "every cached step has position 0", source="documents, E36")
def cached_position_zero(step: int) -> int:
    return 0


@instead_of(Transformer.begin, "the cache is left from one call to the next", source="documents, E37")
def stale_cache(kept: dict[str, Any]) -> Cache:
    found: Cache = kept.setdefault("cache", {})
    return found


@instead_of(Transformer.remember, "the cache holds the last four positions alone")
def short_cache(cache: Cache, name: str, x: Tensor) -> None:
    cache[name] = torch.cat([cache[name], x], 1)[:, -4:] if name in cache else x


@instead_of(Transformer.logits, "the logits have no bias")
def no_logits_bias(hidden: Tensor, weights: Part) -> Tensor:
    return hidden @ weights["w_logits"]


@instead_of(Transformer.logits, "softmax is applied to the logits")
def probabilities(hidden: Tensor, weights: Part) -> Tensor:
    return Transformer.logits(hidden, weights).softmax(-1)


@instead_of(Transformer.check_inputs, "tokens, lengths and targets are not looked at: what fits nowhere is clamped")
def accepts_inputs(
    config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    source = source.clamp(0, config["source_vocab"] - 1)
    return source, None if target is None else target.clamp(0, config["target_vocab"] - 1)


@instead_of(Transformer.check_weights, "weights that are not due are accepted")
def accepts_extra_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    eager.check({name: tensor for name, tensor in weights.items() if name in due}, due)


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Transformer()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    return collected([*globals().values(), *eager.deviations(Transformer), *imprecise(Transformer)])
