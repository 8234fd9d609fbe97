"""Expected results of calls, and how a reply is compared with one: its form, its numbers, its attention weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.call import Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case
from attnsuite.cases.returned_weights import Weights, judge_with_weights
from attnsuite.judging import compare
from attnsuite.judging.aggregate import AggregateLimits
from attnsuite.judging.precision import PRECISIONS, Bounded, Precision
from attnsuite.judging.running_error import LIBRARY
from attnsuite.judging.verdicts import Verdict, closest, together, unlike
from attnsuite.model import Status

Array = np.ndarray[Any, Any]

ROUNDINGS = 8.0
"""Units of the dtype by which two replies may differ, beyond their bounds, and still count as equal for diagnosis."""
EMBEDDED = {"float64": 1e-9, "float32": 4e-6}
"""How far a model's numbers may lie from a document's, by dtype: its inputs pass through tables of embeddings."""


@dataclass(frozen=True)
class Form:
    """The form of a valid reply, which is checked before its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    gradients: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the requested gradients."""
    weights: tuple[int, ...] | None = None
    """The shape of weights that may be returned as `(output, weights)`; None where they may not, or are not judged."""
    pair: bool = False
    """Whether weights of any shape may be returned: the contract judges them where a call has `need_weights`."""

    def unfit(self, reply: Reply, name: str = "output") -> Verdict | None:
        """The verdict on an error, or a wrong type, shape or dtype, or changed or shared inputs; None without these."""
        if reply.error:
            return Verdict(Status.ERROR, reply.error)
        complaint = self._output(reply, name) or self._inputs(reply, name) or self.gradients_complaint(reply)
        return Verdict(Status.FAILED, complaint) if complaint else None

    def _output(self, reply: Reply, name: str) -> str | None:
        if reply.no_model:
            return f"returned {reply.kind} in place of a model, should return a callable"
        if reply.output is None:
            return f"returned {reply.kind}, should return a Tensor"
        if reply.pair and self.weights is None and not self.pair:
            return f"returned a pair, should return the {name} alone"
        complaint = unlike(name, reply.output, self.shape, self.dtype)
        swapped = reply.weights is not None and tuple(reply.weights.shape) == self.shape != self.weights
        return (
            f"{complaint}, as the second of the pair does: return {name}, weights"
            if complaint and swapped
            else complaint
        )

    def _inputs(self, reply: Reply, name: str) -> str | None:
        if reply.changed:
            return f"changed its input {' and '.join(reply.changed)}"
        if reply.aliased:
            return f"the {name} shares memory with {' and '.join(reply.aliased)}"
        if reply.gradients_overwritten:
            return f"a later call changed the gradient of {' and '.join(reply.gradients_overwritten)}"
        return f"a later call changed this {name}" if reply.overwritten else None

    def gradients_complaint(self, reply: Reply) -> str | None:
        """What is wrong with the form of the gradients, or None."""
        for name, shape in self.gradients.items():
            gradient = reply.gradients.get(name)
            if gradient is None:
                return f"no gradient reached {name}"
            if complaint := unlike(f"gradient of {name}", gradient, shape, self.dtype):
                return complaint
        return None

    @property
    def unit(self) -> float:
        """The unit roundoff of the dtype."""
        return PRECISIONS[str(self.dtype)[6:]].unit


class WrongElements(NamedTuple):
    """Where a tensor is wrong, its numbers, the expected ones, and the errors that are accepted."""

    places: Array
    actual: Array
    expected: Array
    tolerance: Array


class Expected(ABC):
    """The expected result of one call."""

    form: Form
    loose: bool = False
    """Whether the bounds are so wide that chance decides."""
    decided: Array | None = None
    """True where the contract's decision counts instead of a document's number; None: nowhere."""
    rows: Array | None = None
    """The judged rows of the output, along its last axis but one; None: all."""
    weights: Weights | None = None
    """The expected weights, where they may be returned as well; None where they are not judged."""
    attentions: Mapping[str, AttentionWeights] | None = None
    """The expected weights of each attention by name, where a call has `need_weights`; a single attention is ""."""
    state: Mapping[str, Tensor] | None = None
    """The inputs that the call writes in place, as they should be afterwards, bit for bit."""

    @property
    @abstractmethod
    def numbers(self) -> Array:
        """The expected output, in float64."""

    @property
    @abstractmethod
    def slack(self) -> Array:
        """How far rounding may take an honest output from a document's numbers, element by element."""

    @abstractmethod
    def compare_numbers(self, reply: Reply, name: str = "output") -> Verdict:
        """The verdict on the output and the gradients of a reply of the right form."""

    @abstractmethod
    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """Whether output and gradients of two replies of the right form are equal, except for rounding."""

    def verdict(self, reply: Reply) -> Verdict:
        """Return the verdict on a reply: its form first, then its numbers and weights.

        Wrong numbers come before a wrong dtype and a missing gradient, which would hide them.
        """
        if unfit := self.form.unfit(reply):
            judged, repaired = self.despite_form(reply)
            if judged is self and repaired is reply:
                return unfit
            verdict = judged.verdict(repaired)
            return replace(verdict, detail=f"{verdict.detail}; {unfit.detail}") if verdict.output_wrong else unfit
        if self.attentions is not None and (complaint := unlike_names(reply.attention_weights, self.attentions)):
            return Verdict(Status.FAILED, complaint)
        for name, tensor in (self.state or {}).items():
            if complaint := compare.other_bits(reply.state.get(name), tensor, name):
                return Verdict(Status.FAILED, complaint, np.inf, output_wrong=True)
        verdict = self.compare_numbers(reply)
        if reply.weights is not None and self.form.weights is not None:
            verdict = judge_with_weights(verdict, reply.weights, self.weights, self.form.weights, self.rows)
        for name, expected in (self.attentions or {}).items():
            if verdict.status != Status.PASSED:
                break
            weights_verdict = expected.verdict(name, reply)
            verdict = replace(
                weights_verdict, error_ratio=max(verdict.error_ratio or 0.0, weights_verdict.error_ratio or 0.0)
            )
        return verdict

    def despite_form(self, reply: Reply) -> tuple[Expected, Reply]:
        """What can be judged of a reply that has a wider dtype or lacks gradients, and the reply in the right dtype."""
        output, dtype = reply.output, self.form.dtype
        wider = output is not None and output.is_floating_point() and torch.finfo(output.dtype).eps < self.form.unit
        return self, replace(reply, output=output.to(dtype)) if wider and output is not None else reply

    def wrong_elements(self, reply: Reply) -> Mapping[str, WrongElements]:
        """The wrong elements of each judged tensor by name; empty where unknown."""
        return {}

    def alike(self, reply: Reply, theirs: Reply) -> bool:
        """Whether two replies give the same result, right or wrong."""
        judged, repaired = self.despite_form(reply)
        if judged is not self or repaired is not reply:
            return judged.alike(repaired, theirs)
        if self.form.unfit(reply) or self.form.unfit(theirs):
            return False
        if any(compare.other_bits(reply.state.get(name), theirs.state[name], name) for name in self.state or ()):
            return False
        attentions = self.attentions or {}
        if self.attentions is not None and reply.attention_weights.keys() != theirs.attention_weights.keys():
            return False
        return self.equal(reply, theirs) and all(
            expected.equal(name, reply, theirs) for name, expected in attentions.items()
        )


