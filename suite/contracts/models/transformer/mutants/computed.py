"""Mistakes in what goes in, in the blocks and what comes out; in who attends to whom; in what is left of earlier calls."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from attnsuite.cases.computations import imprecise_mutants
from attnsuite.cases.mutants import Mutation, first_for_all, mutants, turned, with_arguments, with_result
from attnsuite.contracts import asking_plugs
from attnsuite.contracts.models import common, greedy
from attnsuite.contracts.models.eager import Part
from attnsuite.contracts.models.transformer.mutants.staged import Cache, Transformer
from attnsuite.contracts.shown import IN_STEPS, OF_HIDDEN
from attnsuite.contracts.softmax import fill


def half_angles(offset: int, length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.bfloat16) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.bfloat16)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def single_angles(offset: int, length: int, width: int) -> Tensor:
    powers = 10000 ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.float32)[:, None] / powers
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def single_angles_by_logarithm(offset: int, length: int, width: int) -> Tensor:
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    angles = torch.arange(offset, offset + length, dtype=torch.float32)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def slow_positions(offset: int, length: int, width: int) -> Tensor:
    angles = torch.arange(offset, offset + length)[:, None] / 100 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def modulo_5000(offset: int, length: int, width: int) -> Tensor:
    return Transformer.positions(0, 5000, width)[torch.arange(offset, offset + length) % 5000]


def normalised(states: Tensor) -> Tensor:
    return (states - states.mean(-1, keepdim=True)) / (states.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


def blind_to_itself(mask: Tensor) -> Tensor:
    mask = mask.tril(-1)
    mask[0, 0] = True
    return mask


def first_of_shape(kept: dict[str, Any], states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(tuple(states.shape)), states)
    return found


def of_same_tensor(kept: dict[str, Any], source: Tensor, states: Tensor) -> Tensor:
    before, known = kept.get("source", (None, None))
    if before is source and known is not None:
        found: Tensor = known
        return found
    kept["source"] = source, states
    return states


def last_sixteen(cache: Cache, name: str, x: Tensor) -> None:
    cache[name] = torch.cat([cache[name], x], 1)[:, -16:] if name in cache else x


def renamed(weights: Part, taken: Callable[[str], str]) -> dict[str, Tensor]:
    """Each tensor is the one of another name, where there is one."""
    return {name: weights.get(taken(name), each) for name, each in weights.items()}


def one_attention(weights: Part) -> dict[str, Tensor]:
    return renamed(weights, lambda name: name.replace("cross_attention", "self_attention"))


def of_the_encoder(weights: Part) -> dict[str, Tensor]:
    return renamed(weights, lambda name: name.replace("decoder", "encoder").replace("self_attention", "attention"))


def first_decoder(weights: Part) -> dict[str, Tensor]:
    return renamed(weights, lambda name: re.sub(r"^decoder[.]\d+", "decoder.0", name))


CONTROLS = {"correct": Transformer()}
GENERAL_MUTANTS = [*common.general_mutants(Transformer), *imprecise_mutants(Transformer)]
BLOCKS = mutants(
    Transformer,
    place={
        "unscaled_embedding": Mutation(
            "the embeddings are not multiplied by √d", lambda rows, positions: rows + positions
        ),
        "scaled_positions": Mutation(
            "the positions are multiplied by √d with the embeddings",
            lambda rows, positions: (rows + positions) * math.sqrt(rows.shape[-1]),
            "documents, E32",
        ),
        "no_positions": Mutation("no positions are added", lambda rows, positions: rows * math.sqrt(rows.shape[-1])),
    },
    positions={
        "cosines_first": Mutation(
            "sines and cosines have changed columns",
            with_result(lambda found: found.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
            "documents, E32",
        ),
        "sines_then_cosines": Mutation(
            "all sines come first, then all cosines",
            with_result(lambda found: found.unflatten(-1, (-1, 2)).mT.flatten(-2)),
        ),
        "positions_from_one": Mutation(
            "positions are counted from 1", with_arguments(offset=lambda offset: offset + 1)
        ),
        "positions_modulo_5000": Mutation("the table of positions ends at 5,000 and begins anew", modulo_5000),
        "float32_angles": Mutation(
            "angles are computed in float32 for weights in float64", single_angles, "", ("float64",)
        ),
        "float32_angles_by_logarithm": Mutation(
            "angles are computed in float32 for weights in float64, by exponentials of logarithms",
            single_angles_by_logarithm,
            "PyTorch's tutorial",
            ("float64",),
        ),
        "half_exponents": Mutation("exponents are j/d for 2j/d: the frequencies fall half as fast", slow_positions),
        "half_angles": Mutation("angles are computed in the dtype of the weights", half_angles, dtypes=("bfloat16",)),
    },
    activate={"gelu_networks": Mutation("the networks have GELU, not ReLU", gelu)},
    arrange={
        "pre_norm": Mutation(
            "normalisation comes before each layer, not after it: pre-norm",
            lambda x, layer, norm, add: add(x, layer(norm(x))),
        )
    },
    finish={"final_norm": Mutation("the encoder's states are normalised once more", normalised)},
    block={"shared_blocks": Mutation("every block of the encoder has the first one's weights", lambda number: 0)},
    logits={
        "no_logits_bias": Mutation("the logits have no bias", lambda hidden, weights: hidden @ weights["w_logits"]),
        "probabilities": Mutation("softmax is applied to the logits", with_result(lambda logits: logits.softmax(-1))),
    },
)
SHARED = mutants(
    Transformer,
    widened={
        "one_embedding": Mutation(
            "the target's tokens have the source's embedding where the vocabularies are as large",
            with_arguments(weights=common.shared("source_embedding", "target_embedding")),
        ),
        "tied_logits": Mutation(
            "the logits' weights are the target's embedding, transposed",
            with_arguments(weights=common.shared("target_embedding", "w_logits")),
        ),
        "logits_of_source_embedding": Mutation(
            "the logits' weights are the source's embedding, transposed, where the vocabularies are as large",
            with_arguments(weights=common.shared("source_embedding", "w_logits")),
        ),
        "one_attention_for_both": Mutation(
            "cross-attention has the weights of self-attention", with_arguments(weights=one_attention)
        ),
        "encoder_for_decoder": Mutation(
            "the decoder's self-attention has the encoder's weights", with_arguments(weights=of_the_encoder)
        ),
        "one_decoder_block": Mutation(
            "every block of the decoder has the first one's weights", with_arguments(weights=first_decoder)
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
MASKING = mutants(
    Transformer,
    mask={
        "fills_with_minus_10000": Mutation("hidden scores are −10,000, above some that are not hidden", fill(-1e4)),
        "fills_with_minus_million": Mutation("hidden scores are −10⁶, above some that are not hidden", fill(-1e6)),
    },
    within={
        "lengths_from_the_end": Mutation(
            "lengths are counted from the source's end: the last tokens are attended to",
            with_result(lambda within: within.flip(-1)),
        ),
        "sees_padding": Mutation("padding is attended to", with_result(torch.ones_like)),
        "one_token_more": Mutation(
            "one token more than its length is attended to", with_arguments(lengths=lambda lengths: lengths + 1)
        ),
        "sees_padding_of_one_item": Mutation(
            "padding is attended to where there is one item",
            with_result(lambda within, lengths: torch.ones_like(within) if len(lengths) == 1 else within),
        ),
        "sees_padding_beyond_64": Mutation(
            "padding is attended to in sources of more than 64 tokens",
            with_result(lambda within, length: torch.ones_like(within) if length > 64 else within),
        ),
        "inverted_padding": Mutation("the mask says who may not be attended to", with_result(torch.logical_not)),
        "first_length_for_all": Mutation("the first item's length serves all", with_arguments(lengths=first_for_all())),
        "counts_from_longest": Mutation(
            "lengths are counted against the longest of the batch, not the source's",
            with_arguments(lengths=lambda lengths, length: lengths + length - lengths.max()),
        ),
    },
    alone={
        "zero_states_of_padding": Mutation(
            "padded positions have states of zero, as nested tensors leave them",
            lambda states, within: states.masked_fill(~within[:, 0, 0, :, None], 0),
        )
    },
    own={"encoder_sees_padding": Mutation("the encoder's self-attention sees padding", lambda within: None)},
    cross={"cross_sees_padding": Mutation("cross-attention sees padding", lambda within: None)},
    so_far={
        "sees_the_future": Mutation("the decoder sees the future", lambda length, device: None, "documents, E35"),
        "sees_the_future_beyond_64": Mutation(
            "the decoder sees the future in targets of more than 64 tokens",
            with_result(lambda mask, length: torch.ones_like(mask) if length > 64 else mask),
        ),
        "sees_one_ahead": Mutation(
            "the decoder sees the next position too",
            lambda length, device: torch.ones(length, length, dtype=torch.bool, device=device).tril(1),
        ),
        "blind_to_itself": Mutation(
            "every position but the first is blind to itself", with_result(blind_to_itself), "documents, E9"
        ),
    },
)
PLUG = mutants(
    Transformer,
    plug={
        "plugged_into_self_attention_alone": Mutation(
            "the attention that is plugged in is not called where queries and keys differ in number: in cross-attention",
            lambda own, plugged: (
                lambda name, query, key, value, allowed: (plugged if query.shape == key.shape else own)(
                    name, query, key, value, allowed
                )
            ),
        )
    },
    needed={
        "plug_without_mask": Mutation(
            "the attention that is plugged in is called without any mask", lambda allowed: {}
        ),
        "plug_without_padding": Mutation(
            "the attention that is plugged in is called without the mask of padding",
            lambda allowed: {} if allowed is None or allowed.dim() == 4 else {"attn_mask": allowed},
        ),
        "plug_without_causal": Mutation(
            "the attention that is plugged in is called without the causal rule",
            lambda allowed: {} if allowed is None or allowed.dim() == 2 else {"attn_mask": allowed},
        ),
    },
    ask=asking_plugs.MASKED,
)
GREEDY = mutants(Transformer, **greedy.MUTATIONS)
SHOWN = mutants(Transformer, stacked=IN_STEPS, **OF_HIDDEN)
CALLS = mutants(
    Transformer,
    cached={
        "cached_steps_see_padding": Mutation(
            "cached steps attend to the padding of the source",
            with_arguments(within=lambda within: torch.ones_like(within)),
        ),
        "cached_steps_see_padding_of_one_item": Mutation(
            "cached steps attend to the padding of the source where there is one item",
            with_arguments(within=lambda within: torch.ones_like(within) if len(within) == 1 else within),
        ),
    },
    full={
        "whole_targets_see_padding_of_one_item": Mutation(
            "a whole target attends to the padding of the source where there is one item",
            with_arguments(within=lambda within: torch.ones_like(within) if len(within) == 1 else within),
        )
    },
    keep={
        "stale_states": Mutation(
            "a source of the same shape as the first is not read again",
            lambda kept, source, states: first_of_shape(kept, states),
        ),
        "remembers_tensors": Mutation("a source that lies where an earlier one lay is not read again", of_same_tensor),
        "remembers_tokens": Mutation(
            "a source of the same tokens as an earlier one is not read again, whatever its lengths",
            lambda kept, source, states: kept.setdefault(str(source.tolist()), states),
        ),
    },
    position={"cached_position_zero": Mutation("every cached step has position 0", lambda step: 0, "documents, E36")},
    begin={
        "stale_cache": Mutation(
            "the cache is left from one call to the next", lambda kept: kept.setdefault("cache", {}), "documents, E37"
        )
    },
    memory={"stale_memory": Mutation("cached steps read the first source of that shape", first_of_shape)},
    remember={
        "short_cache": Mutation("the cache holds the last sixteen positions alone", last_sixteen),
    },
)
