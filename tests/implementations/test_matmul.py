"""The baseline's products: in bfloat16 of that type, in float16 of float32, whose range they need."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnsuite.implementations.attention.matmul import attention


class Products(TorchDispatchMode):
    """Notes the dtypes of what is multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function in (torch.ops.aten.bmm.default, torch.ops.aten.mm.default):
            self.dtypes.append(arguments[0].dtype)
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize(
    ("given", "multiplied"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_products_are_of_the_dtype_but_where_they_may_overflow(given: torch.dtype, multiplied: torch.dtype) -> None:
    inputs = [torch.randn(2, 3, 8, 4, dtype=given, requires_grad=True) for _ in range(3)]

    with Products() as seen:
        attention(*inputs, is_causal=True).sum().backward()

    assert seen.dtypes == [multiplied] * 6, "two forward, four backward"