@dataclass(frozen=True)
class WithinBounds(Expected):
    """An output, and gradients where they are requested, with an error bound for each number."""

    form: Form
    output: Bounded
    accept: float = 1.0
    """Accepted error of the output, in bounds; gradients are accepted within one bound."""
    gradients: Mapping[str, Bounded] = field(default_factory=dict)
    rows: Array | None = None
    size: float = 0.0
    """The size of the numbers that the output is made of: rounding costs this much even where its bound is 0."""
    loose: bool = False
    decided: Array | None = None
    aggregate_limits: Mapping[str, AggregateLimits] = field(default_factory=dict)
    """Limits of all errors together: of the output, and of gradients by name."""
    weights: Weights | None = None
    attentions: Mapping[str, AttentionWeights] | None = None

    @property
    def numbers(self) -> Array:
        return self.output.value.reshape(self.form.shape).astype(np.float64)

    @property
    def slack(self) -> Array:
        return self.accept * self.output.bound.reshape(self.form.shape)

    def compare_numbers(self, reply: Reply, name: str = "output") -> Verdict:
        output = _numbers(reply.output)
        stray = int((~np.isfinite(output)).sum()) if self.rows is not None else 0
        if stray and np.isfinite(self.output.value.astype(np.float64)).all():
            says = f"output holds {stray} numbers that are infinite or NaN"
            return Verdict(Status.FAILED, says, np.inf, output_wrong=True)
        pairs = [(name, self._judged(output), self.output, self.accept)]
        for tensor, gradient in self.gradients.items():
            pairs.append((f"gradient of {tensor}", _numbers(reply.gradients[tensor]), gradient, 1.0))
        pairs = [(called, self._in_range(actual, limits), limits, accept) for called, actual, limits, accept in pairs]
        verdict = closest(pairs)
        return together(pairs, self.aggregate_limits) or verdict if verdict.status == Status.PASSED else verdict

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """The other reply serves as the expected result; its bounds are widened by what rounding may have cost."""
        widened = replace(
            self,
            output=self._widened(self._judged(_numbers(theirs.output)), self.output),
            gradients={
                name: self._widened(_numbers(theirs.gradients[name]), gradient)
                for name, gradient in self.gradients.items()
            },
            aggregate_limits={name: limits.between_two() for name, limits in self.aggregate_limits.items()},
        )
        return widened.compare_numbers(reply).status == Status.PASSED

    def despite_form(self, reply: Reply) -> tuple[Expected, Reply]:
        present = {name for name in self.form.gradients if reply.gradients.get(name) is not None}
        if reply.output is None or present == self.form.gradients.keys():
            return super().despite_form(reply)
        shapes = {name: shape for name, shape in self.form.gradients.items() if name in present}
        gradients = {name: bounded for name, bounded in self.gradients.items() if name in present}
        judged = replace(self, form=replace(self.form, gradients=shapes), gradients=gradients)
        return judged, super().despite_form(reply)[1]

    def wrong_elements(self, reply: Reply) -> Mapping[str, WrongElements]:
        if self.form.unfit(reply):
            return {}
        pairs = [("output", reply.output, self.output, self.accept)] if self.rows is None else []
        pairs += [(f"gradient of {name}", reply.gradients[name], each, 1.0) for name, each in self.gradients.items()]
        judged: dict[str, WrongElements] = {}
        for name, tensor, expected, accept in pairs:
            actual = _numbers(tensor)
            value, bound = (array.reshape(actual.shape) for array in (expected.value, expected.bound))
            places = compare.errors(actual, value, bound) > accept
            judged[name] = WrongElements(places, actual, value, accept * bound)
        seconds = {} if self.rows is not None else self.attentions or {}
        return judged | {name: second.wrong_elements(name, reply) for name, second in seconds.items() if name}

    def _judged(self, output: Array) -> Array:
        return output if self.rows is None else output[..., self.rows, :]

    def _in_range(self, actual: Array, expected: Bounded) -> Array:
        """The numbers; an infinity becomes the expected number where that may lie beyond the range of the dtype."""
        if np.isfinite(actual).all():
            return actual
        value, bound = (array.reshape(actual.shape).astype(np.float64) for array in (expected.value, expected.bound))
        beyond = abs(value) + bound >= torch.finfo(self.form.dtype).max
        return np.where(np.isinf(actual) & beyond & (np.sign(actual) == np.sign(value)), value, actual)

    def _widened(self, values: Array, expected: Bounded) -> Bounded:
        rounding = ROUNDINGS * self.form.unit * np.maximum(np.nan_to_num(abs(values)), self.size)
        return Bounded(values, np.nan_to_num(expected.bound.reshape(values.shape)) + rounding)


