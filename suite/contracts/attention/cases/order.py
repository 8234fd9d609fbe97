"""Forward and backward passes in another order than one by one: what a call keeps for its backward pass is its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attnsuite.cases import Call, Calls, Case
from attnsuite.cases.layouts import INPUTS
from attnsuite.contracts.attention.cases.behaviour import SMALL, InARow, Making
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.model import DTYPES

LEARNING = SMALL.but(gradient_of=INPUTS)
TILED = AttentionCase("order/tiled", "", batch=1, queries=70, keys=130, width=16, gradient_of=INPUTS)


def order() -> list[Case]:
    """Backward passes run after other calls, twice, or in another thread; gradients outlive all of them."""
    return [
        InARow("order/first_goes_back_first", "forward A, forward B, backward A, backward B", interleaved(LEARNING)),
        InARow("order/last_goes_back_first", "forward A, forward B, backward B, backward A", interleaved(LEARNING, (1, 0))),
        InARow("order/other_options_between", "a call with other options, between forward and backward", interleaved(LEARNING, (0,), scale=-0.6)),
        InARow("order/causal_between", "a causal call, between forward and backward", interleaved(LEARNING, causal=True)),
        InARow("order/other_keys_between", "a call with fewer keys, between forward and backward", interleaved(LEARNING, keys=4)),
        InARow("order/tiled", "across tiles", interleaved(TILED), ("float32", "float16")),
        InARow("order/evaluated_between", "a call without gradients, between forward and backward", evaluated_between),
        InARow("order/twice", "the backward pass runs twice through a graph that is kept", twice(LEARNING), DTYPES),
        InARow("order/twice_tiled", "the same across tiles", twice(TILED), ("float32", "float16")),
        InARow("order/twice_with_one_between", "another call's between the two", twice_around(LEARNING)),
        InARow("order/backward_in_another_thread", "forward here, backward there", in_another_thread),
        InARow("order/gradients_outlive_calls", "gradients are the caller's, whatever is called later", in_a_row(LEARNING, 3)),
    ]  # fmt: skip


def forward_of(call: Call) -> Call:
    """The forward pass alone, whose backward pass a later call runs."""
    return replace(call, gradient_of=(), output_gradient=None, requires_gradient=call.gradient_of)


def interleave(calls: Calls, order: tuple[int, ...] = (0, 1)) -> Calls:
    """All forward passes, then the backward passes in this order."""
    return (*map(forward_of, calls), *(replace(calls[number], backward_of=number) for number in order))


def interleaved(case: AttentionCase, order: tuple[int, ...] = (0, 1), **unusual: object) -> Making:
    """Two calls of a case, of other numbers and with something unusual about the second."""
    other = case.but(name=case.name + "_other", **unusual)
    return lambda draw: interleave((draw(case), draw(other)), order)


def evaluated_between(draw: Callable[[AttentionCase], Call]) -> Calls:
    learning = draw(LEARNING)
    evaluated = replace(draw(SMALL.but(name="order/evaluated")), grad_mode=False)
    return (forward_of(learning), evaluated, replace(learning, backward_of=0))


def twice(case: AttentionCase) -> Making:
    """The second time with another output gradient."""
    other = case.but(name=case.name + "_other")
    return lambda draw: (draw(case), replace(draw(case), output_gradient=draw(other).output_gradient, backward_of=0))


def twice_around(case: AttentionCase) -> Making:
    other = case.but(name=case.name + "_other")
    return lambda draw: (draw(case), draw(other), replace(draw(case), backward_of=0))


def in_another_thread(draw: Callable[[AttentionCase], Call]) -> Calls:
    learning = draw(LEARNING)
    return (forward_of(learning), replace(learning, backward_of=0, own_thread=True))


def in_a_row(case: AttentionCase, times: int) -> Making:
    return lambda draw: tuple(draw(case.but(name=f"{case.name}_{number}")) for number in range(times))
