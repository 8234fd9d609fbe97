"""Positional encodings with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes


class Encoding(Staged):
    """The formula, step by step."""

    def __call__(self, x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
        self.check(x, offset, base)
        wide = self.wide(x)
        positions = self.positions(x.shape[1], offset).to(wide)[:, None]  # l 1
        angles = self.angles(positions, self.exponents(x.shape[2]).to(wide), base)  # l e
        return self.add(x.to(wide), self.interleave(angles)).to(x.dtype)

    @staticmethod
    def check(x: Tensor, offset: int, base: float) -> None:
        if x.dim() != 3 or offset < 0 or not base > 0:
            raise ValueError("nothing to encode")

    @staticmethod
    def positions(length: int, offset: int) -> Tensor:
        return torch.arange(offset, offset + length, dtype=torch.float64)

    @staticmethod
    def exponents(width: int) -> Tensor:
        return torch.arange(width, dtype=torch.float64).div(2, rounding_mode="floor") * 2 / width

    @staticmethod
    def angles(positions: Tensor, exponents: Tensor, base: float) -> Tensor:
        return positions / base**exponents

    @staticmethod
    def interleave(angles: Tensor) -> Tensor:
        even = torch.arange(angles.shape[-1]) % 2 == 0
        return torch.where(even, angles.sin(), angles.cos())

    @staticmethod
    def add(x: Tensor, encoding: Tensor) -> Tensor:
        return x + encoding


@instead_of(Encoding.interleave, "cosines come first, sines second", source="documents, E32")
def cosines_first(angles: Tensor) -> Tensor:
    even = torch.arange(angles.shape[-1]) % 2 == 0
    return torch.where(even, angles.cos(), angles.sin())


@instead_of(Encoding.interleave, "sines fill the first half and cosines the second")
def in_halves(angles: Tensor) -> Tensor:
    return torch.cat([angles[:, ::2].sin(), angles[:, 1::2].cos()], -1)


@instead_of(Encoding.interleave, "there are only sines")
def sines_only(angles: Tensor) -> Tensor:
    return angles.sin()


@instead_of(Encoding.interleave, "an odd width ends with a cosine")
def odd_ends_with_cosine(angles: Tensor) -> Tensor:
    encoding = Encoding.interleave(angles)
    if angles.shape[-1] % 2:
        encoding[:, -1] = angles[:, -1].cos()
    return encoding


@instead_of(Encoding.exponents, "each feature has a frequency of its own: j/e for 2j/e in pairs")
def a_frequency_each(width: int) -> Tensor:
    return torch.arange(width, dtype=torch.float64) / width


@instead_of(Encoding.exponents, "exponents end at 1: 2j/(e − 2) for 2j/e")
def exponents_to_one(width: int) -> Tensor:
    return Encoding.exponents(width) * width / max(1, width - 2)


IN_POSITIONS = mistakes(
    Encoding.positions,
    counts_from_one=Mistake("positions count from 1", lambda length, offset: Encoding.positions(length, offset + 1)),
    ignores_offset=Mistake(
        "the offset is ignored: every token of a decoder is its first",
        lambda length, offset: Encoding.positions(length, 0),
        source="documents, E36",
    ),
    ends_at_1000=Mistake(
        "positions beyond the 1,000th are taken for the 1,000th",
        lambda length, offset: Encoding.positions(length, offset).clamp_max(999),
        source="documents, E33",
    ),
    wraps_at_5000=Mistake(
        "positions are taken modulo 5,000, the length of a table",
        lambda length, offset: Encoding.positions(length, offset) % 5000,
        source="PyTorch's tutorial",
    ),
)


IN_ANGLES = mistakes(
    Encoding.angles,
    fixed_base=Mistake(
        "the base is 10,000 whatever was asked", lambda positions, exponents, base: positions / 10000.0**exponents
    ),
    inverted_frequencies=Mistake(
        "angles are multiplied by the frequencies' inverse",
        lambda positions, exponents, base: positions * base**exponents,
    ),
    full_turns=Mistake(
        "angles are full turns", lambda positions, exponents, base: 2 * math.pi * positions / base**exponents
    ),
    half_angles=Mistake(
        "angles are rounded to float16",
        lambda positions, exponents, base: (positions / base**exponents).half().to(positions.dtype),
        dtypes=("float32", "float16"),
    ),
)


IN_ADD = mistakes(
    Encoding.add,
    scales_x=Mistake(
        "x is multiplied by √e first",
        lambda x, encoding: x * math.sqrt(x.shape[-1]) + encoding,
        source="documents, E32",
    ),
    encoding_alone=Mistake("the encoding alone is returned", lambda x, encoding: encoding.expand_as(x).clone()),
    counts_items=Mistake(
        "items are counted instead of positions where there are as many",
        lambda x, encoding: x + encoding[:, None] if x.shape[0] == x.shape[1] else x + encoding,
    ),
)


@instead_of(Encoding.check, "a negative offset is accepted")
def accepts_negative_offset(x: Tensor, offset: int, base: float) -> None:
    Encoding.check(x, abs(offset), base)


CONTROLS = {"correct": Encoding()}
OTHERS = [in_memory_order(Encoding()), *imprecise(Encoding)]