@dataclass(frozen=True)
class NearInNorm(Expected):
    """Vectors along the last axis with a limit for the norm of each error. For models, which have no bounds."""

    form: Form
    value: Array
    allowed: Array
    attentions: Mapping[str, AttentionWeights] | None = None

    @property
    def numbers(self) -> Array:
        return self.value.astype(np.float64)

    @property
    def slack(self) -> Array:
        return np.full(self.form.shape, EMBEDDED[str(self.form.dtype)[6:]])

    def compare_numbers(self, reply: Reply, name: str = "output") -> Verdict:
        actual = _numbers(reply.output)
        ratios = compare.distances(actual, self.value, self.allowed)
        ratio = float(ratios.max(initial=0.0))
        if complaint := compare.distance(actual, self.value, self.allowed, name=name):
            return Verdict(Status.FAILED, complaint, ratio, output_wrong=True, marginal=compare.marginal(ratios))
        return Verdict(Status.PASSED, "", ratio)

    def relative(self, output: Tensor) -> Mapping[str, float]:
        """Relative errors by position: the `largest`, and the `rms` over positions."""
        norms = np.sqrt((self.numbers**2).sum(-1))
        errors = compare.distances(_numbers(output), self.value, norms)
        return {"largest": float(errors.max(initial=0.0)), "rms": math.sqrt(float((errors**2).mean()))}

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """Finite vectors lie near each other, and all others are in the same places."""
        ours, values = _numbers(reply.output), _numbers(theirs.output)
        norms = np.sqrt((np.nan_to_num(values, posinf=0.0, neginf=0.0) ** 2).sum(-1))
        slack, finite = self.allowed + ROUNDINGS * self.form.unit * norms, np.isfinite(values).all(-1)
        if compare.distance(ours[finite], values[finite], slack[finite]):
            return False
        return np.array_equal(np.isfinite(ours).all(-1), finite)


