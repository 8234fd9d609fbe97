"""What is due of the reply to a call, and how a reply is held against it: first its form, then its numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import returned_weights
from attnsuite.cases.call import Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded
from attnsuite.judging.verdicts import Verdict, closest, together, unlike
from attnsuite.judging.whole import Whole
from attnsuite.model import Status

Array = np.ndarray[Any, Any]

ROUNDINGS = 8.0
"""Units of the dtype by which two replies may differ, beyond their bounds, and still count as equal for diagnosis."""
EMBEDDED = {"float64": 1e-9, "float32": 4e-6}
"""How far a model's numbers may lie from a document's, by dtype: its inputs pass through tables of embeddings."""


@dataclass(frozen=True)
class Form:
    """What a reply has to be before any of its numbers is read."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    gradients: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the gradients that are wanted."""
    weights: tuple[int, ...] | None = None
    """The shape of weights that may come along, as `(output, weights)`; None where none may, or they are not judged."""
    pair: bool = False
    """Whether weights of any shape may come along: of contracts that judge them where `need_weights` is asked."""

    def unfit(self, reply: Reply, name: str = "output") -> Verdict | None:
        """What is wrong with the form of a reply: errors, types, shapes, dtypes, changed or shared inputs."""
        if reply.raised:
            return Verdict(Status.RAISED, reply.raised)
        if said := self._output(reply, name) or self._inputs(reply, name) or self._gradients(reply):
            return Verdict(Status.WRONG, said)
        return None

    def _output(self, reply: Reply, name: str) -> str | None:
        if reply.no_model:
            return f"returned {reply.kind} in place of a model, should return a callable"
        if reply.output is None:
            return f"returned {reply.kind}, should return a Tensor"
        if reply.pair and self.weights is None and not self.pair:
            return f"returned a pair, should return the {name} alone"
        said = unlike(name, reply.output, self.shape, self.dtype)
        turned = reply.weights is not None and tuple(reply.weights.shape) == self.shape != self.weights
        return f"{said}, as the second of the pair does: return {name}, weights" if said and turned else said

    def _inputs(self, reply: Reply, name: str) -> str | None:
        if reply.changed:
            return f"changed its input {' and '.join(reply.changed)}"
        if reply.aliased:
            return f"the {name} shares memory with {' and '.join(reply.aliased)}"
        if reply.gradients_overwritten:
            return f"a later call changed the gradient of {' and '.join(reply.gradients_overwritten)}"
        return f"a later call changed this {name}" if reply.overwritten else None

    def _gradients(self, reply: Reply) -> str | None:
        for name, shape in self.gradients.items():
            gradient = reply.gradients.get(name)
            if gradient is None:
                return f"no gradient reached {name}"
            if said := unlike(f"gradient of {name}", gradient, shape, self.dtype):
                return said
        return None


class Expected(ABC):
    """What is due of the reply to one call."""

    form: Form
    loose: bool = False
    """Whether its bounds had to be so wide that luck decides."""
    decided: Array | None = None
    """Where the contract decides what is answered, in the output's shape, whatever documents print; None: nowhere."""
    rows: Array | None = None
    """The rows of the output, along its last axis but one, that are judged; None: all."""
    weights: returned_weights.Weights | None = None
    """What is due of weights that come along; None where nothing is."""

    @property
    @abstractmethod
    def numbers(self) -> Array:
        """The true output, in float64."""

    @property
    @abstractmethod
    def room(self) -> Array:
        """How far from a document's numbers an honest output may lie for what the dtype costs, element by element."""

    @abstractmethod
    def held(self, reply: Reply) -> Verdict:
        """The judgement on the numbers of a reply whose form is right."""

    @abstractmethod
    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """Whether two replies whose form is right are equal, but for what rounding may have cost both."""

    def verdict(self, reply: Reply) -> Verdict:
        if complaint := self.form.unfit(reply):
            return complaint
        found = self.held(reply)
        if reply.weights is None or self.form.weights is None:
            return found
        return returned_weights.judge_with_weights(found, reply.weights, self.weights, self.form.weights, self.rows)

    def alike(self, reply: Reply, theirs: Reply) -> bool:
        """Whether two replies give the same answer, right or wrong."""
        return not (self.form.unfit(reply) or self.form.unfit(theirs)) and self.equal(reply, theirs)


