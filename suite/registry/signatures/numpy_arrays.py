"""Arrays of numpy: they share their memory with the tensors that they are made of, and carry no gradient."""

from __future__ import annotations

from typing import Any

from attnsuite.registry.signatures.arrays import Arrays

NO_BFLOAT16 = "numpy has no bfloat16"
NO_GRADIENT = "numpy's arrays carry no gradient"
REASONS = (("gradient", NO_GRADIENT), ("mask_gradient", NO_GRADIENT), ("bfloat16", NO_BFLOAT16))
"""What arrays of numpy cannot take, and why."""


def _to(tensor: Any) -> Any:
    import torch

    if tensor.dtype == torch.bfloat16:
        raise NotImplementedError(NO_BFLOAT16)
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(NO_GRADIENT)
    return tensor.detach().cpu().numpy()


def _back(array: Any) -> Any:
    import numpy
    import torch

    if not isinstance(array, numpy.ndarray | numpy.generic):
        return array
    return torch.from_numpy(numpy.asarray(array))


NUMPY = Arrays("numpy", _to, _back, "{}.numpy()", "torch.from_numpy({})")
