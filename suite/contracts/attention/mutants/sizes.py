"""Mutants that fail at certain sizes and lengths, or while they stream over tiles of keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.cases.changes import only_first, rounded
from attnsuite.cases.mutants import Mutation, StepChange, at_sizes, mutants, with_arguments, with_result
from attnsuite.cases.tensors import HALF
from attnsuite.contracts.attention.computation.call import INPUTS, AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Partial, Tiled, Whole, correct, normalised, shift
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.feature import Grid
from attnsuite.contracts.attention.features.window import visible as windowed
from attnsuite.contracts.attention.mutants.formula import beyond_half

LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096)
REMAINDERS = [*((rest, tile) for tile in (16, 64, 128) for rest in (1, tile - 1, 0)), (1, 256), (255, 256)]
"""Remainders and tiles: one more, one less and none at all of the tile sizes that kernels use."""
MOST_PADDING = 4096
"""Keys of padding that diagnosis looks for, and more than any tile has."""


def with_first_keys(call: AttentionCall, count: int) -> AttentionCall:
    """The call with its first keys only."""
    key, value = (tensor[..., :count, :] for tensor in (call.key, call.value))
    return call.with_keys(key, value, lambda mask: mask[..., :count])


def with_zero_queries(output: Tensor, first: int) -> Tensor:
    """The output with zeros from the query `first` on."""
    rows = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1)
    return output.masked_fill(rows >= first, 0.0)


def with_zero_columns(output: Tensor, first: int) -> Tensor:
    """The output with zeros from the column `first` on."""
    return output.masked_fill(torch.arange(output.shape[-1], device=output.device) >= first, 0.0)


def first_matrices(count: int) -> StepChange:
    def zeros(output: Tensor, call: AttentionCall) -> Tensor:
        if call.query.shape[:-2].numel() <= count:
            return output
        matrices = torch.arange(output.shape[:-2].numel(), device=output.device).reshape(*output.shape[:-2], 1, 1)
        return output.masked_fill(matrices >= count, 0.0)

    return with_result(zeros)


def leaves(size: int, rest: int, tile: int) -> bool:
    """Whether a size, from about one tile on, leaves this remainder."""
    return size >= tile - 1 and size % tile == rest


def ragged_width(multiple: int) -> StepChange:
    """Columns beyond the last whole multiple are left out, unless there are fewer than one."""
    change = lambda x: x[..., : x.shape[-1] // multiple * multiple or x.shape[-1]]  # noqa: E731
    return with_arguments(query=change, key=change)


def _plain(call: Call, reply: Reply) -> tuple[Tensor, Tensor, Tensor] | None:
    """Exponentials of the scores, l s, the values, s v, and the output, l v, of a plain call's last matrix in float64.

    None for a call with options or masks, for grouped heads, and where something is empty.
    """
    query, key, value = (call.tensors[name].double() for name in ("query", "key", "value"))
    output = reply.output
    if call.options or len(call.tensors) > 3 or output is None or 0 in (*output.shape, key.shape[-2]):
        return None
    query, key, value, actual = (x.reshape(-1, *x.shape[-2:])[-1] for x in (query, key, value, output.double()))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.exp(), value, actual


def keys_read(call: Call, reply: Reply) -> list[int]:
    """How many keys a wrong output has read, if it equals the attention to the first keys best."""
    if (parts := _plain(call, reply)) is None:
        return []
    exponentials, value, actual = (x[-1] if place != 1 else x for place, x in enumerate(parts))
    outputs = (exponentials[:, None] * value).cumsum(0) / exponentials.cumsum(0)[:, None]
    best = int((outputs - actual).abs().sum(-1).argmin()) + 1
    return [best] if 1 < best < len(value) else []


def padded_to(call: Call, reply: Reply) -> list[int]:
    """The multiples to which keys of zeros would fill up the keys so that the weights sum to what the output shows."""
    if (parts := _plain(call, reply)) is None:
        return []
    exponentials, value, actual = (x[-1] if place != 1 else x for place, x in enumerate(parts))
    total, keys = float(exponentials.sum()), len(value)
    expected = exponentials @ value / total
    share = float(actual @ expected / (expected @ expected))  # of the weights that is left for the keys
    padding = total * (1 / share - 1) if share > 0 else 0.0
    if not 0.9 < padding < MOST_PADDING or abs(padding - round(padding)) > 0.01 * padding:
        return []
    full = keys + round(padding)
    return [tile for tile in range(round(padding) + 1, full + 1) if full % tile == 0]


def first_of_zeros(axes: int) -> Callable[[Call, Reply], list[int]]:
    """The place from which on the output is 0: along the last axis (-1), the last but one (-2), or in matrices (-3)."""

    def place(call: Call, reply: Reply) -> list[int]:
        if reply.output is None or reply.output.dim() < 2:
            return []
        output = reply.output.reshape(-1, *reply.output.shape[-2:]).movedim(axes, 0).flatten(1)
        first = max((output != 0).any(-1).nonzero().flatten().tolist(), default=-1) + 1
        return [first] if 0 < first < len(output) else []

    return place


PARAMETRIC = [
    *mutants(
        Whole,
        attention={
            **at_sizes("breaks_beyond_{}_keys", "keys beyond the first {} are not read",
                lambda count: with_arguments(call=lambda call: with_first_keys(call, count) if call.keys > count
                else call), *LENGTHS, 8192, 65536, fit=keys_read),
            **at_sizes("breaks_beyond_{}_queries", "queries beyond the first {} give 0",
                lambda count: with_result(lambda output, call: with_zero_queries(output, count) if call.queries > count
                else output), *LENGTHS, 32768, fit=first_of_zeros(-2)),
            **at_sizes("breaks_beyond_{}_matrices", "beyond {} matrices (batch · heads) the output is 0",
                first_matrices, *(1, 8, 255, 65535), source="pytorch issue 142228 (grid limit)",
                fit=first_of_zeros(-3)),
            **at_sizes("breaks_at_{}_of_{}_keys",
                "the last key is not read when the number of keys is a multiple of {1} plus {0}",
                lambda rest, tile: with_arguments(call=lambda a: with_first_keys(a, a.keys - 1)
                if leaves(a.keys, rest, tile) else a), *REMAINDERS),
            **at_sizes("breaks_at_{}_of_{}_queries",
                "the last query gives 0 when the number of queries is a multiple of {1} plus {0}",
                lambda rest, tile: with_result(lambda output, call: with_zero_queries(output, call.queries - 1)
                if leaves(call.queries, rest, tile) else output), *REMAINDERS),
        },
    ),
    *mutants(
        Dense,
        products={
            **at_sizes("ignores_width_beyond_{}", "components of query and key beyond the first {} are not read",
                lambda count: with_arguments(query=only_first(count, -1), key=only_first(count, -1)),
                *(16, 64, 128, 256)),
            **at_sizes("ignores_width_ragged_to_{}", "components of query and key beyond a multiple of {} are not read",
                ragged_width, *(2, 4, 8, 16)),
        },
        combine={
            **at_sizes("ignores_value_width_beyond_{}", "columns of the values beyond the first {} give 0",
                lambda count: with_result(lambda output: with_zero_columns(output, count)), *(64, 128, 256), fit=first_of_zeros(-1)),
        },
    ),
]  # fmt: skip


def in_half_positions(rule: Any) -> Any:
    """A rule of visibility whose positions are numbers of the query's dtype."""

    def seen(grid: Grid, call: AttentionCall) -> Tensor:
        rows, columns = (each.to(call.query.dtype).double() for each in (grid.rows, grid.columns))
        return rule(replace(grid, rows=rows, columns=columns), call)  # type: ignore[no-any-return]

    return seen