@dataclass(frozen=True)
class AttentionWeights:
    """The expected weights of one attention, … l s, or a second output, such as log-sum-exps."""

    expected: WithinBounds | NearInNorm
    """Their form and numbers."""
    hidden: Array | None
    """True where a query may not attend to a key, and the weight is exactly 0; … l s. None: a second output."""

    def verdict(self, name: str, reply: Reply) -> Verdict:
        """The verdict on the weights of this name, which is empty for a single attention."""
        tensor, called = reply.attention_weights.get(name), f"attention weights {name}".strip()
        if self.hidden is None:
            called = name
        if tensor is None:
            return Verdict(Status.FAILED, f"the {called} {'is' if self.hidden is None else 'are'} no tensor")
        weights = replace(reply, output=tensor, aliased=(), overwritten=False)
        if unfit := self.expected.form.unfit(weights, called):
            return unfit
        if name in reply.weights_overwritten:
            return Verdict(Status.FAILED, f"a later call changed the {called}")
        actual = compare.numbers(tensor)
        if self.hidden is None:
            return self.expected.compare_numbers(weights, called)
        verdict = self._hidden(self.hidden, called, actual) or self._sums(called, actual)
        return verdict if verdict.status != Status.PASSED else self.expected.compare_numbers(weights, called)

    def equal(self, name: str, reply: Reply, theirs: Reply) -> bool:
        """Whether two replies of the right form have equal weights of this name, except for rounding."""
        pair = [side.attention_weights.get(name) for side in (reply, theirs)]
        ours, others = pair
        if ours is None or others is None or ours.shape != others.shape:
            return ours is None and others is None
        if ours.shape != self.expected.form.shape:  # without bounds, as the form is wrong
            return np.array_equal(compare.numbers(ours), compare.numbers(others), equal_nan=True)
        hidden = self.hidden
        if hidden is not None and not np.array_equal(*(hidden & (_numbers(weights) != 0) for weights in pair)):
            return False
        expected = self.expected
        if hidden is not None and isinstance(expected, WithinBounds):  # a small weight is as far off as its scores
            expected = replace(expected, size=float(abs(expected.numbers).max(initial=0.0)))
        return expected.alike(Reply(output=ours), Reply(output=others))

    def wrong_elements(self, name: str, reply: Reply) -> WrongElements:
        """The wrong elements of a second output; none where they are unknown."""
        second = replace(reply, output=reply.attention_weights.get(name), gradients={})
        unknown = WrongElements(np.zeros(0, dtype=bool), *[np.zeros(0)] * 3)
        return self.expected.wrong_elements(second).get("output", unknown)

    def negated(self) -> AttentionWeights:
        """The weights expected of an attention that returns the negative."""
        if isinstance(self.expected, NearInNorm):
            return replace(self, expected=replace(self.expected, value=-self.expected.value))
        output = Bounded(-self.expected.output.value, self.expected.output.bound)
        return replace(self, expected=replace(self.expected, output=output))

    @staticmethod
    def _hidden(hidden: Array, called: str, actual: Array) -> Verdict | None:
        places = np.argwhere(hidden & (actual != 0))
        if not len(places):
            return None
        place = tuple(map(int, places[0]))
        says = f"{called}{list(place)} is {actual[place]:.7g}, of a key that its query may not attend to"
        return Verdict(Status.FAILED, f"{says}, expected 0 ({len(places)} such weights)", math.inf, output_wrong=True)

    def _sums(self, called: str, actual: Array) -> Verdict:
        """The sum of each row, which is 1, or 0 for a query that may attend to nothing."""
        sums = self.expected.numbers.sum(-1).round()
        slack = np.full(sums.shape, row_sum_bound(actual.shape[-1], PRECISIONS[str(self.expected.form.dtype)[6:]]))
        if isinstance(self.expected, NearInNorm):
            slack[np.isinf(self.expected.allowed)] = np.inf  # nothing is known of these rows
        return closest([(f"the sum of {called}", actual.sum(-1), Bounded(sums, slack), 1.0)])


