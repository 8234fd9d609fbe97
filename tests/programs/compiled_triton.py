"""Compile the kernels of attention/triton_fused for compute capability 9.0 on a machine without a GPU.

Prints a line for each kernel: its name, dtype, width, mask, and the bytes of shared memory that it needs.
"""

import sys
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attnsuite.implementations.attention import triton_fused

HOPPER = GPUTarget("cuda", 90, 32)
POINTERS = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.bool: "*i1"}
OPTIONS = ("num_warps", "num_stages")


def compile_kernel(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
    """What a launch does up to the launch itself."""
    options = {name: named.pop(name) for name in OPTIONS}
    values = dict(zip(kernel.arg_names, arguments, strict=False)) | named
    signature = {name: "constexpr" if name in named else argument_type(values[name]) for name in kernel.arg_names}
    source = ASTSource(kernel, signature, constexprs=named)
    compiled = triton.compile(source, target=HOPPER, options=options)
    print(kernel.fn.__name__, *sys.argv[1:], compiled.metadata.shared)


def argument_type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def main(dtype: str, width: str, mask: str) -> None:
    with mock.patch.object(triton.JITFunction, "run", compile_kernel):
        shape = (1, 4, 256, int(width))
        made = {"dtype": getattr(torch, dtype), "device": "meta"}
        query, key, value = (torch.empty(shape, **made, requires_grad=True) for _ in range(3))
        options: dict[str, Any] = {"is_causal": mask == "causal"}
        if mask not in ("causal", "none"):
            options["attn_mask"] = torch.empty((256, 256), dtype=getattr(torch, mask), device="meta")
        with mock.patch.object(torch.cuda, "device_of"):
            triton_fused.attention(query, key, value, **options).sum().backward()


if __name__ == "__main__":
    main(*sys.argv[1:])
