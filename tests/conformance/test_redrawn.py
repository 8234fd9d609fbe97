"""Whoever is correct is asked with the numbers of other seeds, and accused of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from checks import subject
from torch import Tensor

from attnsuite.cases import Contract
from attnsuite.conformance import redrawn as room
from attnsuite.conformance.questions import Subject
from attnsuite.conformance.redrawn import correct, rearranged, redrawn
from attnsuite.contracts import contract
from attnsuite.contracts.attention.cases import combined


@pytest.mark.slow
def test_a_contract_is_asked_under_each_seed() -> None:
    said: list[str] = []

    found = redrawn("positional_encoding", seeds=2, jobs=1, progress=said.append)

    assert found.seeds == len(said) == 2
    assert found.accusations == ()
    assert found.answers > 100
    assert 0 < found.largest < 2


def test_strangers_are_asked_and_what_ships_and_compiles_nothing() -> None:
    with ExitStack() as stack:
        names = {each.name for each in correct(contract("attention"), stack)}

    assert {"strangers/einsum", "strangers/in_any_order", "attention/matmul", "attention/torch_sdpa.math"} <= names
    assert not names & {"attention/flex", "attention/jax_nn"}


def test_whoever_is_wrong_for_some_numbers_is_accused_with_their_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong where the first query is positive, which chance decides: one seed alone would not show it."""

    def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)
        return output * 2 if query.flatten()[0] > 0 else output

    def only(of: Contract, stack: ExitStack) -> Iterator[Subject]:
        yield subject(kernel, parameters=frozenset({"query", "key", "value"}))

    monkeypatch.setattr(room, "correct", only)
    monkeypatch.setattr(room, "PARTS", 15)

    accused = [{outcome.case for outcome in room._part("attention", number, 0)[0]} for number in (1, 2, 3)]

    assert all(accused)
    assert accused[0] != accused[1] != accused[2]


def test_another_array_is_asked_of_one_who_is_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = combined.rows("quick")[:6]
    monkeypatch.setattr(combined, "rows", lambda profile, seed: rows)

    accused, answers, largest = room._array("attention", 1)

    assert (accused, answers > 0) == ([], True)
    assert 0 < largest < 2


def test_whoever_is_wrong_in_another_array_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = combined.rows("quick")[:6]
    monkeypatch.setattr(combined, "rows", lambda profile, seed: rows)
    monkeypatch.setattr(room, "correct", lambda of, stack: [subject(lambda query, key, value, **_: query * 0)])

    accused, answers, _ = room._array("attention", 1)

    assert accused
    assert len(accused) <= answers


def test_a_contract_that_combines_nothing_has_no_other_arrays() -> None:
    assert rearranged("add_norm", 2, 1) is None
