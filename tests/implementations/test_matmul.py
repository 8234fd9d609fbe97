"""Dtypes of the baseline's products: float16 is multiplied in float32, whose range its scores need."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnsuite.implementations.attention.matmul import attention


class Products(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function in (torch.ops.aten.bmm.default, torch.ops.aten.mm.default):
            self.dtypes.append(arguments[0].dtype)
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize(
    ("dtype", "multiplied"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_products_have_the_inputs_dtype_unless_they_may_overflow(dtype: torch.dtype, multiplied: torch.dtype) -> None:
    inputs = [torch.randn(2, 3, 8, 4, dtype=dtype, requires_grad=True) for _ in range(3)]

    with Products() as products:
        attention(*inputs, is_causal=True).sum().backward()

    assert products.dtypes == [multiplied] * 6, "two forward, four backward"
