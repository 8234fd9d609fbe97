"""Notes in the margin of doc-004, and rates of doc-002, that can be counted."""

from __future__ import annotations

import torch
from torch import Generator

from attnsuite.documents.claims.claim import ABOVE_ZERO, Claim, Measured, Range, at_most, exactly, number, sampled
from attnsuite.implementations.patch_embedding.torch_nn import patch_embedding
from attnsuite.implementations.positional_encoding.eager import positional_encoding
from attnsuite.implementations.positionwise_ffn.torch_nn import positionwise_ffn
from attnsuite.implementations.token_masking.eager import token_masking
from attnsuite.model import Evidence

CHANNELS, PATCH, WIDTH = 3, 4, 8
DRAWS, ITEMS, LENGTH, VOCABULARY = 20, 40, 500, 1000
"""Draws of so many tokens each, of a vocabulary so large that few become the mask token by chance."""
RATE = 0.005
"""Half of what lies between 12 % and 13 %."""


def rows_of_equals() -> Measured:
    """How far the outputs of equal positions lie apart."""
    random = Generator().manual_seed(21)
    w1, w2 = (torch.randn(*shape, generator=random) for shape in ((WIDTH, 4), (4, WIDTH)))
    b1, b2 = (torch.randn(size, generator=random) for size in (4, WIDTH))
    output = positionwise_ffn(torch.ones(1, 3, WIDTH), w1, b1, w2, b2)
    return number(float((output - output[:, :1]).abs().max()))


def channels() -> Measured:
    """How many channels an output of the patches' convolution depends on."""
    random = Generator().manual_seed(22)
    images = torch.randn(1, CHANNELS, PATCH, PATCH, generator=random).requires_grad_()
    weights = torch.randn(WIDTH, CHANNELS, PATCH, PATCH, generator=random)
    output = patch_embedding(images, weights, torch.zeros(WIDTH))
    (gradient,) = torch.autograd.grad(output[0, 0, 0], images)
    return number(int((gradient.abs().sum((0, 2, 3)) > 0).sum()), f"of {CHANNELS}")


def sines_in_odd_columns() -> Measured:
    """The largest number in the odd columns of position 0, where sines are 0 and cosines 1."""
    return number(float(positional_encoding(torch.zeros(1, 1, WIDTH))[0, 0, 1::2].abs().max()))


def masked() -> Measured:
    """The share of tokens that become the mask token, draw by draw."""
    mask_token, found = VOCABULARY - 1, []
    tokens = torch.randint(mask_token, (ITEMS, LENGTH), generator=Generator().manual_seed(23))
    with torch.random.fork_rng():
        torch.manual_seed(23)
        for _ in range(DRAWS):
            special = torch.zeros(ITEMS, LENGTH, dtype=torch.bool)
            corrupted, _ = token_masking(tokens, special, vocab_size=VOCABULARY, mask_token=mask_token)
            found.append(float((corrupted == mask_token).double().mean()))
    return sampled(found, f"{DRAWS} draws of {ITEMS * LENGTH:,} tokens")


def _rate(name: str, says: str, due: float) -> Claim:
    within = Range(due - RATE, due + RATE, f"{due:g} ± {RATE:g}")
    quantity = "share of tokens that become the mask token"
    return Claim(f"notes/{name}", "doc-002", "mlm", says, quantity, within, Evidence.DRAWN, masked)


CLAIMS = (
    Claim("notes/feed_forward", "doc-004", "11.7.2", "the feed-forward network gives each position another output",
          "largest difference between outputs of equal positions", ABOVE_ZERO, Evidence.EXACT, rows_of_equals),
    Claim("notes/channels", "doc-004", "11.8.2", "a convolution runs on each channel separately",
          "channels that one output depends on", exactly(1), Evidence.EXACT, channels),
    Claim("notes/sines", "doc-004", "11.6.3", "sines stand in the odd columns",
          "largest number in the odd columns at position 0", at_most(1e-6), Evidence.EXACT, sines_in_odd_columns),
    _rate("masked", "15 % of tokens are replaced by the mask token", 0.15),
    _rate("masked_of_chosen", "80 % of the 15 % that are chosen become the mask token", 0.12),
)  # fmt: skip
