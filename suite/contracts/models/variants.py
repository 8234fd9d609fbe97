"""Other styles of the blocks of models, for their correct variants. What is around them is that of the mutants."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.computations import Steps, bias_first, linear
from attnsuite.cases.mutants import formula
from attnsuite.contracts.models.eager import Blocks, Part


class Library(Blocks):
    """PyTorch's linear, layer_norm and scaled_dot_product_attention, in the dtype itself."""

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        identity = torch.eye(key.shape[2], dtype=key.dtype).expand(*key.shape[:2], -1, -1)
        self.record(name, lambda: functional.scaled_dot_product_attention(query, key, identity, allowed))
        return functional.scaled_dot_product_attention(query, key, value, allowed)

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        return linear(self.activate(linear(x, weights["w1"], weights["b1"])), weights["w2"], weights["b2"])

    norm = formula(lambda x, weights: functional.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"]))


class HeadByHead(Blocks):
    """One head after the other, and keys are the rows of the scores. Half types widen to float32."""

    wide = staticmethod(Steps.wide)

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        outputs, weights = [], []
        for head in range(query.shape[1]):
            scores = torch.einsum("bsp,blp->bsl", key[:, head], query[:, head] / math.sqrt(query.shape[-1]))
            if allowed is not None:
                scores = scores.masked_fill(~allowed.expand(len(query), 1, *scores.mT.shape[1:])[:, 0].mT, -math.inf)
            weights.append(scores.softmax(1).mT)
            outputs.append(torch.einsum("bls,bsp->blp", weights[-1], value[:, head]))
        self.record(name, lambda: torch.stack(weights, 1))
        return torch.stack(outputs, 1)

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        return bias_first(self.activate(bias_first(x, weights["w1"], weights["b1"])), weights["w2"], weights["b2"])

    @staticmethod
    def norm(x: Tensor, weights: Part) -> Tensor:
        """x times a slope, plus an offset that contains the mean."""
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        slope = weights["weight"] * torch.rsqrt(variance + 1e-5)
        return x * slope + (weights["bias"] - mean * slope)


def without_backend(model: Blocks) -> Callable[..., Any]:
    """The factory without its parameter for a backend, which would get another dtype than that of the weights."""

    def factory(*arguments: Any, **options: Any) -> Any:
        return model(*arguments, **options)

    parameters = inspect.signature(model).parameters.values()
    own = [parameter for parameter in parameters if parameter.name not in ("attention", "backend")]
    factory.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return factory
