"""Relations between several results that hold for every attention, each within the oracle's bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Case, Conventions, Replies
from attnsuite.cases.case import Traits
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import Array, Generator, dtype_of, generator
from attnsuite.contracts.attention.cases.case import AttentionCase, form, four_axes, oracle_result
from attnsuite.contracts.attention.oracle import OracleResult
from attnsuite.contracts.attention.tolerance import ACCEPT_OUTPUT
from attnsuite.judging import compare
from attnsuite.judging.precision import Bounded
from attnsuite.judging.verdicts import Verdict, closest
from attnsuite.model import DTYPES

Comparison = tuple[Array, Array, Array]
"""What came, what was due, and how far apart the two may be."""
Relate = Callable[[Call, Generator], tuple[Sequence[Call], Callable[[list[Array], list[OracleResult]], Comparison]]]


@dataclass(frozen=True)
class Relation(Case):
    """A base question, how it is changed, and what the change must do to the answer."""

    name: str
    why: str
    relate: Relate
    base: AttentionCase = field(
        default_factory=lambda: AttentionCase("metamorphic/base", "an ordinary small attention", queries=6, keys=9)
    )
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        return tuple(self._related(dtype)[0])

    def traits(self, dtype: str) -> Traits:
        return self.base.traits(dtype)

    def expected(self, calls: Calls, conventions: Conventions) -> list[OracleResult]:
        return [oracle_result(call, conventions) for call in calls]

    def verdict(self, calls: Calls, replies: Replies, truth: list[OracleResult]) -> Verdict:
        for call, reply in zip(calls, replies, strict=True):
            if complaint := form(call).unfit(reply):
                return complaint
        outputs = [four_axes(compare.numbers(reply.output)) for reply in replies if reply.output is not None]
        _, compared = self._related(dtype_of(calls[0]))
        actual, expected, bound = compared(outputs, truth)
        verdict = closest([("output", actual, Bounded(expected, bound), ACCEPT_OUTPUT)])
        return replace(verdict, detail=f"{self.why}, but {verdict.detail}") if verdict.detail else verdict

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: list[OracleResult]) -> bool:
        """Every output of its own, beyond what the relation says of all together."""
        dues = [WithinBounds(form(call), of.output, ACCEPT_OUTPUT) for call, of in zip(calls, expected, strict=True)]
        return all(due.alike(*pair) for due, *pair in zip(dues, replies, theirs, strict=True))

    def _related(self, dtype: str) -> tuple[Sequence[Call], Callable[[list[Array], list[OracleResult]], Comparison]]:
        return self.relate(self.base.but(name=self.name).call(dtype), generator(self.name + "/change"))


def with_tensors(call: Call, **changed: Tensor) -> Call:
    return replace(call, tensors={**call.tensors, **changed})


def without(call: Call, option: str) -> Call:
    return replace(call, options={name: value for name, value in call.options.items() if name != option})


def same(
    left: Callable[[Array], Array], right: Callable[[Array], Array]
) -> Callable[[list[Array], list[OracleResult]], Comparison]:
    """The first answer seen through `left` equals the second seen through `right`."""

    def compared(outputs: list[Array], truths: list[OracleResult]) -> Comparison:
        bounds = [truth.output.bound for truth in truths]
        return right(outputs[1]), left(outputs[0]), left(bounds[0]) + right(bounds[1])

    return compared


def everywhere(array: Array) -> Array:
    return array


def permuted_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    order = torch.from_numpy(random.permutation(call.tensors["key"].shape[-2]))
    changed = {name: call.tensors[name][..., order, :] for name in ("key", "value")}
    changed |= {name: call.tensors[name][..., order] for name in set(call.tensors) - set(INPUTS)}
    return (call, with_tensors(call, **changed)), same(everywhere, everywhere)


def one_item_alone(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    alone = {name: tensor[1:2, 1:2] for name, tensor in call.tensors.items()}
    return (call, with_tensors(call, **alone)), same(lambda output: output[1:2, 1:2], everywhere)


def linear_in_values(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    shape, dtype = call.tensors["value"].shape, call.tensors["value"].dtype
    first, second = (torch.from_numpy(random.integers(-12, 13, size=shape) / 8).to(dtype) for _ in range(2))
    calls = [with_tensors(call, value=value) for value in (first, second, 2 * first - second)]  # eighths are exact

    def compared(outputs: list[Array], truths: list[OracleResult]) -> Comparison:
        bound = 2 * truths[0].output.bound + truths[1].output.bound + truths[2].output.bound
        return outputs[2], 2 * outputs[0] - outputs[1], bound

    return calls, compared


def split_keys(call: Call, random: Generator) -> tuple[Sequence[Call], Any]:
    keys = call.tensors["key"].shape[-2]
    middle = keys // 3
    parts = [(0, middle), (middle, keys)]
    calls = [
        call,
        *(with_tensors(call, **{n: call.tensors[n][..., a:b, :] for n in ("key", "value")}) for a, b in parts),
    ]

    def compared(outputs: list[Array], truths: list[OracleResult]) -> Comparison:
        shares = [truths[0].weights[..., a:b].sum(-1, keepdims=True) for a, b in parts]
        merged = shares[0] * outputs[1] + shares[1] * outputs[2]
        bound = shares[0] * truths[1].output.bound + shares[1] * truths[2].output.bound
        return outputs[0], merged, truths[0].output.bound + bound

    return calls, compared


def metamorphic() -> list[Case]:
    """Relations that need no oracle to be stated."""
    return [
        Relation("metamorphic/permuted_keys", "the order of the keys does not matter", permuted_keys),
        Relation("metamorphic/one_item_alone", "one item and head alone equals it in the batch", one_item_alone),
        Relation("metamorphic/linear_in_values", "the output is linear in the values", linear_in_values),
        Relation("metamorphic/split_keys", "parts merge by their share of the weights", split_keys),
    ]  # fmt: skip
