"""Questions to models: a factory makes one of a config and weights, and it is judged by norms, for no bound is derived.

A position's vector may lie twice as far from the truth as the eager model's in the same dtype does where that is worst
of all calls, and farther by a floor: what rounding sums of that many terms costs, (Σ√k · a + u) · ‖truth‖, with k the
rows of every matrix of weights, a the unit roundoff of the accumulator, and u that of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.question import (
    DERIVED,
    Generator,
    Inputs,
    MustRaise,
    as_tensor,
    dtype_of,
    first,
    generator,
    numbers,
    row,
    unfit,
)
from suite.judging import compare
from suite.judging.precision import PRECISIONS, widest
from suite.judging.rounded import Rounded, Unbounded
from suite.judging.verdicts import Verdict
from suite.records import DTYPES, Example, Status

Array = np.ndarray[Any, Any]
Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Weights = Mapping[str, Array]

TIMES_EAGER = 2.0
"""How much farther from the truth than the eager model a model may be."""
EMBEDDED = 4e-6
"""What it costs in float32 to pass a document's numbers in through tables of embeddings, relatively."""


@dataclass(frozen=True)
class Kind:
    """What all questions to one kind of model have in common."""

    oracle: Callable[..., Rounded]
    """`oracle(config, weights, **inputs)`, weights and numbers as `Rounded`."""
    eager: Callable[[Config, Mapping[str, Tensor]], Callable[..., Tensor]]
    """A factory whose models compute in the dtype of their weights, step by step."""
    draw: Callable[[Config, Generator], Weights]
    """Weights for a config, so that mistakes show."""
    positional: tuple[str, ...]
    """The inputs' names, in order."""


@dataclass(frozen=True)
class Truth:
    """What is true of one call: vectors, and how far each may lie off."""

    value: Array
    allowed: Array


def truths(kind: Kind, calls: Sequence[Call]) -> list[Truth]:
    """What is true of calls of one model."""
    config, dtype = calls[0].config, dtype_of(calls[0])
    assert config is not None
    precision = PRECISIONS[dtype]

    def exact(tensor: Tensor) -> Any:
        floating = tensor.dtype.is_floating_point
        return Unbounded.exact(compare.numbers(tensor), precision, widest(dtype)) if floating else tensor.numpy()

    weights = {name: exact(tensor) for name, tensor in calls[0].weights.items()}
    eager = kind.eager(config, calls[0].weights)
    terms = sum(math.sqrt(len(array.value)) for array in weights.values() if len(array.shape) == 2)
    floor = terms * precision.accumulator + precision.unit
    values, farthest = [], 0.0
    for call in calls:
        with np.errstate(all="ignore"):
            value = kind.oracle(config, weights, **{name: exact(given) for name, given in call.tensors.items()}).value
        with torch.no_grad():
            theirs = compare.numbers(eager(*(call.tensors[name] for name in call.positional if name in call.tensors)))
        off = np.sqrt(((theirs.astype(value.dtype) - value) ** 2).sum(-1)).astype(np.float64)
        values.append(value)
        farthest = max(farthest, off.max(initial=0.0))
    sizes = [np.sqrt((value**2).sum(-1)).astype(np.float64) for value in values]
    return [Truth(value, TIMES_EAGER * farthest + floor * size) for value, size in zip(values, sizes, strict=True)]


@dataclass(frozen=True)
class Posed(asking.Case):
    """One model and one call of it or several, in order. The weights of a config are the same in all cases."""

    name: str
    why: str
    kind: Kind
    config: Config
    inputs: Callable[[Generator], Sequence[Inputs]]
    weights: Weights | None = None
    """Given weights in place of drawn ones."""
    dtypes: tuple[str, ...] = DTYPES
    same_storage: bool = False
    """The inputs of later calls are written into the tensors of the first."""

    def calls(self, dtype: str) -> tuple[Call, ...]:
        weights = self.weights
        if weights is None:
            weights = self.kind.draw(self.config, generator(repr(sorted(self.config.items()))))
        return self.of_one(weights, dtype)

    def of_one(self, weights: Weights, dtype: str) -> tuple[Call, ...]:
        """The calls of one model, which is made of these weights."""

        def tensors(arrays: Inputs) -> dict[str, Tensor]:
            return {name: as_tensor(array, dtype) for name, array in arrays.items()}

        asked = [tensors(inputs) for inputs in self.inputs(generator(self.name))]
        first = Call(asked[0], {}, self.kind.positional, config=self.config, weights=tensors(weights))
        again = replace(first, config=None, weights={}, model_of=0, same_storage=self.same_storage)
        return (first, *(replace(again, tensors=given) for given in asked[1:]))

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Truth]:
        return truths(self.kind, calls)

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: list[Truth]) -> Verdict:
        largest, dtype = 0.0, getattr(torch, dtype_of(calls[0]))
        for number, (reply, due) in enumerate(zip(replies, truth, strict=True)):
            name = f"output of call {number + 1}" if len(calls) > 1 else "output"
            if complaint := unfit(reply, due.value.shape, dtype, name):
                return complaint
            assert reply.output is not None
            actual = compare.numbers(reply.output)
            ratio = float(compare.distances(actual, due.value, due.allowed).max(initial=0.0))
            if says := compare.distance(actual, due.value, due.allowed, name=name):
                return Verdict(Status.WRONG, says, ratio, output_wrong=True)
            largest = max(largest, ratio)
        return Verdict(Status.PASSED, "", largest)

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: list[Truth]
    ) -> bool:
        """Equal within what is allowed of the truth, and rounding of the other answer."""
        unit = 8 * PRECISIONS[dtype_of(calls[0])].unit
        for reply, other, due in zip(replies, theirs, truth, strict=True):
            if reply.output is None or other.output is None or reply.output.shape != other.output.shape:
                return False
            if tuple(other.output.shape) != due.value.shape:
                return False
            values = compare.numbers(other.output)
            room = due.allowed + unit * np.sqrt((np.nan_to_num(values) ** 2).sum(-1))
            known = np.isfinite(values).all(-1)
            if compare.distance(compare.numbers(reply.output)[known], values[known], room[known]):
                return False
            if not np.array_equal(np.isfinite(compare.numbers(reply.output)).all(-1), known):
                return False
        return True


