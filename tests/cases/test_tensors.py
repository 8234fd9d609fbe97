"""Numbers of cases depend on the name and the seed."""

import pytest
import torch
from builders import case_named

from attnsuite.cases.layouts import scattered
from attnsuite.cases.tensors import generator, seed, seeded


def drawn(number: int) -> tuple[float, ...]:
    with seed(number):
        return tuple(generator("a/case").normal(size=3))


def test_each_seed_draws_the_same_numbers_again_and_0_is_the_default() -> None:
    assert drawn(0) == tuple(generator("a/case").normal(size=3))
    assert drawn(1) == drawn(1)
    assert len({drawn(number) for number in range(4)}) == 4


def test_a_seed_ends_with_its_block_even_if_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), seed(3), seed(4):
        _ = seeded() // 0
    assert seeded() == 0


def test_a_case_of_attention_keeps_no_numbers_of_another_seed() -> None:
    case = case_named("attention", "plain/small")
    first = case.calls("float64")[0].tensors["query"]
    with seed(1):
        other = case.calls("float64")[0].tensors["query"]

    assert not torch.equal(first, other)
    assert torch.equal(first, case.calls("float64")[0].tensors["query"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_scattered_numbers_are_the_same_and_no_two_axes_can_be_viewed_as_one(dtype: torch.dtype) -> None:
    tensor = torch.arange(24).reshape(2, 3, 4).to(dtype)
    changed = scattered(tensor)

    assert torch.equal(changed, tensor)
    assert changed.dtype == dtype
    for start in (0, 1):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            changed.view(*tensor.shape[:start], -1, *tensor.shape[start + 2 :])


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (1, 1)])
def test_any_shape_can_be_scattered(shape: tuple[int, ...]) -> None:
    assert torch.equal(scattered(torch.ones(shape)), torch.ones(shape))
