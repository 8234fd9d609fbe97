"""Exact counts for each item, token by token in Python: no more chance than the shares leave."""

import random

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes

IGNORED = -100


@implementation
def token_masking(
    tokens: Tensor,  # b l
    special: Tensor,  # b l, True = never selected
    *,
    vocab_size: int,
    mask_token: int,
    select: float = 0.15,
) -> Tensor:
    """Return the corrupted tokens and the labels, 2 b l: a label is −100 where there is nothing to predict.

    Raises ValueError for tokens outside the vocabulary and for shares outside [0, 1].
    """
    check_axes(tokens=(tokens, "b l"), special=(special, "b l"))
    if tokens.dtype != torch.int64 or special.dtype != torch.bool:
        raise ValueError(f"should be torch.int64 and torch.bool: tokens {tokens.dtype}, special {special.dtype}")
    if not (select >= 0 and select <= 1):
        raise ValueError(f"select should be a share from 0 to 1, not {select}")
    rows = tokens.tolist()
    for name, tokens_of in (("mask_token", [[mask_token]]), ("a token", rows)):
        for token in set().union(*tokens_of):
            if token < 0 or token >= vocab_size:
                raise ValueError(f"{name} should be from 0 to {vocab_size - 1}, not {token}")

    chance = random.Random(int(torch.randint(2**62, ())))  # so that torch.manual_seed governs it
    labels = [[IGNORED] * len(row) for row in rows]
    for row, label, flags in zip(rows, labels, special.tolist(), strict=True):
        free = [place for place, flag in enumerate(flags) if not flag]
        selected = chance.sample(free, _rounded(select * len(free), chance))  # in random order
        for rank, place in enumerate(selected):
            label[place] = row[place]
            fate = (rank + chance.random()) / len(selected)
            if fate < 0.8:
                row[place] = mask_token
            elif fate < 0.9:
                row[place] = chance.randrange(vocab_size)
    both = torch.tensor([rows, labels], dtype=torch.int64)
    return both.reshape(2, *tokens.shape).to(tokens.device)


def _rounded(number: float, chance: random.Random) -> int:
    """One of the two nearest integers, drawn so that the mean of many draws is the number."""
    below = int(number)
    return below + (chance.random() < number - below)
