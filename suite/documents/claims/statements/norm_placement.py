"""Normalisation before attention and network (pre-norm) against after their sums (post-norm)."""

from __future__ import annotations

from statistics import fmean

from torch import nn

from attnsuite.documents.claims.claim import ABOVE_ONE, Claim, Measured, sampled
from attnsuite.documents.claims.training import SEEDS, Model, Small, loss, seeded, sequences, train
from attnsuite.model import Evidence

BLOCKS, BATCH, STEPS = 6, 32, 60
"""Blocks that are trained, on so many sequences in so many steps; the mean loss of all steps says how fast."""
RATES = (0.001, 0.003)
"""Rates of learning: of each placement the better one counts, so that no rate is chosen for one of them."""
DEEP = 16
"""Blocks of the model whose gradients are looked at before training."""


def mean_loss(norms: str, seed: int) -> float:
    """The mean loss of all steps, by the better of the rates."""
    found = []
    for rate in RATES:
        with seeded(seed) as random:
            found.append(fmean(train(Model(Small(norms=norms, blocks=BLOCKS)), random, STEPS, rate, BATCH)))
    return min(found)


def trained() -> Measured:
    """How many times as large the loss of post-norm is, seed by seed."""
    pairs = [(mean_loss("post", seed), mean_loss("pre", seed)) for seed in range(SEEDS)]
    post, pre = map(fmean, zip(*pairs, strict=True))
    said = f"{SEEDS} seeds, {BLOCKS} blocks, {STEPS} steps, mean loss {post:.3f} after, {pre:.3f} before"
    return sampled([one / other for one, other in pairs], said)


def last_gradient(norms: str, blocks: int, seed: int) -> float:
    """The norm of the gradient of the last block's second map, before any training."""
    with seeded(seed) as random:
        model = Model(Small(norms=norms, blocks=blocks))
        loss(model, sequences(random)).backward()
        *_, last = (each for each in model.blocks.modules() if isinstance(each, nn.Linear))
        assert last.weight.grad is not None
        return float(last.weight.grad.norm())


def at_initialisation() -> Measured:
    """How many times as large the last block's gradient is in post-norm, of the deepest model."""
    pairs = [(last_gradient("post", DEEP, seed), last_gradient("pre", DEEP, seed)) for seed in range(2 * SEEDS)]
    return sampled([one / other for one, other in pairs], f"{2 * SEEDS} seeds, {DEEP} blocks, before training")


CLAIMS = (
    Claim("norm_placement/training", "doc-004", "11.8.3", "normalisation before attention and network trains better than after",
          "mean loss of all steps with it after, as a multiple of that with it before", ABOVE_ONE, Evidence.TRAINED, trained),
    Claim("norm_placement/gradients", "doc-004", "11.8.3", "normalisation before attention and network trains better than after",
          "gradient of the last block at initialisation with it after, as a multiple of that with it before", ABOVE_ONE,
          Evidence.DRAWN, at_initialisation),
)  # fmt: skip
