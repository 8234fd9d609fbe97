"""Cases of a contract that is one formula, whose oracle bounds its own errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.call import Call, Calls, Conventions
from attnsuite.cases.case import Case, Traits
from attnsuite.cases.expected import AttentionWeights, Expected, Form, PerCallCase, WithinBounds
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.returned_weights import identity_values_of
from attnsuite.cases.tensors import PRECISE, Array, Draw, Inputs, as_tensor, dtype_of, generator
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, widest
from attnsuite.judging.running_error import WithError
from attnsuite.model import DTYPES

UPSTREAM = ("output_gradient", "second_gradient")
"""The names that `draw` gives to the gradients of the outputs, in calls with a backward pass."""
EMPTY_ROW = "empty_row"
"""The convention for the output of a query that may attend to nothing."""
Oracle = Callable[..., WithError]
"""A formula of the contract: numbers are `WithError`, masks and integers arrays, options as they are."""


@dataclass(frozen=True)
class Formula:
    """What all cases of a contract have in common. `formula("family/what", "why", **unusual)` makes a case."""

    oracle: Oracle | None
    """None where every output is random, and judged by counts."""
    positional: tuple[str, ...]
    """The positional arguments, in order."""
    draw: Callable[..., Inputs]
    """`draw(random, **unusual)` makes the inputs; each argument has a plain default."""
    weights: Oracle | None = None
    """The attention weights, … l s, of what can return them on request."""
    hidden: Callable[[Call], Array] | None = None
    """True where a query may not attend to a key, … l s."""
    options: tuple[str, ...] = ()
    """The unusual arguments of the function, which `draw` does not get."""
    shared: tuple[str, ...] = ()
    """The unusual arguments of both."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Options of every call, unless a case has others."""
    dtypes: tuple[str, ...] = DTYPES
    """The dtypes that cases may have."""
    conventions: tuple[str, ...] = ()
    """The conventions that the oracle takes as keyword arguments."""
    second: tuple[str, Oracle] | None = None
    """The name of a second output, and its oracle: the function returns `(output, lse)`."""
    wide: tuple[str, ...] = ()
    """The inputs that are float32 where the dtype is a half type, as the second output is."""
    gradients: Callable[..., Mapping[str, WithError]] | None = None
    """The gradient of each input, from the oracle's arguments and those of `UPSTREAM` that `draw` returns."""
    values: str = ""
    """The input, … s v, whose weighted mean is the output, … l v; these weights may be returned as well."""

    def __call__(self, name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> FormulaCase:
        options = {option: unusual[option] for option in (*self.options, *self.shared) if option in unusual}
        drawn = {size: value for size, value in unusual.items() if size not in self.options}
        own = tuple(dtype for dtype in dtypes if dtype in self.dtypes)
        return FormulaCase(name, why, self, partial(self.draw, **drawn), {**self.always, **options}, own)

    def with_inputs(self, name: str, why: str, inputs: Inputs, **options: Any) -> FormulaCase:
        """A case with these inputs."""
        return FormulaCase(name, why, self, lambda random: inputs, {**self.always, **options}, self.dtypes)

    def bad_input(self, *rows: Row) -> Iterator[BadInputCase]:
        """Cases of the family `bad_input`, with what is unusual in each row."""
        for what, why, unusual in rows:
            yield BadInputCase(self(f"bad_input/{what}", why, **unusual))

    def layouts(self, *rows: Row) -> Iterator[Case]:
        """Cases of the family `layout`, in an unusual memory layout: the usual case, and one of each row."""
        for what, why, unusual in (("scattered", "in memory from the last axis to the first, with gaps", {}), *rows):
            yield out_of_order(self(f"layout/{what}", why, **unusual))

    def repeated(self, *rows: Row) -> Iterator[FormulaCase]:
        """Cases of the family `again`, of several calls: the usual case, and one of each row."""
        for what, why, unusual in (("usual", "other numbers, and others yet in the same tensors", {}), *rows):
            yield repeated(self(f"again/{what}", why, PRECISE, **unusual))

    def expected_results(self, calls: Calls, conventions: Conventions, **known: Any) -> tuple[Expected, ...]:
        """The expected results of calls, attention weights included where they are requested."""
        return tuple(
            (self.expected_with_weights if call.need_weights else self.expected_output)(call, conventions, **known)
            for call in calls
        )

    def expected_with_weights(self, call: Call, conventions: Conventions, **known: Any) -> WithinBounds:
        """The expected output and attention weights; hidden weights have no bound."""
        assert self.weights is not None
        assert self.hidden is not None
        plain = replace(call, options={name: value for name, value in call.options.items() if name != "need_weights"})
        weights, hidden = replace(self, oracle=self.weights).expected_output(plain, conventions), self.hidden(call)
        exact = Bounded(weights.output.value, np.where(hidden, 0.0, weights.output.bound))
        attentions = {"": AttentionWeights(replace(weights, output=exact), hidden)}
        return replace(self.expected_output(plain, conventions, **known), attentions=attentions)

    def expected_output(self, call: Call, conventions: Conventions, **known: Any) -> WithinBounds:
        """The expected output. `known` are further arguments of the oracle, such as the keep mask of dropout."""
        assert self.oracle is not None
        dtype = dtype_of(call)
        declared = {point: conventions[point] for point in self.conventions if point in conventions}
        options = {**call.options, **declared, **known}
        inputs = {
            name: self._exact(name, tensor, dtype) if tensor.dtype.is_floating_point else tensor.numpy()
            for name, tensor in call.tensors.items()
        }
        with np.errstate(all="ignore"):
            output = self.oracle(**inputs, **options).bounded
            decided = self._decided(inputs, options)
            gradients = self._gradients(call, inputs, options, dtype)
        shapes = {name: gradient.value.shape for name, gradient in gradients.items()}
        form = Form(output.value.shape, getattr(torch, dtype), shapes, pair=self.weights is not None)
        if self.second:
            attentions = self._second(*self.second, inputs, options, dtype)
            return WithinBounds(form, output, gradients=gradients, attentions=attentions)
        if not self.values:
            return WithinBounds(form, output, gradients=gradients, decided=decided)
        keys = call.tensors[self.values].shape[-2]
        form = replace(form, weights=(*output.value.shape[:-1], keys), pair=False)
        weights = partial(self._weights, inputs, options, dtype)
        return WithinBounds(form, output, weights=weights, decided=decided)

    def own_dtype(self, name: str, dtype: str) -> str:
        """The dtype of an input in calls of this dtype."""
        return "float32" if name in self.wide and PRECISIONS[dtype].half else dtype

    def _exact(self, name: str, tensor: Tensor, dtype: str) -> WithError:
        return WithError.exact(compare.numbers(tensor), PRECISIONS[self.own_dtype(name, dtype)], widest(dtype))

    def _gradients(self, call: Call, inputs: Mapping[str, Any], options: Mapping[str, Any], dtype: str) -> Any:
        """The gradient of each input with its bound, if the call requests gradients."""
        if not call.gradient_of:
            return {}
        assert self.gradients is not None
        upstream = {name: getattr(call, name) for name in UPSTREAM if getattr(call, name) is not None}
        exact = {name: self._exact(name, tensor, dtype) for name, tensor in upstream.items()}
        return {name: made.bounded for name, made in self.gradients(**inputs, **options, **exact).items()}

    def _second(
        self, name: str, oracle: Oracle, inputs: Mapping[str, Any], options: Mapping[str, Any], dtype: str
    ) -> Mapping[str, AttentionWeights]:
        """The second output by its name."""
        with np.errstate(all="ignore"):
            second = oracle(**inputs, **options).bounded
        own = "float32" if PRECISIONS[dtype].half else dtype
        form = Form(second.value.shape, getattr(torch, own))
        return {name: AttentionWeights(WithinBounds(form, second), None)}

    def _decided(self, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> Array | None:
        """True for the numbers of empty rows, which a convention decides; None without such a convention."""
        if EMPTY_ROW not in self.conventions:
            return None
        assert self.oracle is not None
        decided: Array = np.isnan(self.oracle(**inputs, **{**options, EMPTY_ROW: "nan"}).value.astype(np.float64))
        return decided

    def _weights(self, inputs: Mapping[str, Any], options: Mapping[str, Any], dtype: str) -> Bounded:
        """The weights, which are the output over the identity."""
        assert self.oracle is not None
        *lead, keys, _ = inputs[self.values].shape
        identity = WithError.exact(identity_values_of(lead, keys), PRECISIONS[dtype], widest(dtype))
        with np.errstate(all="ignore"):
            return self.oracle(**{**inputs, self.values: identity}, **options).bounded


@dataclass(frozen=True)
class FormulaCase(PerCallCase):
    """One call, with the inputs of `draw`."""

    name: str
    why: str
    formula: Formula
    draw: Draw
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        return (self._call(self.name, dtype),)

    def _call(self, seed: str, dtype: str) -> Call:
        formula, drawn = self.formula, self.draw(generator(seed))
        tensors = {name: as_tensor(array, formula.own_dtype(name, dtype)) for name, array in drawn.items()}
        upstream, second_upstream = (tensors.pop(name, None) for name in UPSTREAM)
        return Call(
            tensors,
            self.options,
            formula.positional,
            gradient_of=() if upstream is None else formula.positional,
            output_gradient=upstream,
            second=formula.second[0] if formula.second else "",
            second_gradient=second_upstream,
        )

    def traits(self, dtype: str) -> Traits:
        """Its dtype and its options; the arguments of `draw` are unknown."""
        return {"dtype": (dtype,), **{name: (f"{name} {value}",) for name, value in self.options.items()}}

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        return self.formula.expected_results(calls, conventions)


@dataclass(frozen=True)
class RepeatedCase(FormulaCase):
    """Three calls of equal sizes and different numbers; those of the third are in the tensors of the second."""

    def calls(self, dtype: str) -> Calls:
        first, second, third = (self._call(f"{self.name} {number}", dtype) for number in (1, 2, 3))
        return first, second, replace(third, same_storage=True)


def repeated(case: FormulaCase) -> RepeatedCase:
    """The same case, of three calls."""
    return RepeatedCase(**vars(case))
