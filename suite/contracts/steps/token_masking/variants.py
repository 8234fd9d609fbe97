"""Correct maskings of tokens in foreign styles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.steps.token_masking.contract import IGNORED
from attnsuite.contracts.steps.token_masking.mutants import Corrupting

Draw = Callable[[Tensor, float], Tensor]
"""The fate of every token, b l, of who is not special and how likely each is to be selected."""
LEFT, MASKED, RANDOM, KEPT = range(4)


def _function(draw: Draw, *, spares_the_original: bool = False) -> Callable[..., Tensor]:
    def token_masking(
        tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15
    ) -> Tensor:
        fates = draw(~special, select)
        others = torch.randint(vocab_size, tokens.shape)
        if spares_the_original and vocab_size > 1:
            others = (tokens + 1 + torch.randint(vocab_size - 1, tokens.shape)) % vocab_size
        corrupted = torch.where(fates == MASKED, mask_token, torch.where(fates == RANDOM, others, tokens))
        return torch.stack([corrupted, torch.where(fates == LEFT, IGNORED, tokens)])

    return Corrupting.checked(token_masking)


def _one_number(free: Tensor, select: float) -> Tensor:
    """One uniform number decides selection and fate."""
    bounds = torch.tensor([0.8, 0.9, 1.0], dtype=torch.float64) * select
    fate = torch.bucketize(torch.rand(free.shape, dtype=torch.float64), bounds, right=True)
    return torch.tensor([MASKED, RANDOM, KEPT, LEFT])[fate].where(free, LEFT)


def _multinomial(free: Tensor, select: float) -> Tensor:
    """Four fates, drawn at once."""
    shares = torch.tensor([1 - select, 0.8 * select, 0.1 * select, 0.1 * select], dtype=torch.float64)
    drawn = torch.multinomial(shares, max(free.numel(), 1), replacement=True)[: free.numel()]
    return drawn.view(free.shape).where(free, LEFT)


def _numpy(free: Tensor, select: float) -> Tensor:
    """A generator of numpy's, whose seed torch draws, and exact counts of all tokens in random order."""
    random = np.random.default_rng(int(torch.randint(2**62, ())))
    places = random.permutation(np.flatnonzero(free.numpy()))
    chosen = places[: round(select * len(places))]
    masked, other, _ = np.split(chosen, [round(0.8 * len(chosen)), round(0.9 * len(chosen))])
    fates = np.full(free.numel(), LEFT)
    fates[chosen], fates[masked], fates[other] = KEPT, MASKED, RANDOM
    return torch.from_numpy(fates).view(free.shape)


def _token_by_token(free: Tensor, select: float) -> Tensor:
    """Python's loop, one draw for the selection and another for the fate."""
    fates = torch.full(free.shape, LEFT)
    for item, place in free.nonzero().tolist():
        if torch.rand(()).item() < select:
            fate = torch.rand(()).item()
            fates[item, place] = MASKED if fate < 0.8 else RANDOM if fate < 0.9 else KEPT
    return fates


def variants() -> list[Variant]:
    """One rule, many ways to draw."""
    return [
        Variant("one_number", "one uniform number decides selection and fate", _function(_one_number)),
        Variant(
            "multinomial",
            "four fates drawn at once; never the original",
            _function(_multinomial, spares_the_original=True),
        ),
        Variant("exact_counts", "numpy's generator, exact counts of all tokens", _function(_numpy)),
        Variant("token_by_token", "a loop over tokens, two draws for each", _function(_token_by_token)),
    ]
