"""What strangers share: checks and arithmetic around a way of computing, and affine maps in unusual orders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.staged import Staged

Function = Callable[..., Any]


def widened(of: type[Staged], core: Function) -> Function:
    """Computes half types in float32 and returns the dtype of the first argument."""
    return of.checked(_converted(core, Staged.wide))


def in_float64(of: type[Staged], core: Function) -> Function:
    """Computes in float64 and returns the dtype of the first argument."""
    return of.checked(_converted(core, lambda numbers: torch.float64))


def in_numpy(of: type[Staged], core: Function) -> Function:
    """Calls the core with numpy arrays of float64 and returns a tensor."""

    @functools.wraps(core)
    def answer(*given: Any, **options: Any) -> Tensor:
        arrays = [_array(each) for each in given]
        found = core(*arrays, **{name: _array(each) for name, each in options.items()})
        return torch.tensor(found, dtype=given[0].dtype)

    return of.checked(answer)


def _converted(core: Function, dtype: Callable[[Tensor], torch.dtype]) -> Function:
    def converted(given: Any) -> Any:
        return given.to(dtype(given)) if isinstance(given, Tensor) and given.is_floating_point() else given

    @functools.wraps(core)
    def answer(*given: Any, **options: Any) -> Any:
        found = core(*map(converted, given), **{name: converted(each) for name, each in options.items()})
        back = given[0].dtype
        return tuple(each.to(back) for each in found) if isinstance(found, tuple) else found.to(back)

    return answer


def _array(given: Any) -> Any:
    if not isinstance(given, Tensor):
        return given
    return given.double().numpy() if given.is_floating_point() else given.numpy()


def linear(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """x weights + bias by torch's own function."""
    return functional.linear(x, weights.mT, bias)


def bias_first(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weights + bias, column by column, beginning with the bias."""
    total = x.new_zeros(()) if bias is None else bias
    total = total.expand(*x.shape[:-1], weights.shape[1]).clone()
    for column, row in zip(x.unbind(-1), weights, strict=True):
        total = torch.addcmul(total, column[..., None], row)
    return total


def bias_as_row(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """x weights + bias as one product: the bias is the first row of the weights, beside a column of ones."""
    ones = x.new_ones(*x.shape[:-1], 1)
    return torch.cat([ones, x], -1) @ torch.cat([bias[None], weights])


def convolved(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weights + bias as a convolution with kernels of one step over each position."""
    rows = x.reshape(-1, x.shape[-1], 1)
    return functional.conv1d(rows, weights.mT[..., None], bias).reshape(*x.shape[:-1], weights.shape[1])


def backwards(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """x weights + bias by einsum, its terms from the last to the first."""
    return torch.einsum("...e,ef->...f", x.flip(-1), weights.flip(0)) + bias
