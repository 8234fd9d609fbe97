"""Claims whose number is the median of random draws with a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from attnsuite.documents.claims import MeasuredValue, sampled
from attnsuite.documents.claims.exact import GRID, KEEP, RUNS, STEPS_BACK, estimates, network, points, randomised
from attnsuite.documents.claims.trained import Model, SmallConfig, loss, seeded, sequences
from attnsuite.implementations.recurrent_gradient.closed_form import recurrent_gradient
from attnsuite.implementations.token_masking.eager import token_masking
from attnsuite.model.statistics import exponent


@contextmanager
def _torch_seed(seed: int) -> Iterator[None]:
    """Seed torch's own generator, and restore its state afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


# Kernel regression: fresh draws of the document's process


def _distance(first: Tensor, second: Tensor) -> float:
    """The root mean squared difference."""
    return float((first - second).square().mean().sqrt())


def _error(estimate: Tensor) -> float:
    return _distance(estimate, 2 * GRID.sin() + GRID)


def _similarity(random: Generator) -> float:
    """The largest distance between the estimates of three local kernels ÷ the smallest error of one."""
    x, y = points(random, 40)
    curves = [estimates(x, y, kernel) for kernel in ("gaussian", "boxcar", "triangular")]
    return max(_distance(first, second) for first in curves for second in curves) / min(map(_error, curves))


def _roughness(random: Generator) -> float:
    """The roughness (by second differences) of a narrow kernel's estimates ÷ that of a wide kernel's."""
    x, y = points(random, 40)
    narrow, wide = (estimates(x, y, width=width).diff(n=2).square().mean() for width in (0.1, 1.0))
    return float((narrow / wide).sqrt())


def _consistency(random: Generator) -> float:
    """The error with 40 points ÷ that with 640, whose kernel is narrower by Silverman's n^(−1/5)."""
    few, many = (_error(estimates(*points(random, n), width=0.5 * (40 / n) ** 0.2)) for n in (40, 640))
    return few / many


def kernel_regression(quantity: str) -> MeasuredValue:
    """The similarity, roughness or consistency of estimates."""
    statistic = {"similarity": _similarity, "roughness": _roughness, "consistency": _consistency}[quantity]
    random = Generator().manual_seed(9)
    return sampled([statistic(random) for _ in range(200)], "200 draws of the document's process")


# Softmax and initialisation

DRAWS = 40


def gradient_of_weights(width: int, scaled: bool, random: Generator) -> float:
    """The mean norm of diag(w) − w wᵀ, the derivative of weights w with respect to scores, for iid queries and keys."""
    query, keys = torch.randn(DRAWS, width, 1, generator=random), torch.randn(DRAWS, 16, width, generator=random)
    weights = ((keys @ query)[..., 0] / (width**0.5 if scaled else 1.0)).double().softmax(-1)
    derivatives = weights.diag_embed() - weights[:, :, None] * weights[:, None]
    return float(derivatives.flatten(1).norm(dim=1).mean())


def softmax_gradients(seed: int, width: int, scaled: bool) -> MeasuredValue:
    """The gradient at width 512 with scores divided by √d ÷ that at another width, or without the division."""
    random = Generator().manual_seed(seed)

    def ratio() -> float:
        return gradient_of_weights(512, True, random) / gradient_of_weights(width, scaled, random)

    widths = f", widths {width} and 512" if scaled else " with 16 keys of width 512"
    return sampled([ratio() for _ in range(DRAWS)], f"means over {DRAWS} queries{widths}")


def variance_of_products(width: int) -> MeasuredValue:
    """The variance of q · k ÷ the width. 20,000 products determine it to one per cent."""
    random, shape = Generator().manual_seed(width), (20_000, width)

    def products() -> Tensor:
        return (torch.randn(shape, generator=random) * torch.randn(shape, generator=random)).sum(-1)

    return sampled([float(products().var()) / width for _ in range(20)], "20 draws of 20,000 products")


WIDTHS = (16, 64, 256, 1024)


