"""What says who may attend, and dropout, ignored in one place each: beside another option, or in some sizes alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from attnsuite.cases.computations import Arguments
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead

Place = Callable[[Arguments], bool]
IDLE: dict[str, tuple[str, Any]] = {
    "attn_mask": ("the mask", None),
    "is_causal": ("the causal rule", False),
    "dropout_p": ("dropout", 0.0),
}
"""What is ignored, in words, and what it is where there is none."""
SIZES: dict[str, tuple[str, Place]] = {
    "of_one_query": ("where there is one query", lambda given: given["query"].shape[1] == 1),
    "of_one_head": ("where there is one head", lambda given: given["num_heads"] == 1),
}
LARGE_SIZES: dict[str, tuple[str, Place]] = {
    "of_one_item": ("where there is one item", lambda given: len(given["query"]) == 1),
    "of_many_heads": ("where there are more than 8 heads", lambda given: given["num_heads"] > 8),
    "of_many_queries": ("where there are more than 64 queries", lambda given: given["query"].shape[1] > 64),
    "of_many_keys": ("where there are more than 64 keys", lambda given: given["key"].shape[1] > 64),
    "across_widths": (
        "where keys have another width than queries",
        lambda given: given["key"].shape[2] != given["query"].shape[2],
    ),
    "with_value_heads": (
        "where value heads have a width of their own",
        lambda given: given["w_value"].shape[1] != given["w_query"].shape[1],
    ),
    "beside_biases": ("beside biases", lambda given: given["b_query"] is not None),
    "before_a_map": ("before an output map", lambda given: given["w_output"] is not None),
}
RULES: dict[str, tuple[str, Place]] = {
    "beside_a_mask": ("beside a mask", lambda given: given["attn_mask"] is not None),
    "beside_causal": ("under the causal rule", lambda given: given["is_causal"]),
    "before_a_map": LARGE_SIZES["before_a_map"],
}
PLACES = {
    "attn_mask": SIZES | LARGE_SIZES,
    "is_causal": SIZES | LARGE_SIZES,
    "dropout_p": SIZES | RULES,
}
"""Where each may be ignored."""


def wrong(argument: str, place: Place) -> Callable[..., Any]:
    """The computation without an argument in one place."""
    correct = MultiHead()
    signature = inspect.signature(correct)

    def computed(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        if place(bound.arguments):
            bound.arguments[argument] = IDLE[argument][1]
        return correct(*bound.args, **bound.kwargs)

    return computed


MUTANTS = mutants(
    MultiHead,
    whole={
        f"ignores_{argument}_{name}": Mutation(f"{IDLE[argument][0]} is ignored {says}", wrong(argument, place))
        for argument, places in PLACES.items()
        for name, (says, place) in places.items()
    },
)
