"""Arrays of JAX: they cross by DLPack, and their gradients come from `jax.vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attnsuite.registry.signatures.arrays import Arrays


def _to(tensor: Any) -> Any:
    import jax

    return jax.dlpack.from_dlpack(tensor.detach().contiguous())


def _back(array: Any) -> Any:
    import jax
    import torch

    if not isinstance(array, jax.Array):
        return array
    found: Any = torch.utils.dlpack.from_dlpack(array.block_until_ready())
    return found.clone()  # JAX may hand out memory that it keeps


def _gradient(array: Any) -> Any:
    """A gradient as a tensor; None where JAX has none, as for a boolean mask."""
    import jax

    return _back(array) if isinstance(array, jax.Array) else None


def _with_gradient(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    """What a function of arrays answers about these tensors, in PyTorch's graph."""
    import jax
    import torch

    wide = any(each.dtype == torch.float64 for each in tensors)
    wanted = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    with jax.enable_x64(wide):
        if not wanted:
            return _back(function(*map(_to, tensors)))
        return _gradient_of_jax().apply(function, wide, *tensors)


def _gradient_of_jax() -> Any:
    """The class that joins the two kinds of gradients, made once torch is there."""
    global _made
    if _made is None:
        _made = _make()
    return _made


_made: Any = None


def _make() -> Any:
    import jax
    import torch
    from torch.autograd.function import once_differentiable

    class OfJax(torch.autograd.Function):
        """The forward pass keeps what `jax.vjp` returns, the backward pass calls it."""

        @staticmethod
        def forward(ctx: Any, function: Callable[..., Any], wide: bool, *tensors: Any) -> Any:
            output, ctx.pull = jax.vjp(function, *map(_to, tensors))
            ctx.wide, ctx.dtype = wide, output.dtype
            return _back(output)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            with jax.enable_x64(ctx.wide):
                return None, None, *map(_gradient, ctx.pull(_to(gradient)))

    return OfJax


JAX = Arrays(
    "jax",
    _to,
    _back,
    "jax.dlpack.from_dlpack({})",
    "torch.from_dlpack({})",
    "import jax",
    "jax",
    with_gradient=_with_gradient,
)
