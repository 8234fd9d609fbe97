"""Mutants of the contract `transformer`, and its correct variants."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import gelu

from attnsuite.cases import Variant
from attnsuite.cases.changes import first_for_all
from attnsuite.cases.computations import bias_first, imprecise_mutants, linear
from attnsuite.cases.mutants import Mutation, formula, mutants, with_arguments, with_result
from attnsuite.contracts.models import greedy
from attnsuite.contracts.models.mutants import CHECK_SENTENCES, CHECK_WEIGHTS, first_of_shape, mutants_of_blocks
from attnsuite.contracts.models.transformer.model import Transformer
from attnsuite.contracts.models.variants import HeadByHead, Library, without_backend
from attnsuite.contracts.shared import FAINT_WEIGHTS
from attnsuite.contracts.softmax import fill


def _half_angles(offset: int, length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.bfloat16) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.bfloat16)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


CONTROLS = {"correct": Transformer()}
COMMON = [*mutants_of_blocks(Transformer), *imprecise_mutants(Transformer)]
ACCEPTED = mutants(
    Transformer,
    check_inputs=CHECK_SENTENCES,
    check_weights={
        **CHECK_WEIGHTS,
        "contiguous_weights": Mutation("weights must be contiguous",
            with_arguments(weights=lambda weights: {name: w.view(-1).view(w.shape) for name, w in weights.items()})),
    },
)  # fmt: skip
BLOCKS = mutants(
    Transformer,
    place={
        "no_positions": Mutation("no positions are added", lambda rows, positions: rows * math.sqrt(rows.shape[-1])),
        "unscaled_embedding": Mutation("the embeddings are not multiplied by √d",
            lambda rows, positions: rows + positions),
    },
    positions={
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
)  # fmt: skip
MASKS = mutants(
    Transformer,
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
)  # fmt: skip
BACKEND = mutants(
    Transformer,
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
)  # fmt: skip
GREEDY = mutants(Transformer, **greedy.MUTANTS)
RETURNED_WEIGHTS = mutants(
    Transformer,
    stacked={"shows_last_step": Mutation("cached decoding returns the weights of the last step only",
        lambda parts: parts[-1])},
    returned=FAINT_WEIGHTS,
)  # fmt: skip
BETWEEN_CALLS = mutants(
    Transformer,
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


class _Library(Library, Transformer):
    logits = formula(lambda hidden, weights: linear(hidden, weights["w_logits"], weights["b_logits"]))


class _HeadByHead(HeadByHead, Transformer):
    logits = formula(lambda hidden, weights: bias_first(hidden, weights["w_logits"], weights["b_logits"]))

    @staticmethod
    def positions(offset: int, length: int, width: int, base: float = 10000.0) -> Tensor:
        """Angles by exponentials of logarithms."""
        rates = torch.exp(torch.arange(0, width, 2).double() * (-math.log(base) / width))
        angles = torch.outer(torch.arange(offset, offset + length).double(), rates)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def variants() -> list[Variant]:
    """The model with other blocks, and in other precisions."""
    in_float64 = without_backend(_Library(wide=lambda numbers: torch.float64))
    return [
        Variant("library", "PyTorch's own functions in the dtype itself", _Library()),
        Variant("head_by_head", "one head after the other, biases first", without_backend(_HeadByHead())),
        Variant("float64", "PyTorch's own functions in float64", in_float64),
    ]
