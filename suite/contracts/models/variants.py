"""Other styles of the blocks of models, for their correct variants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import Steps, bias_first, linear
from attnsuite.contracts.models.eager import Blocks, Part

Replaced = Mapping[str, Callable[..., Any]]
"""Steps by name."""


def _slope_and_offset(x: Tensor, weights: Part) -> Tensor:
    """x times a slope, plus an offset that contains the mean."""
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    slope = weights["weight"] * torch.rsqrt(variance + 1e-5)
    return x * slope + (weights["bias"] - mean * slope)


LIBRARY: Replaced = {
    "affine": linear,
    "softmax": lambda scores: scores.softmax(-1),
    "norm": lambda x, weights: functional.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"]),
}
"""PyTorch's own functions."""
REORDERED: Replaced = {
    "wide": Steps.wide,
    "affine": bias_first,
    "softmax": lambda scores: scores.mT.softmax(-2).mT,
    "norm": _slope_and_offset,
}
"""Other orders of summation; half types widen to float32."""


def variants_of(model: type[Blocks], library: Replaced, reordered: Replaced) -> list[Variant]:
    """A model by PyTorch's own functions, in other orders, and in float64; both also replace steps of the model."""
    own = {**LIBRARY, **library}
    in_float64 = model(**own, wide=lambda numbers: torch.float64)
    return [
        Variant("library", "PyTorch's own functions in the dtype itself", model(**own)),
        Variant("reordered", "biases first, keys as rows", _without_backend(model(**REORDERED, **reordered))),
        Variant("float64", "PyTorch's own functions in float64", _without_backend(in_float64)),
    ]


def _without_backend(model: Blocks) -> Callable[..., Any]:
    """The factory without its parameter for a backend, which would get another dtype than that of the weights."""

    def factory(*arguments: Any, **options: Any) -> Any:
        return model(*arguments, **options)

    parameters = inspect.signature(model).parameters.values()
    own = [parameter for parameter in parameters if parameter.name not in ("attention", "backend")]
    factory.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return factory
