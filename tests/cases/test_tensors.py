"""Numbers of cases: by name, and by the seed."""

from __future__ import annotations

import pytest
import torch

from attnsuite.cases.tensors import generator, seed, seeded
from attnsuite.contracts import contract


def test_seed_0_is_what_is_drawn_without_a_seed():
    with seed(0):
        inside = generator("a/case").normal(size=3)
    assert (inside == generator("a/case").normal(size=3)).all()


def test_another_seed_draws_other_numbers_and_the_same_ones_again():
    def drawn(number):
        with seed(number):
            return generator("a/case").normal(size=3).tolist()

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(number)) for number in range(4)}) == 4


def test_a_seed_ends_with_its_block_even_if_that_raises():
    def fail():
        with seed(3), seed(4):
            assert seeded() == 4
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        fail()
    assert seeded() == 0


def test_a_case_of_attention_keeps_no_numbers_of_another_seed():
    case = next(case for case in contract("attention").cases() if case.name == "plain/small")

    def query():
        return case.calls("float64")[0].tensors["query"]

    first = query()
    with seed(1):
        other = query()
    assert not torch.equal(first, other)
    assert torch.equal(first, query())