@dataclass(frozen=True)
class Remade(Posed):
    """Two models of one config, made of other weights one after the other, and called with the same inputs.

    Then the first one is called once more.
    """

    def calls(self, dtype: str) -> tuple[Call, ...]:
        drawn = (self.kind.draw(self.config, generator(f"{self.name} {number}")) for number in (1, 2))
        first, second = (self.of_one(weights, dtype)[0] for weights in drawn)
        return first, second, replace(first, config=None, weights={}, model_of=0)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Truth]:
        first, second = (truths(self.kind, [call])[0] for call in calls[:2])
        return [first, second, first]


@dataclass(frozen=True)
class Plugged(Posed):
    """A model that is given an attention whose answers are zeros: what it returns if all values are mapped to zeros."""

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return tuple(replace(call, probed=True) for call in super().calls(dtype))

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Truth]:
        mapped = {name: w * (not name.endswith("w_value")) for name, w in calls[0].weights.items()}
        return truths(self.kind, [replace(calls[0], weights=mapped), *calls[1:]])


@dataclass(frozen=True)
class Printed(Posed):
    """A question with an answer in a document: numbers as printed, or derived from its definition."""

    printed: Any = ()
    decimals: int | None = None
    """How many decimals were printed; None for derived numbers."""
    select: Callable[[Array], Array] = np.asarray
    """What of the output was printed."""
    dtypes: tuple[str, ...] = ("float64", "float32")

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: list[Truth]) -> Verdict:
        verdict = super().verdict(calls, replies, truth)
        if verdict.status != "passed" or replies[0].output is None:
            return verdict
        actual, printed = self.select(compare.numbers(replies[0].output)), numbers(self.printed)
        if actual.shape != printed.shape:
            return Verdict(Status.WRONG, f"output has shape {actual.shape}, the document prints {printed.shape}")
        unit = (
            DERIVED * abs(printed) + 1e-9
            if self.decimals is None
            else np.full(printed.shape, 0.5 * 10.0**-self.decimals)
        )
        if dtype_of(calls[0]) == "float32":
            unit = unit + EMBEDDED * (1 + abs(printed))
        if complaint := compare.difference(actual, printed, unit):
            return Verdict(Status.WRONG, f"the document has another number: {complaint}", output_wrong=True)
        return verdict

    def example(self) -> Example:
        """The printed numbers beside the oracle's, for the reader."""
        due = self.select(self.truth(self.calls("float64"), {})[0].value.astype(np.float64))
        decimals = 6 if self.decimals is None else self.decimals
        printed = first(numbers(self.printed).reshape(due.shape), decimals)
        note = f"not printed; derived from the definition: {printed}" if self.decimals is None else ""
        return row(self, "" if note else printed, first(due, decimals), note)


@dataclass(frozen=True)
class Shaped(Posed):
    """An example whose numbers are unseeded draws: its shape remains."""

    shape: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32")

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: list[Truth]) -> Verdict:
        verdict, output = super().verdict(calls, replies, truth), replies[0].output
        if verdict.status == "passed" and output is not None and tuple(output.shape) != self.shape:
            return Verdict(Status.WRONG, f"output has shape {tuple(output.shape)}, the document prints {self.shape}")
        return verdict

    def example(self) -> Example:
        return row(self, str(self.shape), str(self.truth(self.calls("float64"), {})[0].value.shape), "unseeded draws")


def without(name: str) -> Callable[[dict[str, Array]], Weights]:
    """Weights that lack one."""
    return lambda weights: {other: tensor for other, tensor in weights.items() if other != name}


def instead(name: str, tensor: Array | Tensor) -> Callable[[dict[str, Array]], dict[str, Array | Tensor]]:
    """Weights with this tensor in place of their own, or as one more. One of torch keeps its dtype."""
    return lambda weights: {**weights, name: tensor}


def changed(usual: Callable[[Generator], Inputs], tensors: Inputs, random: Generator) -> Inputs:
    """Inputs with these tensors in place of their own."""
    return {**usual(random), **tensors}


def tokens_with(length: int, token: int) -> Array:
    """Tokens of three items, all 0 but one."""
    tokens = np.zeros((3, length), np.int64)
    tokens[1, 2] = token
    return tokens


@dataclass(frozen=True)
class Refused(MustRaise):
    """A config, weights or inputs that must raise, at the factory or at the call. Asked in a process of its own."""

    name: str
    why: str
    kind: Kind
    config: Config
    inputs: Callable[[Generator], Inputs]
    unusual: Callable[[dict[str, Array]], Mapping[str, Array | Tensor]] = field(default=dict)
    """What becomes of the weights."""
    unusual_config: Config = field(default_factory=dict)
    """What the config has, that its weights were not made for."""
    dtypes: tuple[str, ...] = ("float32",)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        weights = self.unusual(dict(self.kind.draw(self.config, generator(self.name))))
        tensors = {name: as_tensor(array, dtype) for name, array in self.inputs(generator(self.name)).items()}
        made = {name: w if isinstance(w, Tensor) else as_tensor(w, dtype) for name, w in weights.items()}
        config = {**self.config, **self.unusual_config}
        return (Call(tensors, {}, self.kind.positional, config=config, weights=made),)
