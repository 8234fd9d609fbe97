"""Mutants of the contract `varlen_attention`, and its correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Conventions, Mutant, Variant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention import mutants as attention
from attnsuite.contracts.attention.cases.combined import (
    last_column_unwritten,
    without_a_key,
    without_the_largest,
)
from attnsuite.contracts.attention.computation.call import Function, as_attention
from attnsuite.contracts.attention.computation.forward import Dense, Tiled
from attnsuite.contracts.varlen_attention.contract import INPUTS
from attnsuite.model import DTYPES

Rows = tuple[slice, slice]
"""The queries of an item, and the keys that it reads."""
LOWER_RIGHT: Conventions = {"causal": "lower_right", "window": "lower_right"}


class PerItem(Steps):
    """One attention per item, in steps that a mutant may replace."""

    axes = Axes(query="q h e", key="k g e", value="k g v", cu_seqlens_q="n", cu_seqlens_k="n")
    aligned: Conventions = LOWER_RIGHT

    def compute(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        *,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        scale: float | None = None,
        is_causal: bool = False,
        window: tuple[int | None, int | None] | None = None,
    ) -> Tensor:
        options = {"scale": scale, "is_causal": is_causal, "window": window}
        wide = self.wide(query)
        inputs = tuple(tensor.to(wide) for tensor in self.receive(query, key, value))
        ends = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
        longest = max_seqlen_q or _longest(ends[0]), max_seqlen_k or _longest(ends[1])
        output = query.new_zeros(*query.shape[:-1], value.shape[-1], dtype=wide)
        for rows, keys in self.items(*ends, *longest, len(key)):
            self.write(output, rows, self.attend(inputs, (rows, keys), options, self.aligned))
        finished: Tensor = self.finish(output, ends[0])
        return finished.to(query.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        for role in "qk":
            ends = arguments[f"cu_seqlens_{role}"]
            if ends.is_floating_point() or int(ends[0]) or int(ends.diff().min()) < 0 or int(ends[-1]) > sizes[role]:
                raise ValueError(f"cu_seqlens_{role} are {ends.tolist()}")
            longest = arguments[f"max_seqlen_{role}"]
            if longest is not None and longest < int(ends.diff().max()):
                raise ValueError(f"max_seqlen_{role} is {longest}, below a length in {ends.tolist()}")
        if sizes["h"] % max(sizes["g"], 1):
            raise ValueError(f"{sizes['h']} query heads on {sizes['g']} key heads")
        if arguments["window"] is not None and any(side is not None and side < 0 for side in arguments["window"]):
            raise ValueError(f"a window of {arguments['window']}")

    def under(self, conventions: Conventions) -> PerItem:
        """The same computation under declared conventions."""
        other = type(self)(**self.replaced)
        other.aligned = {} if conventions.get("causal") == "upper_left" else LOWER_RIGHT
        return other

    receive = staticmethod(lambda query, key, value: (query, key, value))

    @staticmethod
    def items(
        query_ends: list[int], key_ends: list[int], longest_query: int, longest_key: int, total: int
    ) -> Iterable[Rows]:
        """The rows of each item; `total` is the number of rows of the keys."""
        return [
            (slice(*rows), slice(*keys)) for rows, keys in zip(pairwise(query_ends), pairwise(key_ends), strict=True)
        ]

    @staticmethod
    def attend(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
        return _attend(as_attention(Dense(), conventions=aligned), inputs, item, options)

    @staticmethod
    def write(output: Tensor, rows: slice, part: Tensor) -> None:
        output[rows] = part

    finish = staticmethod(lambda output, query_ends: output)


def _longest(ends: Sequence[int]) -> int:
    return max(stop - start for start, stop in pairwise(ends))


def _attend(function: Function, inputs: Sequence[Tensor], item: Rows, options: dict[str, Any]) -> Tensor:
    """The output of one item, l h v, by a function of the contract `attention`."""
    rows, keys = item
    query, key, value = inputs[0][rows], inputs[1][keys], inputs[2][keys]
    grouped = {"enable_gqa": True} if query.shape[1] != key.shape[1] else {}
    output: Tensor = function(*(x.transpose(0, 1) for x in (query, key, value)), **options, **grouped)
    return output.transpose(0, 1)


CONTROLS = {"correct": PerItem()}


# Mistakes of single items are those of `attention`

OF_ATTENTION = (
    "unscaled", "applies_scale_twice", "scales_by_value_width", "scales_by_width_of_all_heads", "reads_zero_scale_as_none",
    "applies_scale_besides_default", "ignores_scale",
    "ignores_causal", "excludes_the_diagonal", "allows_one_future_key", "looks_ahead", "backward_ignores_causal",
    "ignores_causal_with_fewer_queries", "zeroes_future_scores",
    "ignores_window", "swaps_sides_of_window", "sees_one_key_left_of_window", "sees_one_key_right_of_window",
    "counts_window_with_own_position", "reads_zero_width_as_unbounded", "backward_ignores_window",
    "attends_to_all_beyond_the_window", "takes_softmax_of_empty_row",
    "tiles_key_heads", "tiles_value_heads_only", "reads_first_key_head", "assumes_groups_of_two",
    "averages_gradients_of_group", "keeps_last_gradient_of_group",
    "breaks_at_1_of_64_keys", "breaks_at_63_of_64_keys", "breaks_at_0_of_64_keys", "breaks_at_1_of_128_queries",
    "breaks_at_0_of_128_queries", "breaks_at_127_of_128_keys", "breaks_beyond_128_keys", "breaks_beyond_128_queries", "ignores_causal_beyond_64_queries",
    "does_not_subtract_largest", "adds_epsilon_to_sum", "takes_powers_of_two",
    "swaps_gradients_of_query_and_key", "value_gradient_off_by_one_percent", "scores_gradient_off_by_one_percent",
    "returns_detached_output", "returns_heads_last",
)  # fmt: skip
"""Mutants of `attention` that are mutants here, too: each item is computed with the mistake."""


def _in_items(mutant: Mutant) -> Mutant:
    def attend(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
        return _attend(mutant.under(aligned).function, inputs, item, options)

    return Mutant(mutant.name, mutant.says, PerItem(attend=attend), mutant.dtypes, mutant.source)


IN_ITEMS = [_in_items(mutant) for mutant in attention.mutants() if mutant.name in OF_ATTENTION]


# Mistakes in the lengths


def _rows(change: Callable[[slice, int], slice], *, queries: bool = False, keys: bool = True) -> StepChange:
    """Changes the rows of every item: `change(rows, number)`."""

    def changed(items: list[Rows]) -> list[Rows]:
        return [
            (change(rows, n) if queries else rows, change(columns, n) if keys else columns)
            for n, (rows, columns) in enumerate(items)
        ]

    return with_result(changed)


def _rounded_up(tile: int) -> Any:
    return _rows(lambda rows, _: slice(rows.start, rows.start - (rows.start - rows.stop) // tile * tile))


def _stops_at_empty(items: list[Rows]) -> list[Rows]:
    lengths = [rows.stop - rows.start for rows, _ in items]
    return items[: lengths.index(0)] if 0 in lengths else items


def _one_row_each(items: list[Rows], longest_query: int) -> list[Rows]:
    """Query rows where every item is taken to have one, as decoding paths view them."""
    if longest_query > 1:
        return items
    return [(slice(n, n + 1), keys) for n, (_, keys) in enumerate(items) if n < items[-1][0].stop]


def _until_given(items: list[Rows], query_ends: list[int], longest_key: int, longest_query: int) -> list[Rows]:
    """Items up to max_seqlen_k where it is larger than needed."""
    longer = longest_query > _longest(query_ends)
    return _until_longest(items, longest_key) if longer else items


def _until_longest(items: list[Rows], longest_key: int) -> list[Rows]:
    return [(rows, slice(keys.start, keys.start + longest_key)) for rows, keys in items]


def _until_longest_query(items: list[Rows], longest_query: int) -> list[Rows]:
    return [(rows, slice(keys.start, min(keys.stop, keys.start + longest_query))) for rows, keys in items]


def _length_of_first(items: list[Rows]) -> list[Rows]:
    length = items[0][1].stop
    return [(rows, slice(keys.start, keys.start + min(length, keys.stop - keys.start))) for rows, keys in items]


def _keys_at_queries(items: list[Rows]) -> list[Rows]:
    return [(rows, slice(rows.start, rows.start + keys.stop - keys.start)) for rows, keys in items]


def _last_to_the_end(items: list[Rows], total: int) -> list[Rows]:
    return [*items[:-1], (items[-1][0], slice(items[-1][1].start, total))]


LENGTHS = {
    "ignores_lengths": Mutation(
        "cu_seqlens are ignored: tokens attend to other items of the pack",
        with_result(lambda items: [(slice(0, items[-1][0].stop), slice(0, items[-1][1].stop))]),
        "flash-attention issue 1104, HunyuanVideo issue 310"),
    "reads_offsets_of_queries_for_keys": Mutation("keys begin where the queries of the item do", with_result(_keys_at_queries)),
    "takes_lengths_of_queries_for_keys": Mutation("an item is taken to have as many keys as queries",
        with_arguments(key_ends=lambda key_ends, query_ends: query_ends)),
    "sees_first_key_of_next_item": Mutation("an item sees the first key of the next one",
        _rows(lambda rows, _: slice(rows.start, rows.stop + 1))),
    "sees_last_key_of_item_before": Mutation("an item sees the last key of the one before",
        _rows(lambda rows, _: slice(max(rows.start - 1, 0), rows.stop))),
    "loses_last_key": Mutation("the last key of each item is not read",
        _rows(lambda rows, _: slice(rows.start, max(rows.stop - 1, rows.start)))),
    "loses_last_key_of_odd_items": Mutation("the last key of an item of odd length is not read",
        _rows(lambda rows, _: slice(rows.start, rows.stop - (rows.stop - rows.start) % 2)),
        "TransformerEngine issue 1930"),
    "drops_last_item": Mutation("the last item is dropped: its output is 0", with_result(lambda items: items[:-1])),
    "drops_first_item": Mutation("the first item is dropped: its output is 0", with_result(lambda items: items[1:])),
    "stops_at_empty_item": Mutation("items behind an empty one get zeros", with_result(_stops_at_empty)),
    "drops_items_beyond_32": Mutation("items beyond the 32nd get zeros", with_result(lambda items: items[:32])),
    "reads_one_row_each": Mutation("where max_seqlen_q is 1, item b is taken to be query b, though items may be empty",
        with_result(_one_row_each), "flash-attention issue 1537"),
    "reads_until_max_seqlen": Mutation("an item reads max_seqlen_k keys, whatever its own length is",
        with_result(_until_longest)),
    "reads_until_larger_max_seqlen": Mutation("a max_seqlen_k larger than needed is taken for the length of every item",
        with_result(_until_given)),
    "stops_at_max_seqlen_of_queries": Mutation("keys beyond max_seqlen_q of an item are not read",
        with_result(_until_longest_query)),
    "stops_at_length_of_first": Mutation("no item reads more keys than the first one has", with_result(_length_of_first)),
    "reads_to_end_of_buffer": Mutation("the last item reads all rows that are left", with_result(_last_to_the_end),
        "TransformerEngine issue 3331"),
    **{f"reads_whole_tiles_of_{tile}": Mutation(f"keys are read in whole tiles of {tile}, beyond the end of the item",
        _rounded_up(tile)) for tile in (16, 64, 128)},
}  # fmt: skip


# Mistakes of positions, of what is written, and of gradients


def _positions_in_pack(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
    """Causal masks and windows compare rows of the pack instead of positions in the item."""
    rows, keys = item
    shift = rows.start - keys.start

    def at_shift(grid: Any, call: Any) -> Tensor:
        left, right = call["window"] or (None, None)
        i, seen = grid.rows[:, None] + shift, grid.j == grid.j
        seen = seen & (grid.j <= i) if call["is_causal"] else seen
        seen = seen if left is None else seen & (grid.j >= i - left)
        return seen if right is None else seen & (grid.j <= i + right)  # type: ignore[no-any-return]

    return _attend(as_attention(Dense(causal=at_shift, window=at_shift)), inputs, item, options)


def _aligned(**corners: str) -> Function:
    def attend(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
        return PerItem.attend(inputs, item, options, {**aligned, **corners})

    return attend


def _first_key_of_lone_query(
    inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions
) -> Tensor:
    rows, _ = item
    lone = options["is_causal"] and rows.stop - rows.start == 1
    return PerItem.attend(inputs, item, options, {"causal": "upper_left"} if lone else aligned)


def _for_no_keys(change: Callable[[Tensor, Sequence[Tensor]], Tensor]) -> Function:
    """Another output of queries without keys."""

    def attend(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
        output = PerItem.attend(inputs, item, options, aligned)
        return change(output, inputs) if item[1].start == item[1].stop and len(inputs[1]) else output

    return attend


def _times_zero(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
    output = PerItem.attend(inputs, item, options, aligned)
    return output + 0.0 * inputs[2].sum()


def _empty_item_writes(output: Tensor, query_ends: list[int]) -> Tensor:
    """Each item writes one row at least, in any order."""
    for start, stop in pairwise(query_ends):
        if start == stop < len(output):
            output = output.index_fill(0, torch.tensor([start]), 0.0)
    return output


def _longest_first(output: Tensor, query_ends: list[int]) -> Tensor:
    """Outputs in the order of length."""
    parts = [output[start:stop] for start, stop in pairwise(query_ends)]
    return torch.cat([*sorted(parts, key=len, reverse=True), output[query_ends[-1] :]])


def _with_gradients(change: Callable[..., Tensor]) -> Function:
    """Changes the gradients of query, key and value, `change(gradient, number)`."""

    def receive(*inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(_hooked(x, partial(change, number=number)) for number, x in enumerate(inputs))

    return receive


def _hooked(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    x = x.view_as(x)
    if x.requires_grad:
        x.register_hook(change)
    return x


def _last_row_lost(gradient: Tensor, number: int) -> Tensor:
    return gradient.index_fill(0, torch.tensor([len(gradient) - 1]), 0.0) if number and len(gradient) else gradient


def _fewer_key_heads(x: Tensor, query: Tensor) -> Tensor:
    """The first key heads that divide the query heads."""
    count = max(n for n in range(1, x.shape[1] + 1) if query.shape[1] % n == 0)
    return x[:, :count]


def _from_zero(ends: Tensor) -> Tensor:
    return torch.cat([ends[:1] * 0, ends[1:]])


def _within(ends: Tensor, rows: int) -> Tensor:
    return ends.clamp_max(rows)


MUTANTS = [
    *usual_mutants(PerItem),
    *IN_ITEMS,
    *mutants(
        PerItem,
        items=LENGTHS,
        attend={
            "aligns_at_the_first_key": Mutation(
                "the causal mask of an item is aligned at the upper left; if that is meant, declare "
                'conventions={"causal": "upper_left"}',
                _aligned(causal="upper_left"), "flash-attention before 2.1"),
            "shows_a_lone_query_the_first_key": Mutation("under causal, a lone query sees the first key of its item alone",
                _first_key_of_lone_query, "pytorch issue 144858"),
            "aligns_window_at_the_first_key": Mutation("the window of an item is aligned at the upper left",
                _aligned(window="upper_left"), "flashinfer issue 4972"),
            "counts_positions_in_pack": Mutation("causal masks and windows count rows of the pack, not of the item",
                _positions_in_pack),
            "multiplies_garbage_by_zero": Mutation("rows beyond the last item are read and multiplied by 0", _times_zero),
            "takes_mean_without_keys": Mutation("queries without keys get the mean of all values",
                _for_no_keys(lambda output, inputs: output + inputs[2].mean()), "jax: dot_product_attention"),
            "gives_nan_without_keys": Mutation("queries without keys get NaN",
                _for_no_keys(lambda output, inputs: output + math.nan), "flash-attention pull 2167"),
        },
        finish={
            "empty_item_writes": Mutation("an item without queries writes a row, which belongs to the next one",
                _empty_item_writes, "flash-attention pull 1155"),
            "leaves_items_in_order_of_length": Mutation("items are sorted by length and not put back", _longest_first),
        },
        receive={
            "loses_gradient_of_last_key": Mutation("the last key of the last item gets no gradient",
                _with_gradients(_last_row_lost)),
            "adds_gradients_of_neighbours": Mutation("a gradient has a part of the row before it, of another item too",
                _with_gradients(lambda gradient, number: gradient + 0.01 * gradient.roll(1, 0))),
        },
        whole={
            "ignores_max_seqlen_of_items": Mutation("max_seqlen cuts longer items and is not checked",
                with_arguments(max_seqlen_q=lambda n: None, max_seqlen_k=lambda n: None)),
            "accepts_other_start": Mutation("cu_seqlens that do not start at 0 are read as if they did",
                with_arguments(cu_seqlens_q=_from_zero, cu_seqlens_k=_from_zero)),
            "accepts_decreasing_lengths": Mutation("cu_seqlens that decrease are accepted",
                with_arguments(cu_seqlens_q=lambda x: x.cummax(0)[0], cu_seqlens_k=lambda x: x.cummax(0)[0])),
            "accepts_lengths_beyond_the_rows": Mutation("cu_seqlens beyond the rows are cut",
                with_arguments(cu_seqlens_q=lambda x, query: _within(x, len(query)),
                    cu_seqlens_k=lambda x, key: _within(x, len(key)))),
            "accepts_float_lengths": Mutation("lengths that are not integers are rounded",
                with_arguments(cu_seqlens_q=torch.Tensor.int, cu_seqlens_k=torch.Tensor.int)),
            "accepts_indivisible_heads": Mutation("key heads that do not divide the query heads are left out",
                with_arguments(key=_fewer_key_heads, value=_fewer_key_heads)),
            "accepts_mismatched_rows": Mutation("keys and values of different lengths are cut",
                with_arguments(key=lambda key, value: key[: len(value)], value=lambda value, key: value[: len(key)],
                    cu_seqlens_k=lambda x, key, value: _within(x, min(len(key), len(value))))),
        },
    ),
]  # fmt: skip


# Mistakes for combined cases, each as small as can be


def _one_query_loses_a_key(
    inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions
) -> Tensor:
    empty = any(rows.start == rows.stop for rows in item)
    wrong = Dense() if empty else Dense(softmax=without_a_key)
    return _attend(as_attention(wrong, conventions=aligned), inputs, item, options)


FORWARD = mutants(
    PerItem,
    attend={"one_query_loses_a_key": Mutation("one query of each item loses the key it prefers",
        _one_query_loses_a_key, dtypes=DTYPES)},
    finish={"last_column_is_not_written": Mutation("the last column of the output is not written",
        with_result(last_column_unwritten), dtypes=DTYPES)},
)  # fmt: skip


def of_gradient(name: str) -> Mutant:
    """The mutant that loses the largest number of the gradient of an input."""
    place = INPUTS.index(name)
    receive = _with_gradients(lambda gradient, number: without_the_largest(gradient) if number == place else gradient)
    says = f"the largest number of the gradient of {name} is lost"
    return Mutant(f"gradient_of_{name}_loses_a_number", says, PerItem(receive=receive), DTYPES)


# Correct variants


def _seen(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, is_causal: bool, window: Any) -> Tensor:
    """True where a query of the pack sees a key, q k."""
    counts, key_counts = cu_seqlens_q.diff(), cu_seqlens_k.diff()
    numbers = torch.arange(len(counts))
    item, item_of_key = numbers.repeat_interleave(counts), numbers.repeat_interleave(key_counts)
    position = (torch.arange(len(item)) - cu_seqlens_q[item] + (key_counts - counts)[item])[:, None]
    distance = torch.arange(len(item_of_key)) - cu_seqlens_k[item_of_key] - position  # q k
    left, right = window or (None, None)
    right = min(0, math.inf if right is None else right) if is_causal else right
    seen = item[:, None] == item_of_key
    seen = seen if left is None else seen & (distance >= -left)
    return seen if right is None else seen & (distance <= right)


Core = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float, bool, Any], Tensor]


def _variant(core: Core, wide: Callable[[Tensor], torch.dtype] = Steps.wide) -> Function:
    """The contract's signature around a core, which gets all rows of items, with equal heads, and a scale.

    The core gets query, key, value, both cu_seqlens, scale, is_causal and window.
    """

    def function(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        *,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        scale: float | None = None,
        is_causal: bool = False,
        window: tuple[int | None, int | None] | None = None,
    ) -> Tensor:
        used, used_keys, group = int(cu_seqlens_q[-1]), int(cu_seqlens_k[-1]), query.shape[1] // key.shape[1]
        keys, values = (x[:used_keys].to(wide(x)).repeat_interleave(group, 1) for x in (key, value))
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        ends = cu_seqlens_q.long(), cu_seqlens_k.long()
        output = core(query[:used].to(wide(query)), keys, values, *ends, factor, is_causal, window)
        unused = output.new_zeros(len(query) - used, *output.shape[1:])
        return torch.cat([output, unused]).to(query.dtype)

    return PerItem.validated(function)


def _block_diagonal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    key_ends: Tensor,
    scale: float,
    is_causal: bool,
    window: Any,
) -> Tensor:
    """One attention over the whole pack, whose mask has a block for each item."""
    seen = _seen(ends, key_ends, is_causal, window)
    scores = torch.einsum("qhe,khe->hqk", query, key) * scale
    scores = scores.masked_fill(~seen, -math.inf)
    powers = (scores - scores.detach().amax(-1, keepdim=True).clamp_min(-1e30) if len(key) else scores).exp()
    total = powers.sum(-1, keepdim=True)
    return torch.einsum("hqk,khv->qhv", powers / total.masked_fill(total == 0, 1.0), value)


def _padded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    key_ends: Tensor,
    scale: float,
    is_causal: bool,
    window: Any,
) -> Tensor:
    """A batch of items that are padded to the longest, and the outputs packed again."""

    def places(ends: Tensor) -> tuple[Tensor, Tensor, int]:
        counts = ends.diff()
        item = torch.arange(len(counts)).repeat_interleave(counts)
        return item, torch.arange(len(item)) - ends[item], int(counts.max())

    def batch(x: Tensor, item: Tensor, position: Tensor, longest: int, items: int) -> Tensor:
        return x.new_zeros(items, longest, *x.shape[1:]).index_put((item, position), x).transpose(1, 2)

    (item, position, longest), (key_item, key_position, longest_key), items = (
        places(ends),
        places(key_ends),
        len(ends) - 1,
    )
    queries = batch(query, item, position, longest, items)
    keys, values = (batch(x, key_item, key_position, longest_key, items) for x in (key, value))
    seen = torch.zeros(items, longest, longest_key, dtype=torch.bool)
    where, where_key = _seen(ends, key_ends, is_causal, window).nonzero(as_tuple=True)
    seen[item[where], position[where], key_position[where_key]] = True
    scores = (queries @ keys.mT * scale).masked_fill(~seen[:, None], torch.finfo(query.dtype).min)
    weights = scores.softmax(-1) * seen[:, None]
    return (weights @ values).transpose(1, 2)[item, position]


def _sorted(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    key_ends: Tensor,
    scale: float,
    is_causal: bool,
    window: Any,
) -> Tensor:
    """The longest item first, and outputs put back in their places."""
    order = torch.argsort(ends.diff() * key_ends.diff(), descending=True).tolist()
    options = {"scale": scale, "is_causal": is_causal, "window": window}
    rows = [slice(int(ends[n]), int(ends[n + 1])) for n in order]
    keys = [slice(int(key_ends[n]), int(key_ends[n + 1])) for n in order]
    parts = [PerItem.attend((query, key, value), item, options, LOWER_RIGHT) for item in zip(rows, keys, strict=True)]
    places = torch.cat([torch.arange(part.start, part.stop) for part in rows])
    return torch.cat(parts)[places.argsort()]


def _numpy(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    key_ends: Tensor,
    scale: float,
    is_causal: bool,
    window: Any,
) -> Tensor:
    """Rows of the score matrix one by one, in numpy."""
    seen = _seen(ends, key_ends, is_causal, window).numpy()
    q, k, v = (x.detach().numpy() for x in (query, key, value))
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    for row, head in np.ndindex(*q.shape[:-1]):
        scores = scale * (k[seen[row], head] @ q[row, head])
        powers = np.exp(scores - scores.max(initial=-np.inf))
        output[row, head] = powers @ v[seen[row], head] / (powers.sum() or 1.0)
    return torch.from_numpy(output)


def _tiled(inputs: Sequence[Tensor], item: Rows, options: dict[str, Any], aligned: Conventions) -> Tensor:
    return _attend(as_attention(Tiled(), conventions=aligned), inputs, item, options)


def variants() -> list[Variant]:
    """Correct implementations in other styles."""
    alone = {"gradient": "numpy has no gradients"}
    in_float64 = _variant(_numpy, lambda x: torch.float64)
    return [
        Variant("block_diagonal", "one masked attention over the whole pack", _variant(_block_diagonal)),
        Variant("padded", "a batch of items padded to the longest", _variant(_padded)),
        Variant("sorted", "the longest item first, outputs put back", _variant(_sorted)),
        Variant("numpy", "row by row, numpy in float64", in_float64, lacks=alone),
        Variant("tiled", "each item in tiles, with an online softmax", PerItem(attend=_tiled)),
        Variant("upper_left", "aligned at the upper left", PerItem().under(UPPER_LEFT), conventions=UPPER_LEFT),
    ]


UPPER_LEFT: Conventions = {"causal": "upper_left"}
