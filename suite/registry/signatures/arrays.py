"""The seam between PyTorch's tensors and the arrays of numpy, JAX and MLX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

NO_BFLOAT16 = "numpy has no bfloat16"
NO_GRADIENT = "numpy's arrays carry no gradient"
NO_GRADIENT_OF_MLX = "gradients of MLX's arrays are not converted to PyTorch"


def _unchanged(array: Any) -> Any:
    return array


@dataclass(frozen=True)
class Arrays:
    """A type of arrays: conversion from tensors (`to`) and to tensors (`back`), and both as Python.

    `back` returns an object of another type unchanged, for the judge to report. `with_gradient` calls a function of
    arrays so that gradients flow.
    """

    name: str = "torch"
    to: Callable[[Any], Any] = _unchanged
    back: Callable[[Any], Any] = _unchanged
    written_to: str = "{}"
    written_back: str = "{}"
    imports: str = ""
    """The import that this Python needs."""
    library: str = ""
    """The library whose arrays they are; empty for those that are always installed."""
    with_gradient: Callable[..., Any] | None = None
    """(function of arrays, tensors) → the output as a tensor of PyTorch's graph."""


def _refuse_gradient(tensor: Any, reason: str) -> None:
    import torch

    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(reason)


# numpy: arrays share their memory with the tensors


def _to_numpy(tensor: Any) -> Any:
    if str(tensor.dtype) == "torch.bfloat16":
        raise NotImplementedError(NO_BFLOAT16)
    _refuse_gradient(tensor, NO_GRADIENT)
    return tensor.detach().cpu().numpy()


def _from_numpy(array: Any) -> Any:
    import numpy
    import torch

    return torch.from_numpy(numpy.asarray(array)) if isinstance(array, numpy.ndarray | numpy.generic) else array


NUMPY = Arrays("numpy", _to_numpy, _from_numpy, "{}.numpy()", "torch.from_numpy({})")


# MLX: arrays are copied by way of numpy


def _to_mlx(tensor: Any) -> Any:
    _refuse_gradient(tensor, NO_GRADIENT_OF_MLX)
    core, plain = import_module("mlx.core"), tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has none; float32 holds its numbers exactly
        return core.array(plain.float().numpy()).astype(core.bfloat16)
    return core.array(plain.numpy())


def _from_mlx(array: Any) -> Any:
    import numpy
    import torch

    core = import_module("mlx.core")
    if not isinstance(array, core.array):
        return array
    if array.dtype == core.bfloat16:
        return torch.from_numpy(numpy.array(array.astype(core.float32))).bfloat16()
    return torch.from_numpy(numpy.array(array))


MLX = Arrays(
    *("mlx", _to_mlx, _from_mlx, "mlx.core.array({}.numpy())", "torch.from_numpy(numpy.array({}))"),
    imports="import mlx.core, numpy",
    library="mlx",
)


# JAX: arrays cross by DLPack, and gradients come from `jax.vjp`


def _to_jax(tensor: Any) -> Any:
    import jax

    return jax.dlpack.from_dlpack(tensor.detach().contiguous())


def _from_jax(array: Any) -> Any:
    import jax
    import torch

    if not isinstance(array, jax.Array):
        return array
    tensor: Any = torch.utils.dlpack.from_dlpack(array.block_until_ready())
    return tensor.clone()  # JAX may still use this memory


def _with_jax_gradient(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    """The output of a function of arrays, in PyTorch's graph."""
    import jax
    import torch

    wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    with jax.enable_x64(wide):
        if not needs_gradient:
            return _from_jax(function(*map(_to_jax, tensors)))
        return _jax_function().apply(function, wide, *tensors)


@cache
def _jax_function() -> Any:
    """An autograd function whose backward pass is `jax.vjp`'s; defined once torch is imported."""
    import jax
    import torch
    from torch.autograd.function import once_differentiable

    class JaxFunction(torch.autograd.Function):
        """The forward pass stores the function that `jax.vjp` returns; the backward pass calls it."""

        @staticmethod
        def forward(ctx: Any, function: Callable[..., Any], wide: bool, *tensors: Any) -> Any:
            output, ctx.pull = jax.vjp(function, *map(_to_jax, tensors))
            ctx.wide = wide
            return _from_jax(output)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            with jax.enable_x64(ctx.wide):
                gradients = ctx.pull(_to_jax(gradient))  # that of a boolean mask is no array
                return (
                    None,
                    None,
                    *(_from_jax(gradient) if isinstance(gradient, jax.Array) else None for gradient in gradients),
                )

    return JaxFunction


JAX = Arrays(
    *("jax", _to_jax, _from_jax, "jax.dlpack.from_dlpack({})", "torch.from_dlpack({})"),
    imports="import jax",
    library="jax",
    with_gradient=_with_jax_gradient,
)
