"""Mistakes at certain sizes: parametric ones prove that the suite's boundary sizes are worth their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, only_first, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole

LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096)
REMAINDERS = [*((rest, tile) for tile in (16, 64, 128) for rest in (1, tile - 1, 0)), (1, 256), (255, 256)]
"""Remainders and tiles: one more, one less and none at all of the tile sizes that kernels use."""


def with_first_keys(asked: Asked, count: int) -> Asked:
    """The call with its first keys only."""
    key, value = (tensor[..., :count, :] for tensor in (asked.key, asked.value))
    return asked.with_keys(key, value, lambda mask: mask[..., :count])


def with_zero_queries(output: Tensor, first: int) -> Tensor:
    """The answer with zeros from the query `first` on."""
    rows = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1)
    return output.masked_fill(rows >= first, 0.0)


def with_zero_columns(output: Tensor, first: int) -> Tensor:
    """The answer with zeros from the column `first` on."""
    return output.masked_fill(torch.arange(output.shape[-1], device=output.device) >= first, 0.0)


def first_keys(count: int) -> StepChange:
    return with_arguments(asked=lambda asked: with_first_keys(asked, count) if asked.keys > count else asked)


def first_queries(count: int) -> StepChange:
    return with_result(lambda output, asked: with_zero_queries(output, count) if asked.queries > count else output)


def first_matrices(count: int) -> StepChange:
    def zeros(output: Tensor, asked: Asked) -> Tensor:
        if asked.query.shape[:-2].numel() <= count:
            return output
        matrices = torch.arange(output.shape[:-2].numel(), device=output.device).reshape(*output.shape[:-2], 1, 1)
        return output.masked_fill(matrices >= count, 0.0)

    return with_result(zeros)


def leaves(size: int, rest: int, tile: int) -> bool:
    """Whether a size, from about one tile on, leaves this remainder."""
    return size >= tile - 1 and size % tile == rest


def but_last_key(rest: int, tile: int) -> StepChange:
    return with_arguments(asked=lambda a: with_first_keys(a, a.keys - 1) if leaves(a.keys, rest, tile) else a)


def but_last_query(rest: int, tile: int) -> StepChange:
    return with_result(
        lambda output, asked: (
            with_zero_queries(output, asked.queries - 1) if leaves(asked.queries, rest, tile) else output
        )
    )


def whole_multiple(size: int, multiple: int) -> int:
    """The largest multiple within a size, or the size where there is none."""
    return size // multiple * multiple or size


def ragged_width(multiple: int) -> StepChange:
    change = lambda tensor: tensor[..., : whole_multiple(tensor.shape[-1], multiple)]  # noqa: E731
    return with_arguments(query=change, key=change)


def beyond_width(count: int) -> StepChange:
    return with_arguments(query=only_first(count, -1), key=only_first(count, -1))


def zero_columns(first: Callable[[int], int]) -> StepChange:
    """Zeros from the column on that `first` gives for the width."""
    return with_result(lambda output: with_zero_columns(output, first(output.shape[-1])))


def at_sizes(
    name: str, says: str, change: Callable[..., StepChange], *sizes: Any, source: str = ""
) -> dict[str, Mutation]:
    """One mistake at many sizes, which fill the braces of its name and words; a size may be several numbers."""
    each = [size if isinstance(size, tuple) else (size,) for size in sizes]
    return {name.format(*size): Mutation(says.format(*size), change(*size), source) for size in each}


PARAMETRIC = [
    *mutants(
        Whole,
        answer={
            **at_sizes("breaks_beyond_{}_keys", "keys beyond the first {} are not read", first_keys, *LENGTHS),
            **at_sizes("breaks_beyond_{}_queries", "queries beyond the first {} give 0", first_queries, *LENGTHS),
            **at_sizes(
                "breaks_beyond_{}_matrices",
                "beyond {} matrices (batch · heads) the answer is 0",
                first_matrices,
                *(1, 8, 255, 65535),
                source="pytorch issue 142228 (grid limit)",
            ),
            **at_sizes(
                "breaks_at_{}_of_{}_keys",
                "the last key is not read when the number of keys is a multiple of {1} plus {0}",
                but_last_key,
                *REMAINDERS,
            ),
            **at_sizes(
                "breaks_at_{}_of_{}_queries",
                "the last query gives 0 when the number of queries is a multiple of {1} plus {0}",
                but_last_query,
                *REMAINDERS,
            ),
        },
    ),
    *mutants(
        Dense,
        products={
            **at_sizes(
                "ignores_width_beyond_{}",
                "components of query and key beyond the first {} are not read",
                beyond_width,
                *(16, 64, 128, 256),
            ),
            **at_sizes(
                "ignores_width_ragged_to_{}",
                "components of query and key beyond a multiple of {} are not read",
                ragged_width,
                *(2, 4, 8, 16),
            ),
        },
        combine={
            **at_sizes(
                "ignores_value_width_beyond_{}",
                "columns of the values beyond the first {} give 0",
                lambda count: zero_columns(lambda width: count),
                *(64, 128, 256),
            ),
            **at_sizes(
                "ignores_value_width_ragged_to_{}",
                "columns of the values beyond a multiple of {} give 0",
                lambda multiple: zero_columns(lambda width: whole_multiple(width, multiple)),
                *(4, 8, 16),
            ),
        },
    ),
]


def _but_last_of_many(output: Tensor, asked: Asked) -> Tensor:
    return with_zero_queries(output, asked.queries - 1) if asked.queries > asked.keys > 0 else output


def _but_the_last_column(output: Tensor, asked: Asked) -> Tensor:
    cropped = asked.rank == 3 and asked.value_width != asked.width
    return with_zero_columns(output, asked.value_width - 1) if cropped else output


def _but_first_of_many(scores: Tensor, asked: Asked) -> Tensor:
    first = torch.arange(asked.keys, device=scores.device) == 0
    return scores.masked_fill(first, -torch.inf) if asked.keys > 1000 else scores


FEW = mutants(
    Whole,
    answer={
        "gives_zeros_for_one_key": Mutation(
            "a single key gives 0 instead of its value",
            with_result(lambda output, asked: output * (0 if asked.keys == 1 else 1)),
            "a tolerance that vanishes with one key hides it",
        ),
        "ignores_second_of_two_keys": Mutation(
            "of two keys, the second is not read",
            with_arguments(asked=lambda asked: with_first_keys(asked, 1) if asked.keys == 2 else asked),
        ),
        "ignores_second_half_for_one_query": Mutation(
            "a single query sees the first half of the keys only",
            with_arguments(asked=lambda a: with_first_keys(a, a.keys // 2) if a.queries == 1 and a.keys > 1 else a),
            "split decoding kernels",
        ),
        "loses_last_of_many_queries": Mutation(
            "with more queries than keys, the last query gives 0", with_result(_but_last_of_many)
        ),
        "assumes_self_attention": Mutation(
            "with more keys than queries, keys beyond the number of queries are not read",
            with_arguments(asked=lambda a: with_first_keys(a, a.queries) if 0 < a.queries < a.keys else a),
        ),
        "crops_values_without_batch_axis": Mutation(
            "without a batch axis the last column of values of another width is not written",
            with_result(_but_the_last_column),
        ),
    },
)
MANY = mutants(
    Dense,
    softmax={
        "drops_one_of_a_thousand_keys": Mutation(
            "the first key is not read when there are more than 1000", with_arguments(scores=_but_first_of_many)
        )
    },
)