class PerCallCase(Case):
    """A case with one expected result for each call."""

    @abstractmethod
    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]: ...

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Expected]) -> Verdict:
        return judge(expected, replies)

    def counts(self, expected: Sequence[Expected]) -> bool:
        return not any(result.loose for result in expected)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Sequence[Expected]) -> bool:
        return all(result.alike(*pair) for result, *pair in zip(expected, replies, theirs, strict=True))


def judge(results: Sequence[Expected], replies: Sequence[Reply]) -> Verdict:
    """The first complaint about a reply, clear complaints before marginal ones; else the largest error of all."""
    largest, detail, marginal = 0.0, "", None
    for number, (result, reply) in enumerate(zip(results, replies, strict=True), start=1):
        verdict = result.verdict(reply)
        if verdict.status != Status.PASSED:
            if len(results) > 1:
                verdict = replace(verdict, detail=f"call {number} of {len(results)}: {verdict.detail}")
            if not verdict.marginal:
                return verdict
            marginal = marginal or verdict
        largest, detail = max(largest, verdict.error_ratio or 0.0), verdict.detail or detail
    return marginal or Verdict(Status.PASSED, detail, largest)


def unlike_names(actual: Collection[str], expected: Mapping[str, AttentionWeights]) -> str:
    """What is wrong with the names of attention weights, or empty."""
    if set(actual) == set(expected):
        return ""
    if not actual:
        names = [name for name, second in expected.items() if second.hidden is None]
        return f"returned an output alone, should return the output and {', '.join(names) or 'its attention weights'}"
    if list(expected) == [""]:
        return f"the attention weights are a dictionary of {_listed(actual)}, should be a tensor"
    if list(actual) == [""]:
        return f"the attention weights are no dictionary, should be one of {_listed(expected)}"
    if missing := [name for name in expected if name not in actual]:
        return f"the attention weights lack {_listed(missing)}"
    foreign = [name for name in actual if name not in expected]
    return f"the attention weights have unexpected names: {_listed(foreign)}"


def row_sum_bound(keys: int, precision: Precision) -> float:
    """How far the sum of a row of weights may lie from 1, whatever the scores: what a softmax may round.

    Each power is off by 2u for its own distance from the largest score, and the sum by the mean of that. Weighted, the
    distances of n keys come to ln n at most, for that and the logarithm of the sum are the entropy; so both take
    4u(1 + ln n) together. The exponential and the quotient take LIBRARY units twice, the sum its n terms, and writing
    each weight down a unit, or an underflow. u is the dtype's unit roundoff: each step may be rounded to it.
    """
    spread = 4 * (1 + math.log(max(keys, 1)))
    return (spread + 2 * LIBRARY + 1) * precision.unit + keys * (precision.accumulator + precision.tiny)


def _listed(names: Collection[str]) -> str:
    first = ", ".join(list(names)[:3])
    return first + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _numbers(tensor: Tensor | None) -> Array:
    assert tensor is not None, "the form has been checked"
    return compare.numbers(tensor)
