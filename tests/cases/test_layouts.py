"""Scattered tensors, and the mutant that they kill."""

import pytest
import torch

from attnsuite.cases.layouts import scattered
from attnsuite.cases.mutants import reads_in_memory_order


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


def test_reading_in_memory_order_changes_scattered_numbers_alone() -> None:
    mutant = reads_in_memory_order(torch.Tensor.clone).function
    tensor = torch.arange(6.0).reshape(2, 3)

    assert torch.equal(mutant(tensor), tensor)
    assert not torch.equal(mutant(scattered(tensor)), tensor)
