"""Positions that are learned, and relative ones, beside sinusoids: who learns to say the token before each."""

from __future__ import annotations

from functools import cache, partial

from attnsuite.documents.claims.claim import Claim, Measured, at_least, at_most, sampled
from attnsuite.documents.claims.training import LENGTH, SEEDS, TOKENS, Model, Small, accuracy, seeded, train
from attnsuite.model import Evidence

STEPS, RATE = 200, 0.01
LEARNED = 0.9
"""A share of right tokens from which on a model has learned the shift."""
CHANCE = 0.5
"""A share below which it has not: without order the best guess is the commonest token of the sequence, about 0.3."""


BESIDE = "beside 11.6.3"
"""The section of what the document does not say, but a reader of it asks."""
WORDS = {
    "none": "no positions", "sinusoids": "sinusoids", "learned": "learned positions", "relative": "relative positions",
}  # fmt: skip


@cache
def shares(positions: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The shares of right tokens at the length of training and at twice that, for each seed."""
    found = []
    for seed in range(SEEDS):
        with seeded(seed) as random:
            model = Model(Small(positions))
            train(model, random, STEPS, RATE)
            found.append((accuracy(model, random), accuracy(model, random, 2 * LENGTH)))
    once, twice = zip(*found, strict=True)
    return once, twice


def share(positions: str, times: int) -> Measured:
    """The share of right tokens at so many times the length of training."""
    where = f"{SEEDS} seeds, {STEPS} steps, {TOKENS} tokens, sequences of {times * LENGTH} (trained on {LENGTH})"
    return sampled(shares(positions)[times - 1], where)


def _claim(name: str, section: str, says: str, positions: str, times: int, least: bool = True) -> Claim:
    length = "" if times == 1 else " at twice the length of training"
    due = at_least(LEARNED) if least else at_most(CHANCE)
    quantity = f"share of right tokens with {WORDS[positions]}{length}"
    return Claim(f"learned_positions/{name}", "doc-004", section, says, quantity, due, Evidence.TRAINED,
                 partial(share, positions, times))  # fmt: skip


CLAIMS = (
    _claim("none", "11.6.3", "self-attention needs positions to use the order of its inputs", "none", 1, least=False),
    _claim("sinusoids", "11.6.3", "sinusoids tell relative positions", "sinusoids", 1),
    _claim("learned", "11.6.3, exercise", "positions can be learned instead", "learned", 1),
    _claim("relative", "11.6.3, exercise", "relative positions can be learned", "relative", 1),
    _claim("sinusoids_longer", BESIDE, "what is learned with sinusoids carries to longer sequences", "sinusoids", 2),
    _claim(
        "learned_longer", BESIDE, "what is learned with learned positions carries to longer sequences", "learned", 2
    ),
    _claim(
        "relative_longer", BESIDE, "what is learned with relative positions carries to longer sequences", "relative", 2
    ),
)
