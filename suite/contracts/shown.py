"""What a model shows of its attention weights, and mistakes in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.mutants import Mutation, first_for_all, turned, with_result

Found = dict[str, Tensor]
"""Attention weights by name, b h l s."""


def through_identity(answer: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """The weights of an attention, b h l s: what it answers where its values, b h s c, are columns of the identity.

    As many columns are given at a time as the values have, the last ones filled up with zeros.
    """
    keys, columns = value.shape[-2:]
    identity = pad(torch.eye(keys, dtype=value.dtype, device=value.device), (0, -keys % columns))
    parts = [answer(each.expand(*value.shape[:2], keys, columns)) for each in identity.split(columns, -1)]
    return torch.cat(parts, -1)[..., :keys]


def in_steps(parts: Sequence[Tensor]) -> Tensor:
    """The weights of queries one after the other, b h l s; the first may have had fewer keys than the last."""
    keys = parts[-1].shape[-1]
    return torch.cat([pad(part, (0, keys - part.shape[-1])) for part in parts], -2)


def renamed(found: Found, name: Callable[[str], str]) -> Found:
    """The weights under other names."""
    return {name(each): tensor for each, tensor in found.items()}


def of_next_layer(found: Found) -> Found:
    """Each attention has the weights of the one after it of the same shape, the last those of the first."""
    names = list(found)
    return {name: _next(found, names[place + 1 :] + names[:place], found[name]) for place, name in enumerate(names)}


def _next(found: Found, names: Sequence[str], own: Tensor) -> Tensor:
    return next((found[name] for name in names if found[name].shape == own.shape), own)


def first_of_shapes(found: Found, kept: dict[str, Any]) -> Found:
    """The weights of the first call in which they had the same shapes."""
    key = str({name: tuple(tensor.shape) for name, tensor in found.items()})
    first: Found = kept.setdefault(f"weights {key}", found)
    return first


def in_one_place(found: Found, kept: dict[str, Any]) -> Found:
    """The weights of a shape always lie in the same memory."""
    places = {name: kept.setdefault(f"{name} {tuple(tensor.shape)}", tensor) for name, tensor in found.items()}
    return {name: place.copy_(found[name]) for name, place in places.items()}


def through_whole_identity(answer: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """All columns of the identity at once, however many the values have."""
    keys = value.shape[-2]
    return answer(torch.eye(keys, dtype=value.dtype, device=value.device).expand(*value.shape[:2], keys, keys))


def from_the_right(parts: Sequence[Tensor]) -> Tensor:
    """Steps that had fewer keys end at the last one."""
    keys = parts[-1].shape[-1]
    return torch.cat([pad(part, (keys - part.shape[-1], 0)) for part in parts], -2)


def unmasked(weights: Tensor, masked: Tensor, scores: Tensor) -> Tensor:
    """As if nothing were hidden."""
    return scores.softmax(-1)


SHOWN = {
    "shown": {
        "shows_averaged_weights": Mutation(
            "the attention weights that are shown are the mean of all heads, b l s",
            lambda weights, masked, scores: weights.mean(1),
            "torch.nn.MultiheadAttention by default",
        ),
        "shows_mean_for_every_head": Mutation(
            "the attention weights that are shown are the mean of all heads, for every head",
            lambda weights, masked, scores: weights.mean(1, keepdim=True).expand_as(weights),
        ),
        "shows_first_head": Mutation(
            "the attention weights that are shown are the first head's, for every head", with_result(first_for_all(1))
        ),
        "shows_first_item": Mutation(
            "the attention weights that are shown are the first item's", with_result(first_for_all())
        ),
        "shows_turned_weights": Mutation(
            "queries and keys are swapped in the attention weights that are shown where there are as many",
            with_result(turned),
        ),
        "shows_scores": Mutation(
            "scores are shown in place of attention weights", lambda weights, masked, scores: masked
        ),
        "shows_powers": Mutation(
            "exponentials are shown in place of attention weights: they are not divided by their sum",
            lambda weights, masked, scores: (masked - masked.amax(-1, keepdim=True)).exp(),
        ),
        "shows_logarithms": Mutation(
            "the logarithms of attention weights are shown", with_result(lambda weights: weights.log())
        ),
        "shows_rounded_weights": Mutation(
            "the attention weights that are shown are rounded to whole thousandths",
            with_result(lambda weights: (weights * 1000).round() / 1000),
        ),
    },
    "named": {
        "shows_next_layer": Mutation("each attention shows the weights of the next one of its shape", of_next_layer),
        "shows_no_layers": Mutation("the last attention alone is shown", lambda found: dict(list(found.items())[-1:])),
        "shows_blocks_from_one": Mutation(
            "blocks are counted from 1 in the names of attention weights",
            lambda found: renamed(
                found, lambda name: ".".join(str(int(p) + 1) if p.isdigit() else p for p in name.split("."))
            ),
        ),
        "shows_a_list": Mutation("attention weights are a list without names", lambda found: list(found.values())),
    },
    "recalled": {
        "shows_first_call": Mutation(
            "the attention weights of the first call of a shape are shown in later ones", first_of_shapes
        ),
        "shows_in_one_place": Mutation(
            "attention weights of one shape are written over each other: earlier ones change with the next call",
            in_one_place,
        ),
    },
    "read": {
        "reads_plug_at_once": Mutation(
            "the weights of a plug are read off it with values that are wider than the model's", through_whole_identity
        )
    },
    "of_plug": {
        "shows_own_weights_of_plug": Mutation(
            "beside the answer of a plug the weights are shown that the model has without it",
            lambda shown, own: own(torch.eye(shown.shape[-1], dtype=shown.dtype)),
        )
    },
}
"""By the step that is wrong. None of these mistakes is made where weights are not asked for."""
OF_HIDDEN = {
    "shown": {
        "shows_unmasked_weights": Mutation("the attention weights that are shown are those without any mask", unmasked),
        "shows_faint_weights_of_hidden_keys": Mutation(
            "keys that are hidden have a weight that is shown, of 10⁻⁹",
            with_result(lambda weights: weights.clamp_min(1e-9)),
        ),
    },
    "given_to_read": {
        "reads_plug_unmasked": Mutation("the weights of a plug are read off it without any mask", lambda given: {})
    },
}
"""The same of models in which something is hidden."""
IN_STEPS = {
    "shows_last_step": Mutation(
        "of cached decoding the weights of the last step alone are shown", lambda parts: parts[-1]
    ),
    "shows_steps_from_the_right": Mutation("the weights of cached steps end all at the last key", from_the_right),
}
"""Mistakes in the step `stacked`, of models that decode token by token."""
