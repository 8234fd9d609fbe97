"""The blocks of a Transformer in small steps, in the dtype of the weights: what deviations of models are made of.

They are also the eager models beside which others are judged, so nothing in them widens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.staged import Staged, instead_of

Part = Mapping[str, Tensor]
Attention = Callable[..., Tensor]
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class Blocks(Staged):
    """Attention by several heads, the network of each position, and the normalisation."""

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    def widened(self, config: Mapping[str, Any], weights: Part) -> dict[str, Tensor]:
        """The weights in the dtype to compute in."""
        return {name: tensor.to(self.wide(tensor)) for name, tensor in weights.items()}

    def multi_head(self, x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None) -> Tensor:
        """x is b l d, memory b s d; allowed is boolean and broadcasts to b h l s."""
        query, key = self.split(x @ weights["w_query"], heads), self.split(memory @ weights["w_key"], heads)
        value = self.split(memory @ weights["w_value"], heads)  # b h s p
        mixed: Tensor = self.merge(self.attend(query, key, value, allowed)) @ weights["w_output"]
        return mixed

    def attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        """b h l p."""
        scores = query @ key.mT * self.factor(query.shape[-1], query.shape[1])  # b h l s
        if allowed is not None:
            scores = self.mask(scores, allowed)
        return self.softmax(scores) @ value

    def plugged(self, attention: Attention | None) -> Self:
        """The same computation with this attention where one is given."""
        found = copy(self)
        if attention is not None:
            found.attend = self.plug(found.attend, attention)  # type: ignore[method-assign, assignment]
        return found

    @staticmethod
    def plug(own: Attend, attention: Attention) -> Attend:
        """What attends in place of what the model has itself."""
        return lambda query, key, value, allowed: attention(
            query, key, value, **({} if allowed is None else {"attn_mask": allowed})
        )

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        inner = self.activate(x @ weights["w1"] + weights["b1"])
        return inner @ weights["w2"] + weights["b2"]

    @staticmethod
    def split(tensor: Tensor, heads: int) -> Tensor:
        """b l d → b h l p."""
        found: Tensor = tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
        return found

    @staticmethod
    def factor(head_width: int, heads: int) -> float:
        return 1 / math.sqrt(head_width)

    @staticmethod
    def mask(scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -math.inf)

    @staticmethod
    def softmax(scores: Tensor) -> Tensor:
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(-1, keepdim=True)

    @staticmethod
    def merge(mixed: Tensor) -> Tensor:
        """b h l p → b l d."""
        return mixed.transpose(1, 2).flatten(-2)

    @staticmethod
    def activate(features: Tensor) -> Tensor:
        return features.relu()

    @staticmethod
    def norm(x: Tensor, weights: Part) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * weights["weight"] + weights["bias"]

    @staticmethod
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y


def part(weights: Part, name: str) -> dict[str, Tensor]:
    """The tensors below a name, by the rest of theirs."""
    return {rest.removeprefix(f"{name}."): tensor for rest, tensor in weights.items() if rest.startswith(f"{name}.")}


def check(weights: Part, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise where the weights are not those that are due."""
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != dict(shapes):
        raise ValueError("the weights are not those of the config")
    if len({tensor.dtype for tensor in weights.values()}) > 1:
        raise ValueError("the weights are of several dtypes")


def deviations(of: type[Blocks]) -> list[Deviation]:
    """The mistakes that any model made of these blocks can make."""
    found: list[Deviation] = []

    def deviation(step: Callable[..., Any], says: str, source: str = "") -> Callable[[Callable[..., Any]], None]:
        return lambda replacement: found.append(instead_of(step, says, of=of, source=source)(replacement))

    @deviation(Blocks.factor, "the scores are divided by the root of the full width, not the head's", "documents, E3")
    def full_width_scale(head_width: int, heads: int) -> float:
        return 1 / math.sqrt(head_width * heads)

    @deviation(Blocks.factor, "the scores are not scaled")
    def unscaled(head_width: int, heads: int) -> float:
        return 1.0

    @deviation(Blocks.split, "neighbouring columns belong to different heads")
    def interleaved_heads(tensor: Tensor, heads: int) -> Tensor:
        found: Tensor = tensor.unflatten(-1, (-1, heads)).movedim(-1, 1)
        return found

    @deviation(Blocks.merge, "heads are merged without moving their axis back", "documents, E30")
    def heads_not_moved_back(mixed: Tensor) -> Tensor:
        batch, heads, length, width = mixed.shape
        return mixed.reshape(batch, length, heads * width)

    @deviation(Blocks.activate, "features below zero leak through")
    def leaky_features(features: Tensor) -> Tensor:
        return torch.where(features > 0, features, 0.01 * features)

    @deviation(Blocks.add, "there are no residual connections")
    def no_residual(x: Tensor, y: Tensor) -> Tensor:
        return y

    @deviation(Blocks.norm, "the variance is divided by the count less one")
    def unbiased_variance(x: Tensor, weights: Part) -> Tensor:
        normalised = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        return normalised * weights["weight"] + weights["bias"]

    @deviation(Blocks.norm, "the root mean square is taken: no mean is subtracted")
    def rms_norm(x: Tensor, weights: Part) -> Tensor:
        normalised = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return normalised * weights["weight"] + weights["bias"]

    @deviation(Blocks.norm, "normalisation leaves out its weight and bias")
    def plain_norm(x: Tensor, weights: Part) -> Tensor:
        return Blocks.norm(x, {"weight": torch.ones_like(weights["weight"]), "bias": torch.zeros_like(weights["bias"])})

    @deviation(Blocks.norm, "ε is added to the root, not under it")
    def eps_outside(x: Tensor, weights: Part) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True).sqrt() + 1e-5) * weights["weight"] + weights["bias"]

    @deviation(Blocks.norm, "ε is 10⁻⁶")
    def eps_of_a_millionth(x: Tensor, weights: Part) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weights["weight"] + weights["bias"]

    @deviation(Blocks.widened, "attention's weights are applied transposed, as torch.nn.Linear does")
    def transposed_weights(config: Mapping[str, Any], weights: Part) -> dict[str, Tensor]:
        mapped = ("w_query", "w_key", "w_value", "w_output")
        return {name: tensor.mT if name.endswith(mapped) else tensor for name, tensor in weights.items()}

    made: dict[str, dict[str, Tensor]] = {}

    @deviation(Blocks.widened, "a model has the weights of the first one of its config")
    def first_weights(config: Mapping[str, Any], weights: Part) -> dict[str, Tensor]:
        return made.setdefault(str(sorted(config.items())), {name: tensor.clone() for name, tensor in weights.items()})

    latest: dict[str, dict[str, Tensor]] = {}

    @deviation(Blocks.widened, "a model has the weights of the latest one of its config")
    def latest_weights(config: Mapping[str, Any], weights: Part) -> dict[str, Tensor]:
        found = latest.setdefault(str(sorted(config.items())), {})
        found.update(weights)
        return found

    @deviation(Blocks.plug, "an attention that is plugged in is not called")
    def ignores_the_plug(own: Attend, attention: Attention) -> Attend:
        return own

    @deviation(Blocks.softmax, "the softmax runs over the queries")
    def softmax_over_queries(scores: Tensor) -> Tensor:
        return scores.clamp_min(-1e9).softmax(-2)

    @deviation(Blocks.softmax, "keys beyond the 128th are left out")
    def drops_keys_beyond_128(scores: Tensor) -> Tensor:
        scores = scores.clone()
        scores[..., 128:] = -math.inf
        return Blocks.softmax(scores)

    return found
