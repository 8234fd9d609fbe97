"""What is plugged in as `attention` to see whether it is called: it answers zeros, and refuses other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from suite.asking import Call


def probe(call: Call) -> Callable[..., Tensor]:
    """An attention for this call. Raises TypeError where what it is given has not the dtype of the call's numbers."""
    tensors = (*call.weights.values(), *call.tensors.values())
    dtype = next(tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point)

    def attention(
        query: Tensor,  # … h l e
        key: Tensor,  # … h s e
        value: Tensor,  # … h s v
        *_: Any,
        **__: Any,
    ) -> Tensor:
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.dtype != dtype:
                raise TypeError(f"the attention that was plugged in got a {name} of {tensor.dtype}, due is {dtype}")
        return query.new_zeros(*query.shape[:-1], value.shape[-1])

    return attention
