"""The blocks of a Transformer in small steps, in the dtype of the weights: what deviations of models are made of.

They are also the eager models beside which others are judged, so nothing in them widens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from attnsuite.cases.computations import Steps
from attnsuite.cases.mutants import formula
from attnsuite.contracts.shown import in_steps, through_identity
from attnsuite.contracts.softmax import masked, unguarded

Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Part = Mapping[str, Tensor]
Attention = Callable[..., Tensor]
Options = Mapping[str, Any]
Rows = dict[str, list[Tensor]]
"""The weights of attentions by name, b h l s: of all queries at once, or of one after the other."""


def check(weights: Part, due: Shapes) -> None:
    """Raise where the weights are not those that are due."""
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != dict(due):
        raise ValueError("the weights are not those of the config")
    if len({tensor.dtype for tensor in weights.values()}) > 1:
        raise ValueError("the weights are of several dtypes")


class Blocks(Steps):
    """A factory of models, with attention by several heads, the network of each position, and the normalisation."""

    shapes: Callable[[Config], Shapes]
    """The weights that are due, by name."""
    run: Callable[..., Tensor]
    """The model: config, weights, what it could keep between calls, its dtype, and the inputs."""
    rows: Rows | None = None
    """Where attention weights are wanted, those of the call so far."""

    def compute(
        self, config: Config, weights: Part, *, attention: Attention | None = None, need_weights: bool = False
    ) -> Callable[..., Any]:
        """Without parameters of what only some models do."""
        model, run, kept = self.made(config, weights, attention)
        return partial(model.watched, run, kept, next(iter(weights.values())).dtype) if need_weights else run

    def made(
        self, config: Config, weights: Part, attention: Attention | None
    ) -> tuple[Self, Callable[..., Tensor], dict[str, Any]]:
        """The computation with a plug, the model, and what that could keep between calls."""
        self.check_config(config)
        self.check_weights(weights, self.shapes(config))
        model, kept, dtype = self.plugged(attention), dict[str, Any](), next(iter(weights.values())).dtype
        return model, partial(model.run, config, self.widened(config, weights), kept, dtype), kept

    def watched(
        self, run: Callable[..., Tensor], kept: dict[str, Any], dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The model's answer, and the weights of every attention by name."""
        self.rows = {}
        output = run(*inputs)
        found = {name: self.stacked(parts).to(dtype) for name, parts in self.rows.items()}
        return output, self.recalled(self.named(found), kept)

    @staticmethod
    def check_config(config: Config) -> None:
        """Raise for what no model can be made of."""

    check_weights = staticmethod(check)

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    def widened(self, config: Config, weights: Part) -> dict[str, Tensor]:
        """The weights in the dtype to compute in."""
        return {name: tensor.to(self.wide(tensor)) for name, tensor in weights.items()}

    def multi_head(
        self, x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None, name: str = ""
    ) -> Tensor:
        """x is b l d, memory b s d; allowed is boolean and broadcasts to b h l s. The name is that of the attention."""
        query, key = self.split(x @ weights["w_query"], heads), self.split(memory @ weights["w_key"], heads)
        value = self.split(memory @ weights["w_value"], heads)  # b h s p
        mixed: Tensor = self.merge(self.attend(name, query, key, value, allowed)) @ weights["w_output"]
        return mixed

    def to_itself(self, weights: Part, heads: int, allowed: Tensor | None, x: Tensor, name: str = "") -> Tensor:
        return self.multi_head(x, x, weights, heads, allowed, name)

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        """b h l p."""
        scores = query @ key.mT * self.factor(query.shape[-1], query.shape[1])  # b h l s
        masked = scores if allowed is None else self.mask(scores, allowed)
        weights = self.softmax(masked)
        if self.rows is not None:
            self.note(name, self.shown(weights, masked, scores))
        return weights @ value

    def note(self, name: str, weights: Tensor) -> None:
        """Keep the weights of some queries of an attention."""
        assert self.rows is not None
        self.rows.setdefault(name, []).append(weights)

    def plugged(self, attention: Attention | None) -> Self:
        """The same computation with this attention where one is given."""
        found = copy(self)
        if attention is not None:
            found.attend = self.plug(found.attend, partial(found.asked, attention))  # type: ignore[method-assign]
        return found

    def asked(
        self, attention: Attention, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None
    ) -> Tensor:
        """What the attention that is plugged in answers; its weights are its answer where values are the identity."""
        given = self.needed(allowed)
        mixed = self.ask(attention, (query, key, value), given)
        if self.rows is not None:
            shown = self.read(partial(self.reply, attention, query, key, self.given_to_read(given)), value)
            own = type(self)().attend  # what the model has itself
            self.note(name, self.of_plug(shown, lambda identity: own(name, query, key, identity, allowed)))
        return mixed

    def reply(self, attention: Attention, query: Tensor, key: Tensor, given: Options, values: Tensor) -> Tensor:
        """What the attention that is plugged in answers for other values."""
        return self.ask(attention, (query, key, values), given)

    # what is shown of the weights, b h l s; of scores that are masked, and before they are
    shown = formula(lambda weights, masked, scores: weights)
    read = staticmethod(through_identity)
    given_to_read = staticmethod(lambda given: given)  # what a plug is given beside the identity
    of_plug = formula(lambda shown, own: shown)  # what is shown of a plug
    stacked = staticmethod(in_steps)
    named = staticmethod(lambda found: found)  # the weights by name
    recalled = staticmethod(lambda found, kept: found)  # `kept` is what the model could keep between calls

    plug = staticmethod(lambda own, plugged: plugged)  # what attends in place of what the model has itself
    # the arguments that the plug needs: no mask that hides nothing
    needed = staticmethod(lambda allowed: {} if allowed is None or bool(allowed.all()) else {"attn_mask": allowed})
    ask = formula(lambda attention, heads, given: attention(*heads, **given))

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        inner = self.activate(x @ weights["w1"] + weights["b1"])
        return inner @ weights["w2"] + weights["b2"]

    @staticmethod
    def split(tensor: Tensor, heads: int) -> Tensor:
        """b l d → b h l p."""
        found: Tensor = tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
        return found

    factor = staticmethod(lambda head_width, heads: 1 / math.sqrt(head_width))

    mask = staticmethod(masked)

    softmax = formula(lambda scores: unguarded((scores - scores.amax(-1, keepdim=True)).exp()))
    merge = formula(lambda mixed: mixed.transpose(1, 2).flatten(-2))  # b h l p → b l d
    activate = formula(lambda features: features.relu())
    norm = formula(lambda x, weights: normalised(x, weights, lambda centred: (mean_square(centred) + 1e-5).sqrt()))
    add = formula(lambda x, y: x + y)


def part(weights: Part, name: str) -> dict[str, Tensor]:
    """The tensors below a name, by the rest of theirs. Models that decode ask for theirs in every step."""
    below = f"{name}."
    start = len(below)
    return {whole[start:]: tensor for whole, tensor in weights.items() if whole.startswith(below)}


def normalised(x: Tensor, weights: Part, divisor: Callable[[Tensor], Tensor]) -> Tensor:
    """A layer normalisation that divides by what `divisor` makes of the centred numbers."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / divisor(centred) * weights["weight"] + weights["bias"]


def mean_square(x: Tensor) -> Tensor:
    """The mean of the squares over the last axis: … 1."""
    return x.square().mean(-1, keepdim=True)
