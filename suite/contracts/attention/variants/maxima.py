"""Correct variants in plain autograd that keep the maximum in the graph: its derivative is 0 but for rounding."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.variants.frame import Core, Inputs, in_style

BLOCK = 32
"""Keys in a block of the online softmax."""
SPLIT = 20
"""Keys in a part of split-k: fewer than a block, so that cases with tens of keys have several parts."""


class State(NamedTuple):
    """The softmax of some keys before it is normalised."""

    largest: Tensor  # ... h l 1, −inf where no key is visible
    total: Tensor  # ... h l 1
    output: Tensor  # ... h l v


def _of_keys(x: Inputs, keys: slice, floor: Tensor | None = None) -> State:
    """The state of these keys, relative to their largest score, or to `floor` where that is larger."""
    scores = x.factor * (x.query @ x.key[..., keys, :].mT) + x.bias[..., keys]
    largest = scores.amax(-1, keepdim=True)
    largest = largest if floor is None else torch.maximum(floor, largest)
    powers = torch.exp(scores - _finite(largest))
    output = (powers * x.keep[..., keys]) @ x.value[..., keys, :]
    return State(largest, powers.sum(-1, keepdim=True), output)


def _finite(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -math.inf, 0.0)


def _online(x: Inputs) -> Tensor:
    """Blocks of keys from the first to the last; each rescales what came before to the running maximum."""
    state = _of_keys(x, slice(0, BLOCK))
    for start in range(BLOCK, x.key.shape[-2], BLOCK):
        block = _of_keys(x, slice(start, start + BLOCK), floor=state.largest)
        shrink = torch.exp(state.largest - _finite(block.largest))
        state = State(block.largest, shrink * state.total + block.total, shrink * state.output + block.output)
    return state.output / state.total


def _merged(one: State, other: State) -> State:
    largest = torch.maximum(one.largest, other.largest)
    share, rest = torch.exp(one.largest - _finite(largest)), torch.exp(other.largest - _finite(largest))
    return State(largest, share * one.total + rest * other.total, share * one.output + rest * other.output)


def _split_keys(x: Inputs) -> Tensor:
    """Parts of the keys, merged two by two."""
    states = [_of_keys(x, slice(start, start + SPLIT)) for start in range(0, x.key.shape[-2], SPLIT)]
    while len(states) > 1:
        odd = states[len(states) // 2 * 2 :]
        states = [*map(_merged, states[0:-1:2], states[1::2]), *odd]
    return states[0].output / states[0].total


def _two_passes(x: Inputs) -> Tensor:
    """`max(dim).values` passes the whole residual to one key where several are equal; `amax` divides it."""
    scores = x.scores
    powers = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return (powers / powers.sum(-1, keepdim=True) * x.keep) @ x.value


def _by_hand(x: Inputs) -> Tensor:
    """exp(score − log-sum-exp), the log-sum-exp written out."""
    scores = x.scores
    largest = scores.amax(-1, keepdim=True)
    logs = largest + torch.exp(scores - largest).sum(-1, keepdim=True).log()
    return (torch.exp(scores - logs) * x.keep) @ x.value


MAXIMA: dict[str, tuple[str, Core]] = {
    "running_maximum_in_graph": ("an online softmax, differentiated through its running maximum", _online),
    "split_maximum_in_graph": ("split-k merged pairwise, differentiated through the maxima", _split_keys),
    "maximum_in_graph": ("two passes, differentiated through max(dim).values", _two_passes),
    "logsumexp_in_graph": ("a log-sum-exp by hand, differentiated through its maximum", _by_hand),
}
"""By name: the style in words, and what computes in it."""


def variants() -> list[Variant]:
    """One derivative that is 0, rounded in several ways."""
    return in_style(MAXIMA)