POSITIONS = mutants(
    Dense,
    causal={"counts_causal_positions_in_half": Mutation(
        "causal compares positions in the query's dtype: from 2,048 on float16 has no odd ones",
        in_half_positions(lambda grid, call: grid.j <= grid.i), dtypes=HALF)},
    window={"counts_window_positions_in_half": Mutation("a window compares positions in the query's dtype",
        in_half_positions(lambda grid, call: windowed(grid, call["window"], {})), dtypes=HALF)},
)  # fmt: skip


@Whole.instead("attention", "the products of query and key are summed in the half type, one by one", dtypes=HALF)
def sums_products_in_half(call: AttentionCall) -> Any:
    def products(query: Tensor, key: Tensor) -> Tensor:
        total = Dense.products(query[..., :0], key[..., :0])
        for place in range(query.shape[-1]):
            part = slice(place, place + 1)
            total = rounded(call.query.dtype)(total + Dense.products(query[..., part], key[..., part]))
        return total

    return Dense(products=products)(call)


EXTREME = mutants(
    Backward,
    weights={"backward_subtracts_no_maximum": Mutation(
        "the backward computes the weights again without subtracting the largest score",
        lambda saved: _without_maximum(saved))},
    weights_gradient={"products_with_output_gradient_overflow": Mutation(
        "the products of output gradient and values are kept in float16, where they overflow", with_result(beyond_half),
        dtypes=("float16",))},
)  # fmt: skip


