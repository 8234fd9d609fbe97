"""Normalisation before attention and network (pre-norm) against after their sums (post-norm)."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from torch import nn

from suite.claims.claim import MORE, Claim, Measured, power, sampled
from suite.claims.training import SEEDS, Model, Small, loss, seeded, sequences, train
from suite.records import Evidence
from suite.statistics import exponent

BLOCKS, BATCH, STEPS, LAST = 6, 32, 100, 20
"""Blocks that are trained, on so many sequences in so many steps; the mean loss of the last ones counts."""
RATES = (0.001, 0.003)
"""Rates of learning: of each placement the better one counts, so that no rate is chosen for one of them."""
DEPTHS = (2, 4, 8, 16)


def final_loss(norms: str, seed: int) -> float:
    """The loss at the end of training, by the better of the rates."""
    found = []
    for rate in RATES:
        with seeded(seed) as random:
            found.append(fmean(train(Model(Small(norms=norms, blocks=BLOCKS)), random, STEPS, rate, BATCH)[-LAST:]))
    return min(found)


def trained() -> Measured:
    """How many times as large the loss of post-norm is, seed by seed."""
    pairs = [(final_loss("post", seed), final_loss("pre", seed)) for seed in range(SEEDS)]
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


def by_depth(norms: str) -> Measured:
    """The power of the number of blocks by which the gradient of the last one grows."""
    found = []
    for seed in range(2 * SEEDS):
        value = exponent(DEPTHS, [last_gradient(norms, blocks, seed) for blocks in DEPTHS])
        assert value is not None
        found.append(value)
    return sampled(found, f"{2 * SEEDS} seeds, {', '.join(map(str, DEPTHS))} blocks")


def at_initialisation() -> Measured:
    """How many times as large the last block's gradient is in post-norm, of the deepest model."""
    depth = DEPTHS[-1]
    pairs = [(last_gradient("post", depth, seed), last_gradient("pre", depth, seed)) for seed in range(2 * SEEDS)]
    return sampled([one / other for one, other in pairs], f"{2 * SEEDS} seeds, {depth} blocks, before training")


CLAIMS = (
    Claim("norm_placement/training", "doc-004", "11.8.3", "normalisation before attention and network trains better than after",
          "loss after training with it after, as a multiple of that with it before", MORE, Evidence.TRAINED, trained),
    Claim("norm_placement/gradients", "doc-004", "11.8.3", "normalisation before attention and network trains better than after",
          "gradient of the last block at initialisation with it after, as a multiple of that with it before", MORE,
          Evidence.DRAWN, at_initialisation),
    Claim("norm_placement/depth_after", "doc-004", "11.8.3", "normalisation before attention and network trains better than after",
          "power of depth in the gradient of the last block, with it after", power(0), Evidence.DRAWN, partial(by_depth, "post")),
)  # fmt: skip
