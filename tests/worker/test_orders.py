"""Calls in another order than one by one, at once, and with something unusual around them."""

import threading
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call
from attnsuite.worker.calling import run_calls

NUMBERS = torch.arange(6.0).reshape(2, 3)


def call(**changes: Any) -> Call:
    tensors = {"query": NUMBERS, "key": NUMBERS + 1, "value": changes.pop("value", NUMBERS + 2)}
    return Call(tensors, **changes)


def weighed(query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
    return query * key + value


def test_a_backward_pass_may_run_later_and_more_than_once() -> None:
    first = call(gradient_of=("query",), output_gradient=torch.ones(2, 3))
    forward = replace(first, gradient_of=(), output_gradient=None, requires_gradient=("query",))
    again = replace(first, backward_of=0, output_gradient=torch.full((2, 3), 2.0))

    one, between, back, twice = run_calls(weighed, [forward, call(), replace(first, backward_of=0), again])

    assert (one.gradients, between.gradients) == ({}, {})
    assert back.output is not None
    assert one.output is not None
    assert torch.equal(back.output, one.output)
    gradients = [reply.gradients["query"] for reply in (back, twice)]
    assert torch.equal(gradients[0], first.tensors["key"])  # type: ignore[arg-type]
    assert torch.equal(gradients[1], 2 * first.tensors["key"])  # type: ignore[arg-type]


def test_there_is_no_way_back_through_a_call_that_failed() -> None:
    def fails(*_: Tensor) -> Tensor:
        raise ValueError("no")

    learning = call(gradient_of=("query",), output_gradient=torch.ones(2, 3))

    first, back = run_calls(fails, [learning, replace(learning, backward_of=0)])

    assert first.error.startswith("ValueError: no (test_orders.py, line ")
    assert back.error == "RuntimeError: no backward pass is possible, because call 1 returned no output"


def test_a_gradient_that_a_later_call_changes_is_told() -> None:
    class Reusing(torch.autograd.Function):
        buffer = torch.zeros(2, 3)

        @staticmethod
        def forward(ctx: Any, query: Tensor) -> Tensor:
            return query.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return Reusing.buffer.copy_(gradient)

    one = call(gradient_of=("query",), output_gradient=torch.ones(2, 3))
    other = replace(one, output_gradient=torch.full((2, 3), 2.0))

    first, second = run_calls(lambda query, key, value: Reusing.apply(query), [one, other])

    assert (first.gradients_overwritten, second.gradients_overwritten) == (("query",), ())


def test_a_call_is_made_as_it_wants_it_and_everything_is_restored() -> None:
    seen: list[Any] = []

    def look(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append((torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled()))
        return query.clone()

    before = torch.get_num_threads(), torch.get_default_dtype(), False
    wants = [call(threads=3), call(default_dtype="float64"), call(inference=True), call()]

    replies = run_calls(look, wants)

    assert seen == [(3, *before[1:]), (before[0], torch.float64, False), (*before[:2], True), before]
    assert (torch.get_num_threads(), torch.get_default_dtype(), False) == before
    assert all(reply.output is not None for reply in replies)


def test_calls_at_once_are_made_in_threads_of_their_own_and_answered_in_order() -> None:
    threads = set()

    def note(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        threads.add(threading.get_ident())
        return value.clone()

    asked = [call(value=torch.full((2, 3), float(number)), at_once=True) for number in range(3)]

    replies = run_calls(note, [call(), *asked, call()])

    assert len(threads) == 4
    assert [float(reply.output[0, 0]) for reply in replies[1:4] if reply.output is not None] == [0.0, 1.0, 2.0]


def test_of_answers_that_differ_the_odd_one_is_judged() -> None:
    made: list[int] = []

    def seldom_wrong(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        made.append(1)
        return value + (1 if len(made) == 5 else 0)

    (reply,) = run_calls(seldom_wrong, [call(value=torch.zeros(2, 3), at_once=True)])

    assert reply.output is not None
    assert bool((reply.output == 1).all())


def test_whoever_owns_an_output_may_write_to_it() -> None:
    kept = torch.zeros(2, 3)

    shared = run_calls(lambda query, key, value: kept, [call(written=True), call()])
    one_place = run_calls(lambda query, key, value: torch.zeros(()).expand(2, 3), [call(written=True)])

    assert [bool(reply.output.any()) for reply in shared if reply.output is not None] == [False, True]
    assert not any(reply.overwritten for reply in shared), "its owner has written to it, no later call"
    assert one_place[0].error.startswith("the output cannot be written to: RuntimeError: ")
