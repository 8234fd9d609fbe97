"""The blocks of a Transformer in other styles, for the correct variants of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.computations import Steps, backwards, bias_first, linear

Part = Mapping[str, Tensor]
Weights = Mapping[str, Tensor]
Attended = tuple[Tensor, Callable[[], Tensor]]
"""The output of several heads, b l d, and a function that returns their weights, b h l s."""


@dataclass(frozen=True)
class Style:
    """One way to compute the blocks. `heads` gets x b l d, memory b s d, weights, the number of heads, and a mask."""

    affine: Callable[[Tensor, Tensor, Tensor], Tensor]
    heads: Callable[[Tensor, Tensor, Part, int, Tensor | None], Attended]
    norm: Callable[[Tensor, Part], Tensor]
    widens: bool = False
    """Whether half types are computed in float32."""

    def feed_forward(self, x: Tensor, weights: Part, activate: Callable[[Tensor], Tensor]) -> Tensor:
        return self.affine(activate(self.affine(x, weights["w1"], weights["b1"])), weights["w2"], weights["b2"])

    @property
    def wide(self) -> Callable[[Tensor], torch.dtype]:
        """The dtype of the computation for weights of a dtype."""
        return Steps.wide if self.widens else lambda weights: weights.dtype


def _fused_heads(x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None) -> Attended:
    """One product for keys and values, then torch's scaled_dot_product_attention; for the weights over the identity."""
    both = memory @ torch.cat([weights["w_key"], weights["w_value"]], 1)
    maps = (x @ weights["w_query"], *both.chunk(2, -1))
    query, key, value = (tensor.unflatten(-1, (heads, -1)).transpose(1, 2) for tensor in maps)
    mixed = functional.scaled_dot_product_attention(query, key, value, allowed)
    identity = torch.eye(key.shape[2], dtype=key.dtype).expand(*key.shape[:2], -1, -1)
    return (
        functional.linear(mixed.transpose(1, 2).flatten(2), weights["w_output"].mT),
        lambda: functional.scaled_dot_product_attention(query, key, identity, allowed),
    )


def _head_by_head(x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None) -> Attended:
    """Each head adds its part to the output; queries are scaled, and keys are the rows of the scores."""
    total, width, shown = torch.zeros_like(x), x.shape[-1] // heads, list[Tensor]()
    for head in range(heads):
        columns = slice(head * width, (head + 1) * width)
        inputs = ((x, "w_query"), (memory, "w_key"), (memory, "w_value"))
        query, key, value = (tensor @ weights[name][:, columns] for tensor, name in inputs)
        scores = torch.einsum("bsp,blp->bsl", key, query / math.sqrt(width))
        if allowed is not None:
            scores = scores.masked_fill(~allowed.expand(len(x), 1, *scores.mT.shape[1:])[:, 0].mT, -math.inf)
        shown.append(scores.softmax(1).mT)
        total = total + torch.einsum("bls,bsp->blp", shown[-1], value) @ weights["w_output"][columns]
    return total, lambda: torch.stack(shown, 1)


def _norm_by_slope(x: Tensor, weights: Part) -> Tensor:
    """x times a slope, plus an offset that contains the mean."""
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    slope = weights["weight"] * torch.rsqrt(variance + 1e-5)
    return x * slope + (weights["bias"] - mean * slope)


STYLES = {
    "library": Style(linear, _fused_heads,
        lambda x, weights: functional.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"])),
    "head_by_head": Style(bias_first, _head_by_head, _norm_by_slope, widens=True),
    "backwards": Style(backwards, _fused_heads, _norm_by_slope, widens=True),
}  # fmt: skip
"""By name. Loops and einsum widen half types, because they would round after every term."""


def factory(
    computation: Any,
    run: Callable[..., tuple[Tensor, Weights]],
    wide: Callable[[Tensor], torch.dtype] = lambda weights: weights.dtype,
) -> Callable[..., Callable[..., Any]]:
    """Models with the checks of a computation; `run(config, weights, *inputs)` returns output and attention weights."""

    def make(config: Mapping[str, Any], weights: Part, *, need_weights: bool = False) -> Callable[..., Any]:
        computation.check_config(config)
        computation.check_weights(weights, computation.shapes(config))
        dtype = next(iter(weights.values())).dtype
        converted = {name: tensor.to(wide(tensor)) for name, tensor in weights.items()}

        def model(*inputs: Tensor) -> Any:
            if any(tensor.is_floating_point() and tensor.dtype != dtype for tensor in inputs):
                raise ValueError("inputs of another dtype than the weights")
            output, rows = run(config, converted, *inputs)
            by_name = {name: tensor.to(dtype) for name, tensor in rows.items()}
            return (output.to(dtype), by_name) if need_weights else output.to(dtype)

        return model

    return make
