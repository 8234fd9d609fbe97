"""Backpropagation through time, whole, cut off and randomised: powers that vanish or grow, bias and variance."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor

from attnsuite.documents.claims.claim import ABOVE_ZERO, Claim, Measured, Range, at_least, at_most, number, sampled
from attnsuite.implementations.recurrent_gradient.closed_form import recurrent_gradient
from attnsuite.model import Evidence

STEPS, SIZE = 8, 4
KEEP = 0.8
"""The probability with which a step is kept: an output's gradient flows back 1.9 steps in the mean, of the 3.5 there are."""
TRUNCATED = 3
"""Hidden states that a truncated gradient reaches: it flows back 1.6 steps in the mean, fewer than the randomised one."""
NETWORKS, RUNS, LONG = 24, 64, 40


def network(random: Generator) -> tuple[Tensor, ...]:
    """Inputs, targets and weights, so that hidden states neither vanish nor grow fast."""
    x, y = (torch.randn(STEPS, SIZE, generator=random, dtype=torch.float64) for _ in range(2))
    weights = [torch.randn(SIZE, SIZE, generator=random, dtype=torch.float64) / SIZE**0.5 for _ in range(3)]
    return (x, y, torch.zeros(SIZE, dtype=torch.float64), *weights)


def randomised(given: tuple[Tensor, ...]) -> Tensor:
    """Several randomised gradients of w_hh, r h h."""
    return torch.stack([recurrent_gradient(*given, keep=KEEP) for _ in range(RUNS)])


def worse() -> Measured:
    """The error of randomised gradients, as a multiple of that of truncated ones, network by network."""
    random, found = Generator().manual_seed(11), []
    with torch.random.fork_rng():
        torch.manual_seed(12)
        for _ in range(NETWORKS):
            given = network(random)
            whole = recurrent_gradient(*given)
            drawn = (randomised(given) - whole).square().mean().sqrt()
            cut = (recurrent_gradient(*given, truncate=TRUNCATED) - whole).square().mean().sqrt()
            found.append(float(drawn / cut))
    said = f"{NETWORKS} networks of {STEPS} steps, {RUNS} draws of each at π = {KEEP}, truncated to {TRUNCATED}"
    return sampled(found, said)


def unbiased() -> Measured:
    """How much of the whole gradient the mean of randomised ones has, network by network."""
    random, found = Generator().manual_seed(13), []
    with torch.random.fork_rng():
        torch.manual_seed(14)
        for _ in range(NETWORKS):
            given = network(random)
            whole = recurrent_gradient(*given)
            found.append(float((randomised(given).mean(0) * whole).sum() / whole.square().sum()))
    return sampled(found, f"{NETWORKS} networks, means of {RUNS} draws at π = {KEEP}")


def variance() -> Measured:
    """The spread of randomised gradients of one network, over the whole gradient's size."""
    given = network(Generator().manual_seed(15))
    with torch.random.fork_rng():
        torch.manual_seed(16)
        drawn = randomised(given)
    return number(float(drawn.std(0).norm() / recurrent_gradient(*given).norm()))


def growth(eigenvalue: float) -> Measured:
    """What is left of a gradient after many steps through a matrix of this eigenvalue."""
    turn = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=Generator().manual_seed(17), dtype=torch.float64))[0]
    power = torch.linalg.matrix_power(eigenvalue * turn, LONG)
    return number(float(torch.linalg.matrix_norm(power, 2)), f"eigenvalues of size {eigenvalue:g}, {LONG} steps")


CLAIMS = (
    Claim("truncation/vanishing", "doc-004", "9.7.2", "powers of W_hh vanish where eigenvalues are below 1",
          f"norm after {LONG} steps at 0.8, of 1 at first", at_most(0.001), Evidence.EXACT, partial(growth, 0.8)),
    Claim("truncation/growing", "doc-004", "9.7.2", "powers of W_hh diverge where eigenvalues are above 1",
          f"norm after {LONG} steps at 1.2, of 1 at first", Range(1000, float("inf"), "at least 1,000"), Evidence.EXACT,
          partial(growth, 1.2)),
    Claim("truncation/unbiased", "doc-004", "9.7.1.3", "the mean of randomised gradients is the whole gradient",
          "share of the whole gradient in the mean of randomised ones", Range(0.9, 1.1, "0.9 to 1.1"), Evidence.DRAWN, unbiased),
    Claim("truncation/variance", "doc-004", "9.7.1.4", "randomised truncation has additional variance",
          "standard deviation over the gradient; 0 of a truncated one", ABOVE_ZERO, Evidence.EXACT, variance),
    Claim("truncation/not_better", "doc-004", "9.7.1.4", "randomised truncation is not better than regular truncation",
          "error of a randomised gradient, as a multiple of a truncated one's", at_least(1), Evidence.DRAWN, worse),
)  # fmt: skip
