"""One tensor in several roles: its gradient is the sum of what each role sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnsuite.cases import Call, Calls, Conventions
from attnsuite.cases.expected import Form, PerCallCase, WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import dtype_of
from attnsuite.contracts.attention.cases.case import AttentionCase, due
from attnsuite.judging.precision import PRECISIONS, Bounded
from attnsuite.model import DTYPES


@dataclass(frozen=True)
class OneTensor(PerCallCase):
    """A call in which several inputs are one tensor, whose gradient is asked under the first of their names."""

    name: str
    why: str
    roles: tuple[str, ...]
    of: AttentionCase
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        call = self.of.but(name=self.name, keys=self.of.queries).call(dtype)
        shared = dict.fromkeys(self.roles, call.tensors[self.roles[0]])
        others = tuple(name for name in INPUTS if name not in self.roles)
        wanted = (self.roles[0], *others)
        return (replace(call, tensors={**call.tensors, **shared}, same_tensor=self.roles, gradient_of=wanted),)

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(self._summed(call, conventions) for call in calls)

    def _summed(self, call: Call, conventions: Conventions) -> WithinBounds:
        apart = due(replace(call, gradient_of=INPUTS), conventions)
        unit = PRECISIONS[dtype_of(call)].unit
        gradients = {name: each for name, each in apart.gradients.items() if name in call.gradient_of}
        gradients[self.roles[0]] = total([apart.gradients[role] for role in self.roles], unit)
        return replace(apart, form=due_form(apart, call), gradients=gradients)


def due_form(apart: WithinBounds, call: Call) -> Form:
    """The form of the reply, with the gradients that are asked."""
    shapes = {name: shape for name, shape in apart.form.gradients.items() if name in call.gradient_of}
    return replace(apart.form, gradients=shapes)


def total(parts: Sequence[Bounded], unit: float) -> Bounded:
    """The sum of rounded gradients. Each addition, in the dtype and in any order, may round what it has so far."""
    value, bound = (np.sum([getattr(part, what) for part in parts], axis=0) for what in ("value", "bound"))
    size = np.sum([abs(part.value).astype(np.float64) + part.bound for part in parts], axis=0)
    return Bounded(value, bound + (len(parts) - 1) * unit * size)


def roles() -> list[OneTensor]:
    """Self-attention with one tensor, as a layer without projections calls it."""
    square = AttentionCase("roles/square", "", queries=7, gradient_of=INPUTS)
    return [
        OneTensor("roles/all_three", "one tensor is query, key and value", INPUTS, square),
        OneTensor("roles/query_and_key", "one tensor is query and key", ("query", "key"), square),
        OneTensor("roles/key_and_value", "one tensor is key and value", ("key", "value"), square),
        OneTensor("roles/query_and_value", "one tensor is query and value", ("query", "value"), square),
        OneTensor("roles/causal", "all three under causal", INPUTS, square.but(causal=True)),
        OneTensor("roles/grouped", "key and value of fewer heads", ("key", "value"), square.but(heads=4, key_heads=2)),
    ]
