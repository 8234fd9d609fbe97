"""Mistakes in what is accepted: bad input is answered instead of refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from attnsuite.cases.mutants import Mutation, mutants, with_arguments
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.mutants.sizes import with_first_keys


def with_one_width(asked: Asked) -> Asked:
    width = min(asked.query.shape[-1], asked.key.shape[-1])
    return asked.changed(lambda tensor: tensor[..., :width], "query", "key")


def with_one_length(asked: Asked) -> Asked:
    lengths = asked.keys, asked.value.shape[-2]
    return asked if lengths[0] == lengths[1] else with_first_keys(asked, min(lengths))


def expanded_by_mask(asked: Asked) -> Asked:
    """The call with as many queries, keys, heads and items as the mask has."""
    mask = asked["attn_mask"]
    if mask is None or mask.dim() > asked.rank or asked.grouped:
        return asked
    try:
        *lead, queries, keys = torch.broadcast_shapes(asked.scores_shape, mask.shape)
    except RuntimeError:  # it fits no way
        return asked
    query = asked.query.expand(*lead, queries, -1)
    return replace(asked, query=query, **{
        name: getattr(asked, name).expand(*lead, keys, -1) for name in ("key", "value")
    })  # fmt: skip


def with_all_heads(asked: Asked) -> Asked:
    """The call whose keys and values have the query's heads, each for themselves."""
    counts = [tensor.shape[-3] if asked.rank > 2 else 1 for tensor in (asked.key, asked.value)]
    if counts[0] == counts[1] or any(not count or asked.heads % count for count in counts):
        return asked
    key, value = (
        tensor.repeat_interleave(asked.heads // count, dim=-3)
        for tensor, count in zip((asked.key, asked.value), counts, strict=True)
    )
    return replace(asked, key=key, value=value)


WHERE: dict[str, tuple[str, Callable[[Asked], bool]]] = {
    "when_causal": ("under causal", lambda asked: bool(asked["is_causal"])),
    "with_scale": ("with a given scale", lambda asked: asked["scale"] is not None),
    "in_window": ("in a window", lambda asked: asked["window"] is not None),
    "with_mask": ("with a mask", lambda asked: asked["attn_mask"] is not None),
    "in_groups": ("with enable_gqa", lambda asked: bool(asked["enable_gqa"])),
    "for_one_query": ("for a single query", lambda asked: asked.queries == 1),
    "in_rank_3": ("in rank 3", lambda asked: asked.rank == 3),
    "in_rank_2": ("in rank 2", lambda asked: asked.rank == 2),
}
"""Where a path of its own may lack the checks of the usual one, each in words."""


def unchecked(says: str, bent: Callable[[Asked], Asked]) -> Callable[[str], Mutation]:
    """Bad input that is bent into what fits, in one of these places alone."""

    def wrong(place: str) -> Mutation:
        words, there = WHERE[place]
        return Mutation(f"{says} {words}", with_arguments(asked=lambda asked: bent(asked) if there(asked) else asked))

    return wrong


def without_negative_dropout(asked: Asked) -> Asked:
    return asked.but(dropout_p=max(asked["dropout_p"], 0.0))


LENGTHS = unchecked("keys and values of different lengths are accepted", with_one_length)
WIDTHS = unchecked("a query and key of different widths are accepted", with_one_width)
DROPOUT = unchecked("a negative dropout_p is accepted as 0", without_negative_dropout)
UNCHECKED = mutants(
    Dense,
    receive={
        **{f"accepts_mismatched_lengths_{place}": LENGTHS(place) for place in WHERE},
        **{f"accepts_mismatched_widths_{place}": WIDTHS(place) for place in WHERE},
        **{f"accepts_negative_dropout_{place}": DROPOUT(place) for place in ("with_mask", "in_rank_3", "in_rank_2")},
        "accepts_masks_that_expand": Mutation(
            "a mask with more queries, keys, heads or items than there are expands the answer",
            with_arguments(asked=expanded_by_mask),
            "pytorch's math backend and jax.nn broadcast the scores to the mask",
        ),
        "accepts_other_heads_of_values": Mutation(
            "keys and values of different numbers of heads are accepted with enable_gqa",
            with_arguments(asked=with_all_heads),
            "pytorch, scaled_dot_product_attention",
        ),
        "accepts_groups_without_asking": Mutation(
            "grouped heads are accepted without enable_gqa",
            with_arguments(asked=lambda asked: asked.but(enable_gqa=True)),
        ),
    },
)


MUTANTS = mutants(
    Dense,
    receive={
        "accepts_mismatched_widths": Mutation(
            "a query and key of different widths are accepted: the wider is cut", with_arguments(asked=with_one_width)
        ),
        "accepts_mismatched_lengths": Mutation(
            "keys and values of different lengths are accepted: the longer are cut",
            with_arguments(asked=with_one_length),
            "pytorch, scaled_dot_product_attention on a CPU",
        ),
    },
)
