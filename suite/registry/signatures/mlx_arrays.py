"""Arrays of MLX: they are copied by way of numpy, and carry no gradient here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from attnsuite.registry.signatures.arrays import Arrays

NO_GRADIENT = "gradients of MLX's arrays are not led back to PyTorch"


def _to(tensor: Any) -> Any:
    import torch

    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(NO_GRADIENT)
    core, plain = import_module("mlx.core"), tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has none; float32 holds its numbers exactly
        return core.array(plain.float().numpy()).astype(core.bfloat16)
    return core.array(plain.numpy())


def _back(array: Any) -> Any:
    import numpy
    import torch

    core = import_module("mlx.core")
    if not isinstance(array, core.array):
        return array
    if array.dtype == core.bfloat16:
        return torch.from_numpy(numpy.array(array.astype(core.float32))).bfloat16()
    return torch.from_numpy(numpy.array(array))


MLX = Arrays(
    "mlx",
    _to,
    _back,
    "mlx.core.array({}.numpy())",
    "torch.from_numpy(numpy.array({}))",
    "import mlx.core, numpy",
    "mlx",
)
