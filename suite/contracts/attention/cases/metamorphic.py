"""Relations between several answers that hold for every attention, each within the oracle's bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.question import Generator, generator
from suite.contracts.attention.cases.case import Case, as_asked, judged, malformed
from suite.contracts.attention.cases.masks import Mask
from suite.contracts.attention.judging import ACCEPT_OUTPUT
from suite.contracts.attention.oracle import Truth
from suite.judging import compare
from suite.judging.precision import Bounded
from suite.judging.verdicts import Verdict, closest
from suite.records import DTYPES

Array = np.ndarray[Any, Any]
Compared = tuple[Array, Array, Array]
"""What came, what was due, and how far apart the two may be."""
Relate = Callable[[Call, Generator], tuple[Sequence[Call], Callable[[list[Array], list[Truth]], Compared]]]


@dataclass(frozen=True)
class Relation(asking.Case):
    """A base question, how it is changed, and what the change must do to the answer."""

    name: str
    why: str
    relate: Relate
    of: Case = field(default_factory=lambda: Case("metamorphic/base", "an ordinary small attention", queries=6, keys=9))
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return tuple(self._related(dtype)[0])

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Truth]:
        return [judged(call, conventions, all_rows=True, weights=True).truth for call in calls]

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: list[Truth]) -> Verdict:
        for call, reply in zip(calls, replies, strict=True):
            if complaint := malformed(call, reply):
                return complaint
        outputs = [_four(compare.numbers(reply.output)) for reply in replies if reply.output is not None]
        _, compared = self._related(str(calls[0].tensors["query"].dtype)[6:])
        actual, expected, bound = compared(outputs, truth)
        verdict = closest([("output", actual, Bounded(expected, bound), ACCEPT_OUTPUT)])
        return replace(verdict, detail=f"{self.why}, but {verdict.detail}") if verdict.detail else verdict

    def _related(self, dtype: str) -> tuple[Sequence[Call], Callable[[list[Array], list[Truth]], Compared]]:
        return self.relate(replace(self.of, name=self.name).call(dtype), generator(self.name + "/change"))


def with_tensors(call: Call, **changed: Tensor) -> Call:
    return replace(call, tensors={**call.tensors, **changed})


def same(
    left: Callable[[Array], Array], right: Callable[[Array], Array]
) -> Callable[[list[Array], list[Truth]], Compared]:
    """The first answer seen through `left` equals the second seen through `right`."""

    def compared(outputs: list[Array], truths: list[Truth]) -> Compared:
        bounds = [truth.output.bound for truth in truths]
        return right(outputs[1]), left(outputs[0]), left(bounds[0]) + right(bounds[1])

    return compared


def everywhere(array: Array) -> Array:
    return array


def permuted_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    order = torch.from_numpy(random.permutation(call.tensors["key"].shape[-2]))
    changed = {name: call.tensors[name][..., order, :] for name in ("key", "value")}
    if (mask := call.tensors.get("attn_mask")) is not None:
        changed["attn_mask"] = mask[..., order]
    return (call, with_tensors(call, **changed)), same(everywhere, everywhere)


def permuted_queries(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    order = random.permutation(call.tensors["query"].shape[-2])
    changed = {"query": call.tensors["query"][..., torch.from_numpy(order), :]}
    if (mask := call.tensors.get("attn_mask")) is not None:
        changed["attn_mask"] = mask[..., torch.from_numpy(order), :]
    return (call, with_tensors(call, **changed)), same(lambda output: output[..., order, :], everywhere)


def permuted_items(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    order = random.permutation(call.tensors["query"].shape[0])
    changed = {name: tensor[torch.from_numpy(order)] for name, tensor in call.tensors.items()}
    return (call, with_tensors(call, **changed)), same(lambda output: output[order], everywhere)


def one_item_alone(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    alone = {name: tensor[1:2, 1:2] for name, tensor in call.tensors.items()}
    return (call, with_tensors(call, **alone)), same(lambda output: output[1:2, 1:2], everywhere)


def other_item_changed(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    changed = {}
    for name in ("query", "key", "value"):
        changed[name] = call.tensors[name].clone()
        changed[name][0] = 40 * changed[name][0] + 3
    return (call, with_tensors(call, **changed)), same(lambda output: output[1:], lambda output: output[1:])


def shifted_mask_row(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    mask = (call.tensors["attn_mask"] * 4).round() / 4  # quarters, so that adding 8 is exact
    shift = torch.arange(mask.shape[-2], dtype=mask.dtype)[:, None] % 3 * 8
    return (with_tensors(call, attn_mask=mask), with_tensors(call, attn_mask=mask + shift)), same(
        everywhere, everywhere
    )


def linear_in_values(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    shape, dtype = call.tensors["value"].shape, call.tensors["value"].dtype
    first, second = (torch.from_numpy(random.integers(-12, 13, size=shape) / 8).to(dtype) for _ in range(2))
    calls = [with_tensors(call, value=value) for value in (first, second, 2 * first - second)]  # eighths are exact

    def compared(outputs: list[Array], truths: list[Truth]) -> Compared:
        bound = 2 * truths[0].output.bound + truths[1].output.bound + truths[2].output.bound
        return outputs[2], 2 * outputs[0] - outputs[1], bound

    return calls, compared


def inside_the_hull(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    value = as_asked(call, {}).value
    groups = call.tensors["query"].shape[1] // call.tensors["key"].shape[1]
    low, high = (np.repeat(edge(value, axis=-2, keepdims=True), groups, axis=1) for edge in (np.min, np.max))

    def compared(outputs: list[Array], truths: list[Truth]) -> Compared:
        return outputs[0], np.clip(outputs[0], low, high), truths[0].output.bound

    return (call,), compared


def split_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    keys = call.tensors["key"].shape[-2]
    middle = keys // 3
    parts = [(0, middle), (middle, keys)]
    calls = [
        call,
        *(with_tensors(call, **{n: call.tensors[n][..., a:b, :] for n in ("key", "value")}) for a, b in parts),
    ]

    def compared(outputs: list[Array], truths: list[Truth]) -> Compared:
        shares = [truths[0].weights[..., a:b].sum(-1, keepdims=True) for a, b in parts]
        merged = shares[0] * outputs[1] + shares[1] * outputs[2]
        bound = shares[0] * truths[1].output.bound + shares[1] * truths[2].output.bound
        return outputs[0], merged, truths[0].output.bound + bound

    return calls, compared


def future_changed(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    seen = call.tensors["query"].shape[-2] // 2
    changed = {}
    for name in ("key", "value"):
        changed[name] = call.tensors[name].clone()
        changed[name][..., seen:, :] = -7 * changed[name][..., seen:, :] - 5
    return (call, with_tensors(call, **changed)), same(
        lambda output: output[..., :seen, :], lambda output: output[..., :seen, :]
    )


def decoded_row(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    last = {"query": call.tensors["query"][..., -1:, :]}
    step = replace(with_tensors(call, **last), options={k: v for k, v in call.options.items() if k != "is_causal"})
    return (call, step), same(lambda output: output[..., -1:, :], everywhere)


def prefilled(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    seen = call.tensors["query"].shape[-2] // 2
    shorter = {name: tensor[..., :seen, :] for name, tensor in call.tensors.items()}
    return (call, with_tensors(call, **shorter)), same(lambda output: output[..., :seen, :], everywhere)


def poisoned_masked_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    mask = call.tensors["attn_mask"]
    hidden = ~mask if mask.dtype == torch.bool else mask == -torch.inf
    poison = torch.where(hidden.reshape(*hidden.shape[:2], -1, 1), 3000.0, 0.0)  # hidden is b 1 1 s: b 1 s 1
    changed = {name: (call.tensors[name] + poison).to(call.tensors[name].dtype) for name in ("key", "value")}
    query = call.tensors["query"].abs() + 1  # so that every hidden score is huge and tempting
    return (with_tensors(call, query=query), with_tensors(call, query=query, **changed)), same(everywhere, everywhere)


def hidden_keys_removed(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    keys = call.tensors["key"].shape[-2]
    visible = torch.arange(keys) % 3 != 1
    masked = with_tensors(call, attn_mask=visible.reshape(1, 1, 1, -1))
    return (masked, with_tensors(call, **{n: call.tensors[n][..., visible, :] for n in ("key", "value")})), same(
        everywhere, everywhere
    )


def doubled_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    doubled = {name: torch.cat([call.tensors[name]] * 2, dim=-2) for name in ("key", "value")}
    return (call, with_tensors(call, **doubled)), same(everywhere, everywhere)


def causal_as_mask(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    queries, keys = call.tensors["query"].shape[-2], call.tensors["key"].shape[-2]
    spelled = torch.ones(queries, keys, dtype=torch.bool).tril()
    other = replace(call, options={k: v for k, v in call.options.items() if k != "is_causal"})
    return (call, with_tensors(other, attn_mask=spelled)), same(everywhere, everywhere)


def metamorphic() -> list[asking.Case]:
    """Relations that need no oracle to be stated."""
    square = Case("metamorphic/square", "", queries=10, keys=10, causal=True)
    padded = Case("metamorphic/padded", "", queries=6, keys=9, mask=Mask(axes="b11s", pattern="padding"))
    padded_float = replace(padded, mask=Mask("float", "padding", "b11s"))
    biased = Case("metamorphic/biased", "", queries=6, keys=9, mask=Mask("float"))
    long = Case("metamorphic/long", "", batch=1, queries=70, keys=200)
    long_square = replace(long, keys=150, queries=150, causal=True)
    return [
        Relation("metamorphic/permuted_keys", "the order of the keys does not matter", permuted_keys),
        Relation("metamorphic/permuted_keys_masked", "keys, values and mask move together", permuted_keys, replace(padded, mask=Mask())),
        Relation("metamorphic/permuted_keys_long", "the order of the keys does not matter across tiles", permuted_keys, long),
        Relation("metamorphic/permuted_queries", "queries do not see each other", permuted_queries),
        Relation("metamorphic/permuted_queries_biased", "queries do not see each other", permuted_queries, biased),
        Relation("metamorphic/permuted_items", "items do not see each other", permuted_items),
        Relation("metamorphic/one_item_alone", "one item and head alone equals it in the batch", one_item_alone),
        Relation("metamorphic/one_item_alone_causal", "one item and head alone equals it in the batch", one_item_alone, square),
        Relation("metamorphic/other_item_changed", "no item depends on another", other_item_changed),
        Relation("metamorphic/shifted_mask_row", "a constant added to a mask row cancels", shifted_mask_row, biased),
        Relation("metamorphic/linear_in_values", "the output is linear in the values", linear_in_values),
        Relation("metamorphic/linear_in_values_causal", "the output is linear in the values", linear_in_values, square),
        Relation("metamorphic/inside_the_hull", "the output lies within the range of the values", inside_the_hull),
        Relation("metamorphic/inside_the_hull_grouped", "the output lies within the range of the values", inside_the_hull, Case("metamorphic/g", "", heads=4, key_heads=2)),
        Relation("metamorphic/split_keys", "parts merge by their share of the weights", split_keys),
        Relation("metamorphic/split_keys_long", "parts merge by their share of the weights", split_keys, long),
        Relation("metamorphic/future_changed", "under causal nobody sees the future", future_changed, square),
        Relation("metamorphic/future_changed_long", "under causal nobody sees the future, in any tile", future_changed, long_square),
        Relation("metamorphic/decoded_row", "the last causal row equals a decoding step", decoded_row, square),
        Relation("metamorphic/prefilled", "a causal prefix equals the shorter sequence", prefilled, square),
        Relation("metamorphic/prefilled_long", "a causal prefix equals the shorter sequence", prefilled, long_square),
        Relation("metamorphic/poisoned_masked_keys", "what masked keys and values hold does not matter", poisoned_masked_keys, padded),
        Relation("metamorphic/poisoned_masked_keys_float", "what masked keys and values hold does not matter", poisoned_masked_keys, padded_float),
        Relation("metamorphic/hidden_keys_removed", "hiding keys equals removing them", hidden_keys_removed),
        Relation("metamorphic/doubled_keys", "every key twice changes nothing", doubled_keys),
        Relation("metamorphic/causal_as_mask", "is_causal equals a lower triangle", causal_as_mask, square),
    ]  # fmt: skip


def _four(array: Array) -> Array:
    return array.reshape((1,) * (4 - array.ndim) + array.shape)