@dataclass(frozen=True)
class WithinBounds(Expected):
    """Numbers, and gradients where they are wanted; each number may be off by a bound of its own."""

    form: Form
    output: Bounded
    accept: float = 1.0
    """How many bounds off an output may be; gradients may be off by one."""
    gradients: Mapping[str, Bounded] = field(default_factory=dict)
    rows: Array | None = None
    size: float = 0.0
    """The size of the numbers that the output is made of: rounding costs this much even where its bound is 0."""
    loose: bool = False
    decided: Array | None = None
    wholes: Mapping[str, Whole] = field(default_factory=dict)
    """The limits of errors taken together: of the output, and of gradients by name."""
    weights: returned_weights.Weights | None = None

    @property
    def numbers(self) -> Array:
        return self.output.value.reshape(self.form.shape).astype(np.float64)

    @property
    def room(self) -> Array:
        return self.accept * self.output.bound.reshape(self.form.shape)

    def held(self, reply: Reply) -> Verdict:
        assert reply.output is not None
        everything = compare.numbers(reply.output)
        stray = int((~np.isfinite(everything)).sum()) if self.rows is not None else 0
        if stray and np.isfinite(self.output.value.astype(np.float64)).all():
            says = f"output holds {stray} numbers that are infinite or NaN"
            return Verdict(Status.WRONG, says, np.inf, output_wrong=True)
        gradients = [
            (f"gradient of {name}", compare.numbers(_known(reply.gradients[name])), due, 1.0)
            for name, due in self.gradients.items()
        ]
        pairs = [("output", self._judged(everything), self.output, self.accept), *gradients]
        pairs = [(name, self._in_range(numbers, due), due, accept) for name, numbers, due, accept in pairs]
        found = closest(pairs)
        return together(pairs, self.wholes) or found if found.status == Status.PASSED else found

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """The truth is pretended to be the other reply, and its bounds are widened by what rounding may have cost."""
        pretended = replace(
            self,
            output=self._widened(self._judged(compare.numbers(_known(theirs.output))), self.output),
            gradients={
                name: self._widened(compare.numbers(_known(theirs.gradients[name])), due)
                for name, due in self.gradients.items()
            },
            wholes={name: whole.between_two() for name, whole in self.wholes.items()},
        )
        return pretended.held(reply).status == Status.PASSED

    def _judged(self, output: Array) -> Array:
        return output if self.rows is None else output[..., self.rows, :]

    def _in_range(self, actual: Array, due: Bounded) -> Array:
        """The numbers, with the truth in place of an infinity where the truth may lie beyond the dtype's range."""
        if np.isfinite(actual).all():
            return actual
        value, bound = (array.reshape(actual.shape).astype(np.float64) for array in (due.value, due.bound))
        beyond = abs(value) + bound >= torch.finfo(self.form.dtype).max
        return np.where(np.isinf(actual) & beyond & (np.sign(actual) == np.sign(value)), value, actual)

    def _widened(self, values: Array, due: Bounded) -> Bounded:
        rounding = ROUNDINGS * _unit(self.form) * np.maximum(np.nan_to_num(abs(values)), self.size)
        return Bounded(values, np.nan_to_num(due.bound.reshape(values.shape)) + rounding)


@dataclass(frozen=True)
class NearInNorm(Expected):
    """Vectors along the last axis; the norm of each one's error is limited. For models, which have no bounds."""

    form: Form
    value: Array
    allowed: Array

    @property
    def numbers(self) -> Array:
        return self.value.astype(np.float64)

    @property
    def room(self) -> Array:
        return np.full(self.form.shape, EMBEDDED[str(self.form.dtype)[6:]])

    def held(self, reply: Reply) -> Verdict:
        actual = compare.numbers(_known(reply.output))
        ratios = compare.distances(actual, self.value, self.allowed)
        ratio = float(ratios.max(initial=0.0))
        if says := compare.distance(actual, self.value, self.allowed):
            return Verdict(Status.WRONG, says, ratio, output_wrong=True, marginal=compare.marginal(ratios))
        return Verdict(Status.PASSED, "", ratio)

    def relative(self, output: Tensor) -> Mapping[str, float]:
        """The errors as shares of the norm of the truth, by position: `largest`, and `rms` over positions."""
        norms = np.sqrt((self.numbers**2).sum(-1))
        errors = compare.distances(compare.numbers(output), self.value, norms)
        return {"largest": float(errors.max(initial=0.0)), "rms": math.sqrt(float((errors**2).mean()))}

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        """Finite vectors lie near each other, and all others are in the same places."""
        ours, values = (compare.numbers(_known(each.output)) for each in (reply, theirs))
        room = self.allowed + ROUNDINGS * _unit(self.form) * np.sqrt(
            (np.nan_to_num(values, posinf=0.0, neginf=0.0) ** 2).sum(-1)
        )
        known = np.isfinite(values).all(-1)
        if compare.distance(ours[known], values[known], room[known]):
            return False
        return np.array_equal(np.isfinite(ours).all(-1), known)


class PerCallCase(Case):
    """A case whose truth is what is due of each call."""

    @abstractmethod
    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]: ...

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Expected]) -> Verdict:
        return judge(truth, replies)

    def counts(self, truth: Sequence[Expected]) -> bool:
        return not any(due.loose for due in truth)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Sequence[Expected]) -> bool:
        return all(due.alike(*pair) for due, *pair in zip(truth, replies, theirs, strict=True))


def judge(dues: Sequence[Expected], replies: Sequence[Reply]) -> Verdict:
    """Hold each reply against what is due of it: the first complaint, or the largest error of all.

    A marginal complaint comes after those that are not.
    """
    largest, says, marginal = 0.0, "", None
    for number, (due, reply) in enumerate(zip(dues, replies, strict=True), start=1):
        found = due.verdict(reply)
        if found.status != Status.PASSED:
            found = replace(found, detail=f"call {number} of {len(dues)}: {found.detail}") if len(dues) > 1 else found
            if not found.marginal:
                return found
            marginal = marginal or found
        largest, says = max(largest, found.error_ratio or 0.0), found.detail or says
    return marginal or Verdict(Status.PASSED, says, largest)


def _known(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "the form has been looked at"
    return tensor


def _unit(form: Form) -> float:
    return PRECISIONS[str(form.dtype)[6:]].unit
