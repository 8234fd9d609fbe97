"""Sinusoids as positions: a shift is a rotation, and without positions order is not seen."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor

from attnsuite.documents.claims.claim import Claim, Measured, at_least, at_most, number
from attnsuite.implementations.positional_encoding.eager import positional_encoding
from attnsuite.model import Evidence

ROWS, WIDTH, BASE = 1000, 32, 10000.0
"""The document's table of positions, in its width of the plot."""
SHIFTS = (1, 7, 100)
ROUNDING = 1e-10
"""What float64 loses of sines of angles up to 1,100 and of their products, generously: an angle is off by 1e-13."""
LENGTH = 12


def table(rows: int = ROWS, width: int = WIDTH) -> Tensor:
    """Sines and cosines of positions, l e."""
    return positional_encoding(torch.zeros(1, rows, width, dtype=torch.float64), base=BASE)[0]


def rotated() -> Measured:
    """How far P of i + δ lies from P of i, each pair turned by an angle that depends on δ alone."""
    of, rates = table(), BASE ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    sine, cosine = of[:, ::2], of[:, 1::2]
    off = []
    for shift in SHIFTS:
        turn_sine, turn_cosine = (shift * rates).sin(), (shift * rates).cos()
        later = torch.stack([sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine], -1)
        off.append(float((later.flatten(-2)[:-shift] - of[shift:]).abs().max()))
    return number(max(off), f"shifts of {', '.join(map(str, SHIFTS))} over {ROWS:,} positions")


def reordered(with_positions: bool) -> Measured:
    """How far self-attention of reordered inputs lies from its reordered outputs."""
    random = Generator().manual_seed(8)
    x = torch.randn(LENGTH, WIDTH, generator=random, dtype=torch.float64)
    order = torch.randperm(LENGTH, generator=random)
    places = table(LENGTH) if with_positions else torch.zeros(LENGTH, WIDTH, dtype=torch.float64)

    def attend(x: Tensor) -> Tensor:
        x = x + places
        mixed: Tensor = (x @ x.mT / WIDTH**0.5).softmax(-1) @ x
        return mixed

    return number(float((attend(x[order]) - attend(x)[order]).abs().max()))


CLAIMS = (
    Claim("positions/shift_is_a_rotation", "doc-004", "11.6.3", "a shift of positions is a rotation that does not depend on the position",
          "largest difference between shifted and rotated sinusoids", at_most(ROUNDING), Evidence.EXACT, rotated),
    Claim("positions/order_without", "doc-004", "11.6.3", "self-attention without positions does not see the order of its inputs",
          "largest difference between outputs of reordered inputs and reordered outputs", at_most(ROUNDING),
          Evidence.EXACT, partial(reordered, False)),
    Claim("positions/order_with", "doc-004", "11.6.3", "with sinusoids added it sees the order",
          "largest difference between outputs of reordered inputs and reordered outputs", at_least(0.01),
          Evidence.EXACT, partial(reordered, True)),
)  # fmt: skip
