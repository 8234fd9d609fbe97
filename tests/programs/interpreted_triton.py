"""Check attention/triton_fused in Triton's interpreter: DTYPE PATTERN...; prints a line for each outcome.

A process of its own, because Triton decides when it is imported whether kernels are compiled or interpreted.
"""

import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import attnsuite
from attnsuite.implementations.attention import triton_fused


@attnsuite.implementation(lacks={"float64": "no kernel", "mask_gradient": "no kernel"})
def attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: Any = None,
) -> Any:
    """The kernels as a function that supports a CPU."""
    return triton_fused.attention(
        query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, window=window
    )


if __name__ == "__main__":
    dtype, *patterns = sys.argv[1:]
    for outcome in attnsuite.check(attention, cases=patterns, dtypes=dtype):
        print(outcome.status, outcome.case, outcome.detail)