def _without_maximum(saved: Saved) -> Tensor:
    scores = correct.score(Dense.products(saved.query, saved.key), saved.call, saved.call.grid())
    return normalised(scores.exp())


def with_padding_keys(call: AttentionCall, count: int) -> AttentionCall:
    """The call with `count` keys and values of zeros behind the real ones, which no mask hides."""
    pad = torch.nn.functional.pad
    return call.with_keys(
        pad(call.key, (0, 0, 0, count)),
        pad(call.value, (0, 0, 0, count)),
        lambda mask: pad(mask, (0, count), value=1.0 if mask.dtype == torch.bool else 0.0),
    )


def streamed(tile: int, bounds: Callable[..., Any] = Tiled.key_bounds, **steps: Any) -> Tiled:
    """Attention over all keys in one stream of tiles, with other steps."""
    key_bounds = lambda start, stop, _: bounds(start, stop, tile)  # noqa: E731
    return Tiled(parts=lambda count: ((0, count),), key_bounds=key_bounds, **steps)


def moved_back(start: int, stop: int, tile: int) -> list[tuple[int, int]]:
    """The bounds of tiles. The last one is moved back to be full."""
    return [(min(first, max(last - tile, start)), last) for first, last in Tiled.key_bounds(start, stop, tile)]


def any_tile(call: Call, reply: Reply) -> Sequence[int]:
    """The sizes of tiles that kernels use."""
    return 8, 16, 32, 64, 128, 256


