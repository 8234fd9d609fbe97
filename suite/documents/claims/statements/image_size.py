"""How the cost of training a vision transformer grows with its images: whole steps, and the products of attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.documents.claims.claim import Claim, Measured, at_least, number, power
from attnsuite.documents.claims.counting import flops
from attnsuite.documents.claims.timing import power_of, raced
from attnsuite.implementations.vision_transformer.eager import softmax_attention, vision_transformer
from attnsuite.model import Evidence
from attnsuite.model.statistics import exponent

PATCH, BATCH = 8, 4
SIDES = (32, 48, 64, 96)
"""Images of 16 to 144 patches: 144 are the document's 96 × 96 pixels in finer patches than its 16."""
CONFIG: Mapping[str, Any] = {
    "patch": PATCH, "channels": 1, "width": 128, "heads": 8, "mlp_width": 512, "blocks": 2, "classes": 10, "pooling": "class",
}  # fmt: skip
"""The document's model at a quarter of its width: the network is four times as wide as the model, as there."""


def step(side: int) -> Callable[[], Tensor]:
    """A training step on images of this side: forward, loss, backward, and a step of gradient descent."""
    random = Generator().manual_seed(side)
    config = {**CONFIG, "image_height": side, "image_width": side}
    weights = {
        name: (0.05 * torch.randn(*shape, generator=random)).requires_grad_() for name, shape in shapes(config).items()
    }
    model, images = vision_transformer(config, weights), torch.randn(BATCH, 1, side, side, generator=random)
    labels = torch.randint(10, (BATCH,), generator=random)

    def trained() -> Tensor:
        loss = functional.cross_entropy(model(images), labels)
        for weight, gradient in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            weight.data.sub_(gradient, alpha=0.01)
        return loss

    return trained


def patches(side: int) -> int:
    """How many patches an image has."""
    return (side // PATCH) ** 2


def timed(by: str) -> Measured:
    """The power of the side, or of the number of patches, by which the time of a step grows."""
    sizes = [side if by == "side" else patches(side) for side in SIDES]
    return power_of(sizes, raced({str(size): step(side) for size, side in zip(sizes, SIDES, strict=True)}, budget=1.0))


def counted() -> Measured:
    """The power of the number of patches by which the FLOPs of a whole training step grow."""
    found = [flops(step(side)) for side in SIDES]
    value = exponent([patches(side) for side in SIDES], found)
    assert value is not None
    return number(value, f"{', '.join(f'{count:,}' for count in found)} FLOPs at sides {', '.join(map(str, SIDES))}")


def attention_alone() -> Measured:
    """The power of the number of positions by which the FLOPs of attention's own products grow."""
    sizes, found = (16, 64, 256), []
    for size in sizes:
        query = torch.zeros(1, 8, size, 16)
        found.append(flops(partial(softmax_attention, query, query, query)))
    value = exponent(sizes, found)
    assert value is not None
    return number(
        value, f"{', '.join(f'{count:,}' for count in found)} FLOPs of {', '.join(map(str, sizes))} positions"
    )


CLAIMS = (
    Claim("image_size/time", "doc-004", "11.8, exercise 1", "larger images take longer to train on",
          "power of the side in the time of a training step", at_least(0.5), Evidence.TIMED, partial(timed, "side")),
    Claim("image_size/time_of_patches", "doc-004", "11.8", "the cost of a vision transformer is quadratic in the size of its images",
          "power of the number of patches in the time of a training step", power(2), Evidence.TIMED, partial(timed, "patches")),
    Claim("image_size/flops_of_patches", "doc-004", "11.8", "the cost of a vision transformer is quadratic in the size of its images",
          "power of the number of patches in the FLOPs of a training step", power(2), Evidence.EXACT, counted),
    Claim("image_size/attention_alone", "doc-004", "11.8", "the cost of a vision transformer is quadratic in the size of its images",
          "power of the number of positions in the FLOPs of attention's own products", power(2), Evidence.EXACT, attention_alone),
)  # fmt: skip
