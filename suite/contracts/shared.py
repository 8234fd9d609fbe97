"""Steps and mutants of several contracts: calls of a backend, returned attention weights, and the softmax."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.changes import first_for_all, turned
from attnsuite.cases.mutants import Mutation, StepChange, with_arguments, with_result

Attention = Callable[..., Tensor]
Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, b h l p each."""
Options = Mapping[str, Any]
"""A backend's keyword arguments."""
Weights = dict[str, Tensor]
"""Attention weights by name, b h l s."""


def without_argument(name: str) -> StepChange:
    """Calls the backend without one of the arguments that it needs."""
    return with_result(lambda needed: {other: value for other, value in needed.items() if other != name})


def ignoring(
    argument: str, words: str, idle: Any, places: Mapping[str, tuple[str, Callable[..., bool]]], *names: str
) -> dict[str, Mutation]:
    """Mutants of a whole computation: an argument has its idle value in some places, by default in all.

    A place has words and a test, whose parameters are named like arguments of the computation.
    """

    def change(place: Callable[..., bool]) -> StepChange:
        def ignored(value: Any, *others: Any) -> Any:
            return idle if place(*others) else value

        value = inspect.Parameter("value", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [value, *inspect.signature(place).parameters.values()]
        ignored.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return with_arguments(**{argument: ignored})

    return {
        f"ignores_{argument}_{name}": Mutation(f"{words} is ignored {says}", change(place))
        for name, (says, place) in places.items()
        if not names or name in names
    }


CALLS_OF_BACKEND = {
    "plug_scaled_twice": Mutation("queries are divided by √p before the backend divides by it again",
        with_arguments(heads=lambda heads: (heads[0] / math.sqrt(heads[0].shape[-1]), *heads[1:]))),
    "plug_given_idle_mask": Mutation("the backend gets a mask that hides nothing", with_arguments(options=
        lambda options, heads: {"attn_mask": torch.ones(heads[0].shape[2], heads[1].shape[2]) > 0, **options})),
    "plug_given_dropout": Mutation("the backend is called with dropout of 0.1 instead of 0",
        with_arguments(options=lambda options: {"dropout_p": 0.1, **options})),
}  # fmt: skip
"""Mutants of the step `call_backend`, which calls the backend with heads and options."""


def through_identity(attend: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """The weights of an attention, b h l s: its output for values, b h s c, that are columns of the identity.

    A call takes as many columns as the values have; the last call is filled up with zeros.
    """
    keys, columns = value.shape[-2:]
    identity = pad(torch.eye(keys, dtype=value.dtype, device=value.device), (0, -keys % columns))
    parts = [attend(part.expand(*value.shape[:2], keys, columns)) for part in identity.split(columns, -1)]
    return torch.cat(parts, -1)[..., :keys]


def through_whole_identity(attend: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """The same with one call, whose values are as wide as there are keys."""
    keys = value.shape[-2]
    return attend(torch.eye(keys, dtype=value.dtype, device=value.device).expand(*value.shape[:2], keys, keys))


OF_WEIGHTS = {
    "shows_averaged_weights": Mutation(
        "the returned attention weights are the mean over all heads, b l s",
        with_result(lambda weights: weights.mean(1)),
        "torch.nn.MultiheadAttention by default",
    ),
    "shows_first_item": Mutation("the returned attention weights are the first item's", with_result(first_for_all())),
    "shows_turned_weights": Mutation(
        "queries and keys are swapped in the returned attention weights where the two axes have one size",
        with_result(turned),
    ),
}
"""Mutants of the step `returned`, which returns the weights, b h l s."""
FAINT_WEIGHTS = {
    "shows_faint_weights_of_hidden_keys": Mutation(
        "hidden keys have a returned weight of 10⁻⁹", with_result(lambda weights: weights.clamp_min(1e-9))
    )
}
"""A mutant of the same step, where keys may be hidden."""
READING = {
    "reads_plug_at_once": Mutation(
        "the backend's weights are read with values that are wider than the model's", through_whole_identity
    )
}
"""Mutants of the step `read`, which reads a backend's weights."""


def softmax(scores: Tensor) -> Tensor:
    """Over the last axis; a row of −∞ alone gives zeros."""
    if not scores.shape[-1]:
        return scores.clone()
    largest = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    return shares((scores - largest).exp())


def shares(terms: Tensor) -> Tensor:
    """Each number divided by the sum of its row; zeros where that is 0."""
    total = terms.sum(-1, keepdim=True)
    return terms / total.masked_fill(total == 0, 1.0)


def unguarded(terms: Tensor) -> Tensor:
    """Each number divided by the sum of its row, which must not be 0."""
    return terms / terms.sum(-1, keepdim=True)


def overflowing(scores: Tensor) -> Tensor:
    """The mistake of not subtracting the largest score."""
    return shares(scores.exp())


def over_queries(scores: Tensor) -> Tensor:
    """The mistake of a softmax over the queries."""
    return softmax(scores.mT).mT


def masked(scores: Tensor, allowed: Tensor) -> Tensor:
    """Scores of −∞ where a query may not attend."""
    return scores.masked_fill(~allowed, -math.inf)


def fill(number: float, *, but_empty_rows: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    """The mistake of another number than −∞ for masked scores; `but_empty_rows` keeps −∞ in rows masked as a whole."""

    def mask(scores: Tensor, allowed: Tensor) -> Tensor:
        filled = scores.masked_fill(~allowed, number)
        return filled.masked_fill(~allowed.any(-1, keepdim=True), -math.inf) if but_empty_rows else filled

    return mask


OF_MASKS = {
    "inverted_mask": Mutation("the mask is inverted: True hides", with_arguments(allowed=torch.logical_not)),
    "ignored_mask": Mutation("the mask is ignored", lambda scores, allowed: scores.clone()),
    "transposed_mask": Mutation("the mask is transposed where it is square", with_arguments(allowed=turned)),
}
"""Mutants of a step `mask`, which gets scores and a mask."""
