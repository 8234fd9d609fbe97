"""The blocks of a Transformer in foreign styles: what the strangers of models are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.computations import Steps, backwards, bias_first

Part = Mapping[str, Tensor]
Watched = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Mapping[str, Tensor]]]
"""A model that gives the weights of its attentions beside its logits."""
Attended = tuple[Tensor, Callable[[], Tensor]]
"""What several heads give, b l d, and their weights, b h l s, for who asks."""


@dataclass(frozen=True)
class Style:
    """One way to compute the blocks. `heads` is given x b l d, memory b s d, weights, heads and who is allowed."""

    affine: Callable[[Tensor, Tensor, Tensor], Tensor]
    heads: Callable[[Tensor, Tensor, Part, int, Tensor | None], Attended]
    norm: Callable[[Tensor, Part], Tensor]
    widens: bool = False
    """Whether half types are computed in float32."""

    def feed_forward(self, x: Tensor, weights: Part, activate: Callable[[Tensor], Tensor]) -> Tensor:
        return self.affine(activate(self.affine(x, weights["w1"], weights["b1"])), weights["w2"], weights["b2"])

    def converted(self, weights: Part) -> dict[str, Tensor]:
        """The weights in the dtype to compute in."""
        return {name: tensor.to(Steps.wide(tensor)) if self.widens else tensor for name, tensor in weights.items()}


def fused_heads(x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None) -> Attended:
    """One product for keys and values, and torch's scaled_dot_product_attention, which is given the identity, too."""
    both = memory @ torch.cat([weights["w_key"], weights["w_value"]], 1)
    maps = (x @ weights["w_query"], *both.chunk(2, -1))
    query, key, value = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in maps)
    mixed = functional.scaled_dot_product_attention(query, key, value, allowed)
    identity = torch.eye(key.shape[2], dtype=key.dtype).expand(*key.shape[:2], -1, -1)
    return (
        functional.linear(mixed.transpose(1, 2).flatten(2), weights["w_output"].mT),
        lambda: functional.scaled_dot_product_attention(query, key, identity, allowed),
    )


def head_by_head(x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None) -> Attended:
    """Each head adds its part to the output; queries take the scale, and keys are the rows of the scores."""
    total, width, shown = torch.zeros_like(x), x.shape[-1] // heads, list[Tensor]()
    for head in range(heads):
        columns = slice(head * width, (head + 1) * width)
        query, key, value = (
            each @ weights[name][:, columns] for each, name in ((x, "w_query"), (memory, "w_key"), (memory, "w_value"))
        )
        scores = torch.einsum("bsp,blp->bsl", key, query / math.sqrt(width))
        if allowed is not None:
            scores = scores.masked_fill(~allowed.expand(len(x), 1, *scores.mT.shape[1:])[:, 0].mT, -math.inf)
        shown.append(scores.softmax(1).mT)
        total = total + torch.einsum("bls,bsp->blp", shown[-1], value) @ weights["w_output"][columns]
    return total, lambda: torch.stack(shown, 1)


def layer_norm(x: Tensor, weights: Part) -> Tensor:
    """Torch's own."""
    return functional.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"])


def norm_by_slope(x: Tensor, weights: Part) -> Tensor:
    """x times a slope and an offset that takes the mean along."""
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    slope = weights["weight"] * torch.rsqrt(variance + 1e-5)
    return x * slope + (weights["bias"] - mean * slope)


STYLES = {
    "library": Style(lambda x, weights, bias: functional.linear(x, weights.mT, bias), fused_heads, layer_norm),
    "head_by_head": Style(bias_first, head_by_head, norm_by_slope, widens=True),
    "backwards": Style(backwards, fused_heads, norm_by_slope, widens=True),
}
"""Styles by name. Loops and einsum widen half types, whose sums would be rounded after every term."""


def source_by_source(
    model: Callable[[Tensor, Tensor, Tensor], Tensor], greedy: Mapping[str, int], watched: Watched | None = None
) -> Callable[..., Any]:
    """Translations of one source after the other, as lists of numbers, by a model that gives logits.

    With `watched`, which gives its weights too, those of the steps stand beside them.
    """
    end, steps = greedy["end"], greedy["steps"]

    def translate(source: Tensor, lengths: Tensor) -> Any:
        found, shown = [], []
        for row, length in zip(source.split(1), lengths.split(1), strict=True):
            said = [greedy["begin"]]
            while len(said) <= steps and end not in said[1:]:
                logits = model(row, length, torch.tensor([said]))[0, -1].tolist()
                said.append(logits.index(max(logits)))
            words = said[1 : said.index(end, 1)] if end in said[1:] else said[1:]
            found.append(words + [end] * (steps - len(words)))
            if watched is not None:
                shown.append(_of_steps(watched(row, length, torch.tensor([said[:-1]]))[1], steps))
        tokens = torch.tensor(found)
        return (tokens, {name: torch.cat([of[name] for of in shown]) for name in shown[0]}) if shown else tokens

    return translate


def _of_steps(shown: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Weights of as many steps as there may be, those that were not made filled up with zeros."""
    found = dict(shown)
    for name, rows in shown.items():
        if not name.startswith("encoder"):
            columns = steps if name.endswith("self_attention") else rows.shape[-1]
            found[name] = rows.new_zeros(*rows.shape[:-2], steps, columns)
            found[name][..., : rows.shape[-2], : rows.shape[-1]] = rows
    return found