MUTANTS = mutants(
    Whole,
    attention={
        **at_sizes("does_not_rescale_tiles_of_{}", "earlier tiles of {} keys are not rescaled when a larger score comes",
            lambda tile: streamed(tile, rescale=lambda before, largest: before._replace(largest=largest)), 32, fit=any_tile),
        **at_sizes("does_not_rescale_output_of_tiles_of_{}",
            "the output of earlier tiles of {} keys is not rescaled when a larger score comes, their sum is",
            lambda tile: streamed(tile, rescale=lambda before, largest:
            Tiled.rescale(before, largest)._replace(output=before.output)), 32, fit=any_tile),
        **at_sizes("does_not_rescale_sum_of_tiles_of_{}",
            "the sum of earlier tiles of {} keys is not rescaled when a larger score comes, their output is",
            lambda tile: streamed(tile, rescale=lambda before, largest:
            Tiled.rescale(before, largest)._replace(total=before.total)), 32, fit=any_tile),
        **at_sizes("drops_ragged_tile_of_{}", "keys beyond a whole multiple of {} are dropped",
            lambda tile: with_arguments(call=lambda call: with_first_keys(call, call.keys // tile * tile)), 32, fit=any_tile),
        **at_sizes("counts_ragged_tile_of_{}_twice",
            "a ragged last tile of {} keys is moved back to be full, so that keys count twice",
            lambda tile: streamed(tile, moved_back), 32, fit=any_tile,
            source="memory-efficient-attention (clamped slices)"),
        **at_sizes("skips_first_tile_of_{}", "the first {} keys are not read",
            lambda tile: streamed(tile, lambda *of: Tiled.key_bounds(*of)[1:] or [(0, 0)]), 32, fit=any_tile),
    },
) + mutants(
    Dense,
    causal=at_sizes("masks_whole_tiles_of_{}", "is_causal hides whole tiles of {}: of its own tile a query sees all keys",
        lambda tile: lambda grid, call: grid.j // tile <= grid.i // tile, 32, fit=any_tile),
)  # fmt: skip
PADDING = mutants(
    Whole,
    attention={
        "gives_zeros_for_one_key": Mutation("a single key gives 0 instead of its value",
            with_result(lambda output, call: output * (0 if call.keys == 1 else 1)),
            "a tolerance that vanishes with one key hides it"),
        "ignores_second_half_for_one_query": Mutation("a single query sees the first half of the keys only",
            with_arguments(call=lambda a: with_first_keys(a, a.keys // 2) if a.queries == 1 and a.keys > 1 else a),
            "split decoding kernels"),
        "assumes_self_attention": Mutation(
            "with more keys than queries, keys beyond the number of queries are not read",
            with_arguments(call=lambda a: with_first_keys(a, a.queries) if 0 < a.queries < a.keys else a)),
        "crops_values_without_batch_axis": Mutation(
            "without a batch axis the last column of values of another width is not written",
            with_result(lambda output, call: with_zero_columns(output, call.value_width - 1)
            if (call.rank == 3 and call.value_width != call.width) else output)),
        **at_sizes("attends_to_padding_of_{}",
            "keys are padded with zeros to a multiple of {}, and the padding is attended to",
            lambda multiple: with_arguments(call=lambda call: with_padding_keys(call, -call.keys % multiple)
            if call.keys else call), 16, 64, source="triton issue 2059", fit=padded_to),
    },
)  # fmt: skip


def _first_seen(call: AttentionCall) -> Tensor | None:
    """The first key that each query may attend to, ... l 1, or the number of keys; None where nothing is hidden."""
    seen = call.visible()
    if seen is None or not call.keys:
        return None
    seen = seen.expand(call.scores_shape)
    return seen.to(torch.uint8).argmax(-1, keepdim=True).masked_fill(~seen.any(-1, keepdim=True), call.keys)


def nan_for_hidden(tile: int) -> StepChange:
    def change(output: Tensor, call: AttentionCall) -> Tensor:
        first = _first_seen(call)
        return output if first is None else output.masked_fill(first >= min(tile, call.keys), math.nan)

    return with_result(change)


def hidden_tiles(call: Call, reply: Reply) -> list[int]:
    """The tiles that begin with hidden keys in all rows of NaN, and in no other row."""
    query, key, value = (call.tensors[name] for name in INPUTS)
    first = _first_seen(AttentionCall(query, key, value, {**call.options, **call.tensors}))
    if first is None or reply.output is None or reply.output.shape[:-1] != first.shape[:-1]:
        return []
    nan = reply.output.isnan().all(-1, keepdim=True)
    if not nan.any():
        return []
    low, high = int(first[~nan].max()) if not nan.all() else 0, int(first[nan].min())
    return [tile for tile in (8, 16, 32, 64, 128, 256, 512, 1024) if low < tile <= high]


LEADING = mutants(
    Whole,
    attention=at_sizes("gives_nan_for_{}_hidden_keys",
        "a leading tile of {} keys that are all hidden gives NaN: −∞ minus −∞", nan_for_hidden, 64,
        source="pytorch issue 127055", fit=hidden_tiles),
)  # fmt: skip


@Tiled.instead("rescale", "a leading tile in which all keys are masked gives NaN: −∞ minus −∞",
    source="pytorch issue 127055")  # fmt: skip
def gives_nan_for_leading_empty_tile(before: Partial, largest: Tensor) -> Partial:
    after = Tiled.rescale(before, largest)
    poisoned = (before.total == 0) & (largest == -math.inf)
    return after._replace(output=after.output.masked_fill(poisoned, math.nan))


@Tiled.instead("rescale", "earlier tiles are rescaled in base 2 without the factor log₂ e", source="vllm issue 43919")
def rescales_in_base_two(before: Partial, largest: Tensor) -> Partial:
    shrink = shift(before.largest, largest).exp2()
    return Partial(before.output * shrink, before.total * shrink, largest)


@Tiled.instead("running_largest", "each tile's largest score replaces the running one, so that low tiles overflow")
def forgets_running_largest(before: Tensor, scores: Tensor) -> Tensor:
    largest = scores.detach().amax(-1, keepdim=True) if scores.shape[-1] else before
    return torch.where(largest == -math.inf, before, largest)


@Tiled.instead("merge", "two halves of the keys are averaged, whatever their weights", source="split-KV kernels")
def averages_halves(parts: list[Partial]) -> Partial:
    outputs = torch.stack([Tiled.normalise(part) for part in parts])
    count = torch.stack([part.total > 0 for part in parts]).sum(0).clamp(min=1)
    return Partial(outputs.sum(0) / count, torch.ones_like(parts[0].total), parts[0].largest)


@Tiled.instead("merge", "two halves are merged by their log-sum-exp in base 2, though it is in base e",
    source="vllm issue 43919")  # fmt: skip
def merges_in_base_two(parts: list[Partial]) -> Partial:
    one = torch.ones_like(parts[0].total)
    return Tiled.merge([Partial(Tiled.normalise(part), one, Tiled.logarithm(part) * math.log(2)) for part in parts])


@Tiled.instead("merge", "a half of the keys in which nothing may be attended to gives NaN",
    source="xformers (split-KV with an empty split)")  # fmt: skip
def gives_nan_for_empty_half(parts: list[Partial]) -> Partial:
    merged = Tiled.merge(parts)
    empty = torch.stack([part.total == 0 for part in parts]).any(0) & (merged.total > 0)
    return merged._replace(output=merged.output.masked_fill(empty, math.nan))
