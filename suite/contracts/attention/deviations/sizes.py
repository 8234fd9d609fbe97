"""Mistakes at certain sizes: parametric ones prove that the suite's boundary sizes are worth their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense, Whole, correct


def with_first_keys(asked: Asked, count: int) -> Asked:
    """The call with its first keys only."""
    key, value = (tensor[..., :count, :] for tensor in (asked.key, asked.value))
    return asked.with_keys(key, value, lambda mask: mask[..., :count])


def with_zero_queries(output: Tensor, first: int) -> Tensor:
    """The answer with zeros from the query `first` on."""
    rows = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1)
    return output.masked_fill(rows >= first, 0.0)


def breaks_beyond_keys(count: int) -> Deviation:
    @Whole.instead("answer", f"keys beyond the first {count} are not read", name=f"breaks_beyond_{count}_keys")
    def breaks(asked: Asked) -> Any:
        return correct(with_first_keys(asked, count)) if asked.keys > count else correct(asked)

    return breaks


def breaks_beyond_queries(count: int) -> Deviation:
    @Whole.instead("answer", f"queries beyond the first {count} give 0", name=f"breaks_beyond_{count}_queries")
    def breaks(asked: Asked) -> Any:
        return with_zero_queries(correct(asked), count) if asked.queries > count else correct(asked)

    return breaks


def breaks_at_remainder_of_keys(remainder: int, tile: int) -> Deviation:
    """Drops the last key where, from about one tile on, the keys modulo `tile` leave `remainder`."""
    says = f"the last key is not read when the number of keys is a multiple of {tile} plus {remainder}"

    @Whole.instead("answer", says, name=f"breaks_at_{remainder}_of_{tile}_keys")
    def breaks(asked: Asked) -> Any:
        hit = asked.keys >= tile - 1 and asked.keys % tile == remainder
        return correct(with_first_keys(asked, asked.keys - 1)) if hit else correct(asked)

    return breaks


def breaks_at_remainder_of_queries(remainder: int, tile: int) -> Deviation:
    """Zeroes the last query where, from about one tile on, the queries modulo `tile` leave `remainder`."""
    says = f"the last query gives 0 when the number of queries is a multiple of {tile} plus {remainder}"

    @Whole.instead("answer", says, name=f"breaks_at_{remainder}_of_{tile}_queries")
    def breaks(asked: Asked) -> Any:
        hit = asked.queries >= tile - 1 and asked.queries % tile == remainder
        return with_zero_queries(correct(asked), asked.queries - 1) if hit else correct(asked)

    return breaks


def breaks_beyond_matrices(count: int) -> Deviation:
    says = f"beyond {count} matrices (batch · heads) the answer is 0"

    @Whole.instead("answer", says, name=f"breaks_beyond_{count}_matrices", source="pytorch issue 142228 (grid limit)")
    def breaks(asked: Asked) -> Any:
        output = correct(asked)
        if asked.query.shape[:-2].numel() <= count:
            return output
        matrices = torch.arange(output.shape[:-2].numel(), device=output.device).reshape(*output.shape[:-2], 1, 1)
        return output.masked_fill(matrices >= count, 0.0)

    return breaks


def ignores_width_beyond(count: int) -> Deviation:
    says = f"components of query and key beyond the first {count} are not read"

    @Dense.instead("products", says, name=f"ignores_width_beyond_{count}")
    def ignores(query: Tensor, key: Tensor) -> Tensor:
        return Dense.products(query[..., :count], key[..., :count])

    return ignores


def ignores_value_width_beyond(count: int) -> Deviation:
    says = f"columns of the values beyond the first {count} give 0"

    @Dense.instead("combine", says, name=f"ignores_value_width_beyond_{count}")
    def ignores(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
        beyond = torch.arange(value.shape[-1], device=value.device) >= count
        return Dense.combine(weights, value, asked).masked_fill(beyond, 0.0)

    return ignores


def ignores_ragged_width(multiple: int) -> Deviation:
    says = f"components of query and key beyond a multiple of {multiple} are not read"

    @Dense.instead("products", says, name=f"ignores_width_ragged_to_{multiple}")
    def ignores(query: Tensor, key: Tensor) -> Tensor:
        count = query.shape[-1] // multiple * multiple or query.shape[-1]
        return Dense.products(query[..., :count], key[..., :count])

    return ignores


def ignores_ragged_value_width(multiple: int) -> Deviation:
    says = f"columns of the values beyond a multiple of {multiple} give 0"

    @Dense.instead("combine", says, name=f"ignores_value_width_ragged_to_{multiple}")
    def ignores(weights: Tensor, value: Tensor, asked: Asked) -> Tensor:
        count = value.shape[-1] // multiple * multiple or value.shape[-1]
        beyond = torch.arange(value.shape[-1], device=value.device) >= count
        return Dense.combine(weights, value, asked).masked_fill(beyond, 0.0)

    return ignores


def _parametric() -> Iterator[Deviation]:
    yield from map(breaks_beyond_keys, (16, 64, 128, 256, 512, 1024, 2048, 4096))
    yield from map(breaks_beyond_queries, (16, 64, 128, 256, 512, 1024, 2048, 4096))
    boundaries = (
        (1, 16),
        (15, 16),
        (0, 16),
        (1, 64),
        (63, 64),
        (0, 64),
        (1, 128),
        (127, 128),
        (0, 128),
        (1, 256),
        (255, 256),
    )
    for remainder, tile in boundaries:
        yield breaks_at_remainder_of_keys(remainder, tile)
        yield breaks_at_remainder_of_queries(remainder, tile)
    yield from map(breaks_beyond_matrices, (1, 8, 255, 65535))
    yield from map(ignores_width_beyond, (16, 64, 128, 256))
    yield from map(ignores_value_width_beyond, (64, 128, 256))
    yield from map(ignores_ragged_width, (2, 4, 8, 16))
    yield from map(ignores_ragged_value_width, (4, 8, 16))


PARAMETRIC = list(_parametric())


@Whole.instead(
    "answer", "a single key gives 0 instead of its value", source="a tolerance that vanishes with one key hides it"
)
def gives_zeros_for_one_key(asked: Asked) -> Any:
    return correct(asked) * (0 if asked.keys == 1 else 1)


@Whole.instead("answer", "of two keys, the second is not read")
def ignores_second_of_two_keys(asked: Asked) -> Any:
    return correct(with_first_keys(asked, 1)) if asked.keys == 2 else correct(asked)


@Whole.instead("answer", "a single query sees the first half of the keys only", source="split decoding kernels")
def ignores_second_half_for_one_query(asked: Asked) -> Any:
    half = asked.queries == 1 and asked.keys > 1
    return correct(with_first_keys(asked, asked.keys // 2)) if half else correct(asked)


@Whole.instead("answer", "with more queries than keys, the last query gives 0")
def loses_last_of_many_queries(asked: Asked) -> Any:
    output = correct(asked)
    return with_zero_queries(output, asked.queries - 1) if asked.queries > asked.keys > 0 else output


@Whole.instead("answer", "with more keys than queries, keys beyond the number of queries are not read")
def assumes_self_attention(asked: Asked) -> Any:
    return correct(with_first_keys(asked, asked.queries)) if 0 < asked.queries < asked.keys else correct(asked)


@Whole.instead("answer", "without a batch axis the last column of values of another width is not written")
def crops_values_without_batch_axis(asked: Asked) -> Any:
    output = correct(asked)
    if asked.rank != 3 or asked.value_width == asked.width:
        return output
    return output.masked_fill(torch.arange(asked.value_width) == asked.value_width - 1, 0.0)


@Whole.instead("answer", "the first key is not read when there are more than 1000")
def drops_one_of_a_thousand_keys(asked: Asked) -> Any:
    if asked.keys <= 1000:
        return correct(asked)
    first = torch.arange(asked.keys, device=asked.query.device) == 0
    return Dense(softmax=lambda scores, asked: Dense.softmax(scores.masked_fill(first, -torch.inf), asked))(asked)
