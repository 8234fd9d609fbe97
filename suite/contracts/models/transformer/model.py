"""The oracle of the contract `transformer`, and the eager model in steps, its mutants and correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu

from attnsuite.cases import Mutant, Variant
from attnsuite.cases.changes import first_for_all
from attnsuite.cases.computations import bias_first, imprecise_mutants, linear
from attnsuite.cases.mutants import Mutation, formula, mutants, with_arguments, with_result
from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Blocks, Config, Part, Storage, Translating, check_sentences, part
from attnsuite.contracts.models.mutants import (
    CHECK_WEIGHTS,
    TRANSLATING,
    first_of_shape,
    mutants_of_blocks,
    variants_of,
)
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.contracts.shared import FAINT_WEIGHTS, fill
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


def _half_angles(offset: int, length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.bfloat16) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.bfloat16)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def _with_halves(mutant: Mutant) -> Mutant:
    """A mutant that also explains the same mistake in the encoder or the decoder alone, as a tested module makes it."""
    forms = [form for form in (mutant.function, *mutant.others) if isinstance(form, Transformer) and form.replaced]
    halves = [Transformer(**{step: getattr(form, step) for step in half}) for form in forms for half in HALVES]
    return replace(mutant, others=(*mutant.others, *halves))


HALVES = (("encode",), ("full", "cached"))
CONTROLS = {"correct": Transformer()}
COMMON = [*map(_with_halves, mutants_of_blocks(Transformer)), *imprecise_mutants(Transformer)]
MUTANTS = mutants(
    Transformer,
    **TRANSLATING,
    check_weights={
        **CHECK_WEIGHTS,
        "contiguous_weights": Mutation("weights must be contiguous",
            with_arguments(weights=lambda weights: {name: w.view(-1).view(w.shape) for name, w in weights.items()})),
    },
    place={
        "no_positions": Mutation("no positions are added", lambda rows, positions: rows * math.sqrt(rows.shape[-1])),
        "unscaled_embedding": Mutation("the embeddings are not multiplied by √d",
            lambda rows, positions: rows + positions),
    },
    positions={
        "positions_from_one": Mutation("positions count from 1",
            lambda offset, length, width: Transformer.positions(offset + 1, length, width)),
        "cosines_first": Mutation("cosines come first, sines second",
            with_result(lambda positions: positions.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)), "documents, E32"),
        "positions_modulo_5000": Mutation("positions are taken modulo 5,000, the length of a table",
            lambda offset, length, width:
            Transformer.positions(0, 5000, width)[torch.arange(offset, offset + length) % 5000]),
        "half_angles": Mutation("angles are computed in the weights' dtype", _half_angles,
            dtypes=("bfloat16",)),
    },
    activate={"gelu_networks": Mutation("the networks have GELU, not ReLU", gelu)},
    arrange={"pre_norm": Mutation("normalisation comes before each layer instead of after it",
        lambda x, layer, norm, add: add(x, layer(norm(x))))},
    block={"shared_blocks": Mutation("all blocks of the encoder have the first one's weights", lambda number: 0)},
    logits={
        "no_logits_bias": Mutation("the logits have no bias", lambda hidden, weights: hidden @ weights["w_logits"]),
        "probabilities": Mutation("softmax is applied to the logits", with_result(lambda logits: logits.softmax(-1))),
    },
    mask={"fills_with_minus_1e9": Mutation("hidden scores are −10⁹, above some visible ones", fill(-1e9))},
    within={
        "sees_padding": Mutation("padding is attended to", with_result(torch.ones_like)),
        "sees_padding_of_one_item": Mutation("padding is attended to in a batch of one",
            with_result(lambda within: torch.ones_like(within) if len(within) == 1 else within)),
        "sees_padding_beyond_64": Mutation("padding is attended to in sources of more than 64 tokens",
            with_result(lambda within, length: torch.ones_like(within) if length > 64 else within)),
        "inverted_padding": Mutation("the mask of padding is inverted: tokens are hidden",
            with_result(torch.logical_not)),
        "first_length_for_all": Mutation("the first item's length serves all", with_arguments(lengths=first_for_all())),
    },
    alone={"zero_states_of_padding": Mutation("padded positions have states of zero, as nested tensors leave them",
        lambda states, within: states.masked_fill(~within[:, 0, 0, :, None], 0))},
    own={"encoder_sees_padding": Mutation("the encoder's self-attention sees padding", lambda within: None)},
    cross={"cross_sees_padding": Mutation("cross-attention sees padding", lambda within: None)},
    causal={
        "sees_the_future": Mutation("the decoder sees the future", lambda length, device: None, "documents, E35"),
        "sees_the_future_beyond_64": Mutation("the decoder sees the future in targets of more than 64 tokens",
            with_result(lambda mask, length: torch.ones_like(mask) if length > 64 else mask)),
    },
    cached={"cached_steps_see_padding": Mutation("cached steps attend to the padding of the source",
        with_arguments(within=torch.ones_like))},
    choose={"plugged_into_self_attention_alone": Mutation(
        "the backend is not called where queries and keys differ in number",
        lambda own, backend: (lambda name, query, key, value, allowed:
        (backend if query.shape == key.shape else own)(name, query, key, value, allowed)))},
    needed={
        "plug_without_padding": Mutation("the backend is called without the mask of padding",
            lambda allowed: {} if allowed is None or allowed.dim() == 4 else {"attn_mask": allowed}),
        "plug_without_causal": Mutation("the backend is called without the causal mask",
            lambda allowed: {} if allowed is None or allowed.dim() == 2 else {"attn_mask": allowed}),
    },
    stacked={"shows_last_step": Mutation("cached decoding returns the weights of the last step only",
        lambda parts: parts[-1])},
    returned=FAINT_WEIGHTS,
    keep={
        "stale_states": Mutation("a source of the first one's shape is not read",
            lambda storage, source, states: first_of_shape(storage, states)),
        "remembers_tokens": Mutation("a source of the same tokens as an earlier one is not read, whatever its lengths",
            lambda storage, source, states: storage.setdefault(str(source.tolist()), states)),
    },
    position={"cached_position_zero": Mutation("every cached step has position 0", lambda step: 0, "documents, E36")},
    begin={"stale_cache": Mutation("the cache survives from one call to the next",
        lambda storage: storage.setdefault("cache", {}), "documents, E37")},
    memory={"stale_memory": Mutation("cached steps read the first source of that shape", first_of_shape)},
    remember={"short_cache": Mutation("the cache holds the last sixteen positions only",
        lambda cache, name, x: cache.update({name: torch.cat([cache.get(name, x[:, :0]), x], 1)[:, -16:]}))},
)  # fmt: skip
MUTANTS = [*map(_with_halves, MUTANTS)]


def _by_logarithms(offset: int, length: int, width: int) -> Tensor:
    """Positions whose angles are made of exponentials of logarithms."""
    rates = torch.exp(torch.arange(0, width, 2).double() * (-math.log(10000.0) / width))
    angles = torch.outer(torch.arange(offset, offset + length).double(), rates)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def variants() -> list[Variant]:
    """The model with other blocks, and in other precisions."""
    return variants_of(
        Transformer,
        {"logits": lambda hidden, weights: linear(hidden, weights["w_logits"], weights["b_logits"])},
        {"logits": lambda hidden, weights: bias_first(hidden, weights["w_logits"], weights["b_logits"]),
            "positions": _by_logarithms},
    )  # fmt: skip
