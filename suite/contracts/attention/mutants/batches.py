"""Mistakes that mix batch items or heads, and cheats that ignore the question."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct


def _of_items(asked: Asked) -> bool:
    return asked.rank == 4 and asked.query.shape[0] > 1


def _first_items_keys(asked: Asked) -> Asked:
    return asked.changed(lambda key: key[:1].expand_as(key), "key") if _of_items(asked) else asked


def _into_the_next(axis: int, asked: Asked) -> Asked:
    """The last key and value are the first of the next along an axis."""
    if asked.rank < -axis or asked.key.shape[axis] < 2 or not asked.keys:
        return asked
    return asked.changed(lambda t: torch.cat([t[..., :-1, :], t.roll(-1, axis)[..., :1, :]], dim=-2), "key", "value")


def fitted(tensor: Tensor, width: int) -> Tensor:
    """Cut, or padded with zeros, to a width."""
    return torch.nn.functional.pad(tensor, (0, width - tensor.shape[-1]))


def _last_query_only(output: Tensor) -> Tensor:
    first = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1) < output.shape[-2] - 1
    return output.masked_fill(first, 0.0)


MUTANTS = mutants(
    Dense,
    widen={
        "shares_first_items_keys": Mutation(
            "all batch items read the first item's keys", with_arguments(asked=_first_items_keys)
        ),
        "reads_into_next_item": Mutation(
            "the last key and value of a batch item are the next item's first",
            with_arguments(asked=lambda asked: _into_the_next(-4, asked)),
            "off-by-one strides",
        ),
        "reads_into_next_head": Mutation(
            "the last key and value of a head are the next head's first",
            with_arguments(asked=lambda asked: _into_the_next(-3, asked)),
            "off-by-one strides",
        ),
    },
    softmax={
        "returns_mean_of_values": Mutation(
            "query and key are ignored: the answer is the mean of the values",
            with_arguments(scores=lambda scores: scores.masked_fill(scores > -torch.inf, 0.0)),
            "passes many fixed tolerances",
        )
    },
    finish={
        "repeats_first_items_answer": Mutation(
            "all batch items get the first item's answer",
            with_result(lambda output, asked: output[:1].expand_as(output).clone() if _of_items(asked) else output),
            "only one batch item compared",
        ),
        "returns_first_item": Mutation(
            "only the first batch item is returned",
            with_result(lambda output, asked: output[:1] if _of_items(asked) else output),
        ),
        "answers_last_query_only": Mutation(
            "only the last query is answered, the others get 0",
            with_result(_last_query_only),
            "reference-kernels 104 (last output checked)",
        ),
        "returns_zeros": Mutation(
            "the output is 0 everywhere", with_result(lambda output: output * 0), "KernelBench 165 (zeros pass)"
        ),
        "returns_query": Mutation(
            "the query is returned, fitted to the output's width",
            with_result(lambda output, asked: fitted(asked.query, asked.value_width) + 0 * output),
        ),
    },
)


@Whole.instead("answer", "a mask raises an error where there are no items: a size of −1 is ambiguous")
def refuses_masks_without_items(asked: Asked) -> Any:
    if asked["attn_mask"] is not None and 0 in asked.query.shape[:-2]:
        raise RuntimeError("cannot reshape tensor of 0 elements into shape [-1, 0]: the size -1 can be any value")
    return correct(asked)
