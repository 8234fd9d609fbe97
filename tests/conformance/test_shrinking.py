"""A failing call is made smaller as long as it fails, and no longer than there is time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from attnsuite.cases import Call
from attnsuite.conformance.diagnosis.shrinking import Budget, GaveUp, Shrinking


def call(size: int) -> Call:
    return Call({"query": torch.zeros(size)})


def size(of: Call) -> int:
    return len(of.tensors["query"])


def halved(of: Call) -> Iterator[Call]:
    if size(of) > 1:
        yield call(size(of) // 2)


def one_less(of: Call) -> Iterator[Call]:
    if size(of) > 1:
        yield call(size(of) - 1)


def test_the_smallest_call_that_fails_is_found() -> None:
    shrinking = Shrinking(call(100), lambda of: (size(of) > 16, 0.0), Budget())

    assert size(shrinking.through((halved, one_less))) == 17
    assert not shrinking.gave_up


def test_it_gives_up_after_so_many_calls_with_what_it_has() -> None:
    shrinking = Shrinking(call(100), lambda of: (True, 0.0), Budget(asked=2))

    assert size(shrinking.through((halved,))) == 25
    assert shrinking.gave_up


def test_waiting_for_slow_answers_counts() -> None:
    shrinking = Shrinking(call(100), lambda of: (True, 3.0), Budget(seconds=5.0))

    assert size(shrinking.through((halved,))) == 25, "two answers of three seconds"
    assert shrinking.gave_up


def test_nothing_is_asked_without_time() -> None:
    with pytest.raises(GaveUp):
        Budget(seconds=0.0).spend(lambda of: (True, 0.0), call(1))
