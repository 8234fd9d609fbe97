"""Numbers of rounds, and what inputs become in a round: the same tensors with their numbers at other places."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ROUND_NUMBERS = range(2_000_003, 2**31)
"""The numbers of rounds whose inputs a process makes itself. They are drawn at random, so that nobody can foresee them,
and begin above those that a task uses for itself."""
SECRET_NUMBERS = range(2**31, 2**62)
"""The numbers of inputs that are made in the suite's process, and whose numbers never leave it. These are permuted, for
a short call has too few inputs whose numbers have only moved along: all their answers could be known."""
GROWTH, STEPS = 1 / 256, 32
"""By so much, as a share, inputs grow from one number to the next, and begin anew after so many: a query of twelve
numbers would be the same again after twelve rounds."""


SMALL = 2**16
"""Numbers of a tensor up to which each of them is permuted by itself."""
TOGETHER = 16
"""Of a larger one so many stay beside each other: to permute eight million one by one takes a second, many times as
long as the call that is proved."""


def moved(tensor: Tensor, number: int, place: int = 0) -> Tensor:
    """The numbers of a tensor at other places. Tensors of one call are told apart by their `place`."""
    flat = tensor.flatten()
    if number in SECRET_NUMBERS:
        return _permuted(flat, _random(number, place)).view_as(tensor)
    return flat.roll(number).view_as(tensor)


def _permuted(flat: Tensor, random: np.random.Generator) -> Tensor:
    """The numbers in another order. Which of a large tensor stay together begins at a random place."""
    if len(flat) <= SMALL:
        return flat[torch.from_numpy(random.permutation(len(flat)))]
    found = flat.roll(int(random.integers(len(flat))))
    whole = found[: len(flat) - len(flat) % TOGETHER].view(-1, TOGETHER)  # what is left over stays behind
    order = torch.from_numpy(random.permutation(len(whole)))
    whole.copy_(whole.index_select(0, order))  # rows are copied whole, which `whole[order]` does number by number
    return found


def grown(tensor: Tensor, number: int) -> Tensor:
    """The numbers of a tensor times what belongs to that round."""
    return tensor * (1 + number % STEPS * GROWTH)


def other_tokens(tokens: Tensor, number: int, vocabulary: int, place: int = 0) -> Tensor:
    """Tokens below `vocabulary`, of the same shape."""
    if number in SECRET_NUMBERS:
        return torch.from_numpy(_random(number, place).integers(0, vocabulary, tuple(tokens.shape))).to(tokens.dtype)
    return (tokens + number) % vocabulary


def _random(number: int, place: int) -> np.random.Generator:
    return np.random.default_rng((number, place))