def _outputs(raw: bool, width: int, random: Generator) -> Tensor:
    """Outputs of a linear map of this width: weights uniform in [0, 1), or the library's initialisation."""
    x = torch.randn(64, width, generator=random)
    if raw:
        return x @ torch.rand(width, width, generator=random)
    return nn.Linear(width, width, bias=False)(x).detach()  # type: ignore[no-any-return]


def _growth(raw: bool) -> list[float]:
    """For each draw, the power of the width by which outputs grow."""
    random, powers = Generator().manual_seed(18), []
    with _torch_seed(19):
        for _ in range(16):
            sizes = [float(_outputs(raw, width, random).square().mean().sqrt()) for width in WIDTHS]
            powers.append(exponent(WIDTHS, sizes) or 0.0)
    return powers


def growth_of_linear() -> MeasuredValue:
    """The power of the width by which the outputs of the library's linear layer grow."""
    return sampled(_growth(raw=False), f"16 draws, widths {', '.join(map(str, WIDTHS))}")


def growth_of_raw() -> MeasuredValue:
    """The growth of raw draws' outputs from the smallest width to the largest ÷ that of the library's."""
    widening = WIDTHS[-1] / WIDTHS[0]
    return sampled([widening ** (raw - linear) for raw, linear in zip(_growth(True), _growth(False), strict=True)])


def _last_gradient(norms: str, seed: int) -> float:
    """The gradient norm of the second map of the last of 16 blocks, before training."""
    with seeded(seed) as random:
        model = Model(SmallConfig(norms=norms, blocks=16))
        loss(model, sequences(random)).backward()
        *_, last = (module for module in model.blocks.modules() if isinstance(module, nn.Linear))
        assert last.weight.grad is not None
        return float(last.weight.grad.norm())


def gradient_of_norms() -> MeasuredValue:
    """The last block's gradient with normalisation after sums ÷ that with normalisation before."""
    ratios = [_last_gradient("post", seed) / _last_gradient("pre", seed) for seed in range(16)]
    return sampled(ratios, "16 seeds, 16 blocks, before training")


# Token masking, and backpropagation through time


def masked_tokens() -> MeasuredValue:
    """The share of tokens that become the mask token, by draw; random words rarely are the mask token."""
    tokens, shares = torch.randint(999, (40, 500), generator=Generator().manual_seed(23)), []
    with _torch_seed(23):
        for _ in range(20):
            special = torch.zeros(40, 500, dtype=torch.bool)
            corrupted, _ = token_masking(tokens, special, vocab_size=1000, mask_token=999)
            shares.append(float((corrupted == 999).double().mean()))
    return sampled(shares, "20 draws of 20,000 tokens")


NETWORKS = 24
TRUNCATED = 3
"""Hidden states that a truncated gradient reaches: 1.6 steps on average, fewer than the randomised 1.9."""


def _networks(seed: int, statistic: Callable[[tuple[Tensor, ...], Tensor], float]) -> list[float]:
    """The statistic of each network and its whole gradient."""
    random = Generator().manual_seed(seed)
    with _torch_seed(seed + 1):
        networks = (network(random) for _ in range(NETWORKS))
        return [statistic(tensors, recurrent_gradient(*tensors)) for tensors in networks]


def error_of_randomised() -> MeasuredValue:
    """The error of randomised gradients ÷ that of truncated gradients, by network."""

    def statistic(tensors: tuple[Tensor, ...], whole: Tensor) -> float:
        drawn = (randomised(tensors) - whole).square().mean().sqrt()
        return float(drawn / (recurrent_gradient(*tensors, truncate=TRUNCATED) - whole).square().mean().sqrt())

    steps = f"{NETWORKS} networks of {STEPS_BACK} steps, {RUNS} draws of each at π = {KEEP}, truncated to {TRUNCATED}"
    return sampled(_networks(11, statistic), steps)


def mean_of_randomised() -> MeasuredValue:
    """The projection of the mean randomised gradient on the whole gradient ÷ its norm, by network."""

    def statistic(tensors: tuple[Tensor, ...], whole: Tensor) -> float:
        return float((randomised(tensors).mean(0) * whole).sum() / whole.square().sum())

    return sampled(_networks(13, statistic), f"{NETWORKS} networks, means of {RUNS} draws at π = {KEEP}")
