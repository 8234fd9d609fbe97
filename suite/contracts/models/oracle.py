"""The blocks of a Transformer in error-bounded arithmetic, for the oracles of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnsuite.contracts.blocks import add_norm as normalisation
from attnsuite.contracts.blocks import positionwise_ffn
from attnsuite.contracts.models.eager import part
from attnsuite.judging.running_error import WithError

__all__ = ["add_norm", "feed_forward", "multi_head", "norm", "part", "root"]

Array = np.ndarray[Any, Any]
ALL_ALLOWED = np.array(True)
Part = Mapping[str, WithError]
Attention = tuple[WithError, Array]
"""The weights of an attention, … l s, and its boolean mask, which broadcasts to them."""
Attentions = Mapping[str, Attention]
"""Those of a model by name."""


def multi_head(
    x: WithError, memory: WithError, weights: Part, heads: int, allowed: Array = ALL_ALLOWED
) -> tuple[WithError, Attention]:
    """Attention of x, b l d, to the memory, b s d, by heads of width d/heads, and its weights, b h l s."""

    def split(name: str, tensor: WithError) -> WithError:
        return (tensor @ weights[name]).each(lambda a: a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2))  # b h l p

    query, key, value = split("w_query", x), split("w_key", memory), split("w_value", memory)
    attention = (query @ key.T / root(query.shape[-1], x)).softmax(allowed)
    mixed = (attention @ value).each(lambda a: a.swapaxes(1, 2).reshape(x.shape)) @ weights["w_output"]
    return mixed, (attention, allowed)


def norm(x: WithError, weights: Part) -> WithError:
    """Layer normalisation, … d."""
    return add_norm(x, WithError.exact(np.zeros(x.shape), x.precision, x.value.dtype.type), weights)


def add_norm(x: WithError, y: WithError, weights: Part) -> WithError:
    """The layer normalisation of x + y, … d."""
    return normalisation.oracle(x, y, weights["weight"], weights["bias"])


def feed_forward(x: WithError, weights: Part, activation: str) -> WithError:
    """The network of each position, … d."""
    return positionwise_ffn.oracle(x, *(weights[name] for name in ("w1", "b1", "w2", "b2")), activation=activation)


def root(number: int, like: WithError) -> WithError:
    """The square root in the arithmetic of other numbers."""
    return WithError.exact(np.array(float(number)), like.precision, like.value.dtype.type).sqrt()
