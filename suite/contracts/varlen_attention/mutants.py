"""Mutants of the contract `varlen_attention`, and its correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnsuite.cases import Conventions, Mutant, Variant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention import mutants as attention
from attnsuite.contracts.attention.cases.combined import last_column_unwritten, without_a_key, without_the_largest
from attnsuite.contracts.attention.computation.call import Function, as_attention
from attnsuite.contracts.attention.computation.forward import Computation, Dense, Tiled
from attnsuite.contracts.attention.variants import WITH_LSE
from attnsuite.contracts.varlen_attention.contract import INPUTS
from attnsuite.model import DTYPES

LOWER_RIGHT: Conventions = {"causal": "lower_right", "window": "lower_right"}
UPPER_LEFT: Conventions = {"causal": "upper_left"}


class Item(NamedTuple):
    """The rows of one item, and all that is known about the call."""

    rows: slice
    keys: slice
    inputs: Sequence[Tensor] = ()
    options: Mapping[str, Any] = {}
    """Arguments of `attention`."""
    aligned: Conventions = LOWER_RIGHT

    def by(self, function: Function) -> Tensor:
        """The output of the item, l h v, by a function of the contract `attention`."""
        query, key, value = self.inputs[0][self.rows], self.inputs[1][self.keys], self.inputs[2][self.keys]
        grouped = {"enable_gqa": True} if query.shape[1] != key.shape[1] else {}
        output: Tensor = function(*(x.transpose(0, 1) for x in (query, key, value)), **self.options, **grouped)
        return output.transpose(0, 1)

    def computed(self, computation: Computation) -> Tensor:
        """The same by a computation of `attention`."""
        return self.by(as_attention(computation, conventions=self.aligned))

    @property
    def empty(self) -> bool:
        """Whether it lacks queries or keys."""
        return bool(self.rows.start == self.rows.stop or self.keys.start == self.keys.stop)


class PerItem(Steps):
    """One attention per item, which refuses bad options, in steps that a mutant may replace."""

    axes = Axes(query="q h e", key="k g e", value="k g v", cu_seqlens_q="n", cu_seqlens_k="n", sinks="h")
    aligned: Conventions = LOWER_RIGHT

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, *,
        max_seqlen_q: int | None = None, max_seqlen_k: int | None = None, scale: float | None = None,
        is_causal: bool = False, window: tuple[int | None, int | None] | None = None, softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        wide = self.wide(query)
        options = {"scale": scale, "is_causal": is_causal, "window": window, "softcap": softcap}
        options |= {"sinks": None if sinks is None else self.receive_sinks(sinks).to(wide)}
        inputs = tuple(tensor.to(wide) for tensor in self.receive(query, key, value))
        ends = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
        longest = max_seqlen_q or _longest(ends[0]), max_seqlen_k or _longest(ends[1])
        output = query.new_zeros(*query.shape[:-1], value.shape[-1], dtype=wide)
        for item in self.items(*ends, *longest, len(key)):
            output[item.rows] = self.attend(item._replace(inputs=inputs, options=options, aligned=self.aligned))
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

    def under(self, conventions: Conventions) -> PerItem:
        """The same computation under declared conventions."""
        other = type(self)(**self.replaced)
        other.aligned = UPPER_LEFT if conventions.get("causal") == "upper_left" else LOWER_RIGHT
        return other

    receive_sinks = staticmethod(lambda sinks: sinks)
    receive = staticmethod(lambda query, key, value: (query, key, value))

    @staticmethod
    def items(ends: list[int], key_ends: list[int], longest: int, longest_key: int, total: int) -> Iterable[Item]:
        """The rows of each item; `total` is the number of rows of the keys."""
        pairs = zip(pairwise(ends), pairwise(key_ends), strict=True)
        return [Item(slice(*rows), slice(*keys)) for rows, keys in pairs]

    attend = staticmethod(lambda item: item.computed(Dense()))
    finish = staticmethod(lambda output, ends: output)


def _longest(ends: Sequence[int]) -> int:
    return max(stop - start for start, stop in pairwise(ends))


CONTROLS = {"correct": PerItem()}


# Mistakes of single items are those of `attention`

OF_ATTENTION = (
    "unscaled", "applies_scale_twice", "scales_by_value_width", "scales_by_width_of_all_heads",
    "reads_zero_scale_as_none", "applies_scale_besides_default", "ignores_scale", "ignores_causal",
    "excludes_the_diagonal", "allows_one_future_key", "backward_ignores_causal", "ignores_causal_with_fewer_queries",
    "ignores_causal_beyond_64_queries", "zeroes_future_scores", "ignores_window", "swaps_sides_of_window",
    "sees_one_key_left_of_window", "sees_one_key_right_of_window", "counts_window_with_own_position",
    "reads_zero_width_as_unbounded", "backward_ignores_window", "attends_to_all_beyond_the_window",
    "takes_softmax_of_empty_row", "tiles_key_heads", "reads_first_key_head", "assumes_groups_of_two",
    "averages_gradients_of_group", "breaks_at_1_of_64_keys", "breaks_at_63_of_64_keys", "breaks_at_0_of_64_keys",
    "breaks_at_0_of_128_queries", "breaks_at_127_of_128_keys", "breaks_beyond_128_keys", "breaks_beyond_128_queries",
    "ignores_softcap", "lacks_divisor_of_softcap", "caps_unscaled_scores", "caps_hidden_scores",
    "backward_ignores_softcap", "ignores_sinks", "caps_sinks", "takes_sinks_per_key_head",
    "sends_no_gradient_to_sinks", "does_not_subtract_largest", "adds_epsilon_to_sum", "takes_powers_of_two",
    "swaps_gradients_of_query_and_key", "value_gradient_off_by_one_percent", "scores_gradient_off_by_one_percent",
    "returns_detached_output", "returns_heads_last",
)  # fmt: skip
"""Mutants of `attention` that are mutants here, too: each item is computed with the mistake."""


def in_items(steps: type[Steps], names: Sequence[str]) -> list[Mutant]:
    """Mutants of `attention` by name, whose mistake is in the step `attend` of an item."""

    def attend(mutant: Mutant, item: Item, *others: Any) -> Tensor:
        no_queries = item.rows.start == item.rows.stop
        return item.computed(Dense()) if no_queries else item.by(mutant.under(item.aligned).function)

    return [
        Mutant(mutant.name, mutant.says, steps(attend=partial(attend, mutant)), mutant.dtypes, mutant.source)
        for mutant in attention.mutants()
        if mutant.name in names
    ]


# Mistakes in the lengths


def _keys(change: Callable[[int, int], tuple[int, int]]) -> StepChange:
    """Changes the first and the last key of each item."""
    return with_result(
        lambda items: [item._replace(keys=slice(*change(item.keys.start, item.keys.stop))) for item in items]
    )


def _stops_at_empty(items: list[Item]) -> list[Item]:
    lengths = [item.rows.stop - item.rows.start for item in items]
    return items[: lengths.index(0)] if 0 in lengths else items


def _one_row_each(items: list[Item], longest: int) -> list[Item]:
    """Query rows where every item is taken to have one, as decoding paths view them."""
    if longest > 1:
        return items
    return [item._replace(rows=slice(n, n + 1)) for n, item in enumerate(items[: items[-1].rows.stop])]


def _read(most: Callable[..., int]) -> StepChange:
    """Each item reads that many keys from its first one on; `most(item, items, ends, longest, longest_key)`."""

    def changed(items: list[Item], ends: list[int], longest: int, longest_key: int) -> list[Item]:
        counts = [most(item, items, ends, longest, longest_key) for item in items]
        starts = [item.keys.start for item in items]
        return [
            item._replace(keys=slice(start, start + count))
            for item, start, count in zip(items, starts, counts, strict=True)
        ]

    return with_result(changed)


def _count(item: Item) -> int:
    return int(item.keys.stop - item.keys.start)


LENGTHS = {
    "ignores_lengths": Mutation("cu_seqlens are ignored: tokens attend to other items of the pack",
        with_result(lambda items: [Item(slice(0, items[-1].rows.stop), slice(0, items[-1].keys.stop))]),
        "flash-attention issue 1104, HunyuanVideo issue 310"),
    "reads_offsets_of_queries_for_keys": Mutation("keys begin where the queries of the item do", with_result(
        lambda items: [item._replace(keys=slice(item.rows.start, item.rows.start + _count(item))) for item in items])),
    "takes_lengths_of_queries_for_keys": Mutation("an item is taken to have as many keys as queries",
        with_arguments(key_ends=lambda key_ends, ends: ends)),
    "sees_first_key_of_next_item": Mutation("an item sees the first key of the next one",
        _keys(lambda start, stop: (start, stop + 1))),
    "sees_last_key_of_item_before": Mutation("an item sees the last key of the one before",
        _keys(lambda start, stop: (max(start - 1, 0), stop))),
    "loses_last_key": Mutation("the last key of each item is not read",
        _keys(lambda start, stop: (start, max(stop - 1, start)))),
    "loses_last_key_of_odd_items": Mutation("the last key of an item of odd length is not read",
        _keys(lambda start, stop: (start, stop - (stop - start) % 2)), "TransformerEngine issue 1930"),
    "drops_last_item": Mutation("the last item is dropped: its output is 0", with_result(lambda items: items[:-1])),
    "drops_first_item": Mutation("the first item is dropped: its output is 0", with_result(lambda items: items[1:])),
    "stops_at_empty_item": Mutation("items behind an empty one get zeros", with_result(_stops_at_empty)),
    "drops_items_beyond_32": Mutation("items beyond the 32nd get zeros", with_result(lambda items: items[:32])),
    "reads_one_row_each": Mutation("where max_seqlen_q is 1, item b is taken to be query b, though items may be empty",
        with_result(_one_row_each), "flash-attention issue 1537"),
    "reads_until_max_seqlen": Mutation("an item reads max_seqlen_k keys, whatever its own length is",
        _read(lambda item, items, ends, longest, longest_key: longest_key)),
    "reads_until_larger_max_seqlen": Mutation("a max_seqlen_k larger than needed is taken for the length of every item",
        _read(
            lambda item, items, ends, longest, longest_key: longest_key if longest > _longest(ends) else _count(item))),
    "stops_at_max_seqlen_of_queries": Mutation("keys beyond max_seqlen_q of an item are not read",
        _read(lambda item, items, ends, longest, longest_key: min(_count(item), longest))),
    "stops_at_length_of_first": Mutation("no item reads more keys than the first one has",
        _read(lambda item, items, ends, longest, longest_key: min(_count(item), _count(items[0])))),
    "reads_to_end_of_buffer": Mutation("the last item reads all rows that are left", with_result(lambda items, total:
        [*items[:-1], items[-1]._replace(keys=slice(items[-1].keys.start, total))]), "TransformerEngine issue 3331"),
    **{f"reads_whole_tiles_of_{tile}": Mutation(f"keys are read in whole tiles of {tile}, beyond the end of the item",
        _keys(partial(lambda tile, start, stop: (start, start - (start - stop) // tile * tile), tile))) for tile in (16,
        64, 128)},
}  # fmt: skip


# Mistakes of positions, of what is written, and of gradients


def _positions_in_pack(item: Item) -> Tensor:
    """Causal masks and windows compare rows of the pack instead of positions in the item."""
    shift = item.rows.start - item.keys.start

    def at_shift(grid: Any, call: Any) -> Tensor:
        left, right = call["window"] or (None, None)
        i, seen = grid.rows[:, None] + shift, grid.j == grid.j
        seen = seen & (grid.j <= i) if call["is_causal"] else seen
        seen = seen if left is None else seen & (grid.j >= i - left)
        return seen if right is None else seen & (grid.j <= i + right)  # type: ignore[no-any-return]

    return item.computed(Dense(causal=at_shift, window=at_shift))


def _aligned(item: Item, **corners: str) -> Tensor:
    return item._replace(aligned={**item.aligned, **corners}).computed(Dense())


def _first_key_of_lone_query(item: Item) -> Tensor:
    lone = item.options["is_causal"] and item.rows.stop - item.rows.start == 1
    return _aligned(item, causal="upper_left") if lone else item.computed(Dense())


def _for_no_keys(change: Callable[[Tensor, Tensor], Tensor]) -> StepChange:
    """Another output of queries without keys, from the correct one and all values."""
    return with_result(
        lambda output, item: change(output, item.inputs[2]) if not _count(item) and len(item.inputs[2]) else output
    )


def _empty_item_writes(output: Tensor, ends: list[int]) -> Tensor:
    """Each item writes one row at least, in any order."""
    empty = [start for start, stop in pairwise(ends) if start == stop < len(output)]
    return output.index_fill(0, torch.tensor(empty, dtype=torch.long), 0.0)


def _longest_first(output: Tensor, ends: list[int]) -> Tensor:
    """Outputs in the order of length."""
    parts = [output[start:stop] for start, stop in pairwise(ends)]
    return torch.cat([*sorted(parts, key=len, reverse=True), output[ends[-1] :]])


def _with_gradients(change: Callable[..., Tensor]) -> Function:
    """Changes the gradients of query, key and value, `change(gradient, number=…)`."""

    def hooked(number: int, x: Tensor) -> Tensor:
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(partial(change, number=number))
        return x

    return lambda *inputs: tuple(map(hooked, range(3), inputs))


def _last_row_lost(gradient: Tensor, number: int) -> Tensor:
    return gradient.index_fill(0, torch.tensor([len(gradient) - 1]), 0.0) if number and len(gradient) else gradient


def _fewer_key_heads(x: Tensor, query: Tensor) -> Tensor:
    """The first key heads that divide the query heads."""
    return x[:, : max(n for n in range(1, x.shape[1] + 1) if query.shape[1] % n == 0)]


ENDS = ("cu_seqlens_q", "cu_seqlens_k")
FROM_ATTENTION = in_items(PerItem, OF_ATTENTION)
MUTANTS = all_mutants(
    PerItem,
    items=LENGTHS,
    attend={
        "aligns_at_the_first_key": Mutation(
            "the causal mask of an item is aligned at the upper left; if that is meant, declare "
            'conventions={"causal": "upper_left"}',
            partial(_aligned, causal="upper_left"), "flash-attention before 2.1"),
        "shows_a_lone_query_the_first_key": Mutation(
            "under causal, a lone query sees the first key of its item alone", _first_key_of_lone_query,
            "pytorch issue 144858"),
        "aligns_window_at_the_first_key": Mutation("the window of an item is aligned at the upper left",
            partial(_aligned, window="upper_left"), "flashinfer issue 4972"),
        "counts_positions_in_pack": Mutation("causal masks and windows count rows of the pack, not of the item",
            _positions_in_pack),
        "multiplies_garbage_by_zero": Mutation("rows beyond the last item are read and multiplied by 0",
            with_result(lambda output, item: output + 0.0 * item.inputs[2].sum())),
        "takes_mean_without_keys": Mutation("queries without keys get the mean of all values",
            _for_no_keys(lambda output, values: output + values.mean()), "jax: dot_product_attention"),
        "gives_nan_without_keys": Mutation("queries without keys get NaN",
            _for_no_keys(lambda output, values: output + math.nan), "flash-attention pull 2167"),
    },
    receive_sinks={"averages_gradient_of_sinks": Mutation(
        "the gradient of the sinks is halved, as a mean over items would be",
        with_result(lambda sinks: sinks / 2 + sinks.detach() / 2))},
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
            with_arguments(**dict.fromkeys(ENDS, lambda x: x * (torch.arange(len(x)) > 0).int()))),
        "accepts_decreasing_lengths": Mutation("cu_seqlens that decrease are accepted",
            with_arguments(**dict.fromkeys(ENDS, lambda x: x.cummax(0)[0]))),
        "accepts_lengths_beyond_the_rows": Mutation("cu_seqlens beyond the rows are cut",
            with_arguments(cu_seqlens_q=lambda x, query: x.clamp_max(len(query)),
                cu_seqlens_k=lambda x, key: x.clamp_max(len(key)))),
        "accepts_float_lengths": Mutation("lengths that are not integers are rounded",
            with_arguments(**dict.fromkeys(ENDS, torch.Tensor.int))),
        "accepts_indivisible_heads": Mutation("key heads that do not divide the query heads are left out",
            with_arguments(key=_fewer_key_heads, value=_fewer_key_heads)),
        "accepts_mismatched_rows": Mutation("keys and values of different lengths are cut",
            with_arguments(key=lambda key, value: key[: len(value)], value=lambda value, key: value[: len(key)],
                cu_seqlens_k=lambda x, key, value: x.clamp_max(min(len(key), len(value))))),
    },
)  # fmt: skip


# Mistakes for combined cases, each as small as can be


def loses_a_key(item: Item) -> Tensor:
    """The output of an item if one query loses the key it prefers."""
    return item.computed(Dense() if item.empty else Dense(softmax=without_a_key))


FORWARD = mutants(
    PerItem,
    attend={"one_query_loses_a_key": Mutation("one query of each item loses the key it prefers", loses_a_key,
        dtypes=DTYPES)},
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


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        *(
            Variant(name, f"each item: {says}", PerItem(attend=lambda item, own=own: item.computed(own)))
            for name, (says, own) in WITH_LSE.items()
        ),
        Variant("float64", "each item in float64", PerItem(wide=lambda x: torch.float64)),
        Variant("tiled", "each item in tiles, with an online softmax",
            PerItem(attend=lambda item: item.computed(Tiled()))),
        Variant("upper_left", "aligned at the upper left", PerItem().under(UPPER_LEFT), conventions=UPPER_LEFT),
    ]  # fmt: skip
