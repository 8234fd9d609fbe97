"""Positional encodings with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Wrong, formula, given, mutants, rounded, rows, then, turned


class Encoding(Steps):
    """The formula, step by step."""

    axes = Axes(x="b l e")

    def compute(self, x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
        wide = self.wide(x)
        positions = self.positions(x.shape[1], offset).to(wide)[:, None]  # l 1
        angles = self.angles(positions, self.exponents(x.shape[2]).to(wide), base)  # l e
        return self.add(x.to(wide), self.interleave(angles)).to(x.dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if given["offset"] < 0 or not given["base"] > 0:
            raise ValueError("nothing to encode")

    positions = formula(lambda length, offset: torch.arange(offset, offset + length, dtype=torch.float64))

    @staticmethod
    def exponents(width: int) -> Tensor:
        return torch.arange(width, dtype=torch.float64).div(2, rounding_mode="floor") * 2 / width

    angles = formula(lambda positions, exponents, base: positions / base**exponents)

    @staticmethod
    def interleave(angles: Tensor) -> Tensor:
        even = torch.arange(angles.shape[-1]) % 2 == 0
        return torch.where(even, angles.sin(), angles.cos())

    add = formula(lambda x, encoding: x + encoding)


def by_logarithm(positions: Tensor, exponents: Tensor, base: float) -> Tensor:
    width = exponents.shape[-1]
    rates = torch.exp((exponents * width).round().float() * (-math.log(base) / width))
    return positions.float() * rates


def without_sign(given: Arguments) -> Arguments:
    return {**given, "offset": abs(given["offset"])}


def cosines_first(angles: Tensor) -> Tensor:
    even = torch.arange(angles.shape[-1]) % 2 == 0
    return torch.where(even, angles.cos(), angles.sin())


def odd_ends_with_cosine(encoding: Tensor, angles: Tensor) -> Tensor:
    if angles.shape[-1] % 2:
        encoding[:, -1] = angles[:, -1].cos()
    return encoding


CONTROLS = {"correct": Encoding()}
OTHERS = usual_mutants(Encoding)
MISTAKES = mutants(
    Encoding,
    check=rows(accepts_negative_offset=Wrong("a negative offset is accepted", given(given=without_sign))),
    positions=rows(
        counts_from_one=Wrong("positions count from 1", then(lambda positions: positions + 1)),
        ignores_offset=Wrong(
            "the offset is ignored: every token of a decoder is its first",
            given(offset=lambda offset: 0),
            "documents, E36",
        ),
        ends_at_1000=Wrong(
            "positions beyond the 1,000th are taken for the 1,000th",
            then(lambda positions: positions.clamp_max(999)),
            "documents, E33",
        ),
        wraps_at_5000=Wrong(
            "positions are taken modulo 5,000, the length of a table",
            then(lambda positions: positions % 5000),
            "PyTorch's tutorial",
        ),
    ),
    exponents=rows(
        a_frequency_each=Wrong(
            "each feature has a frequency of its own: j/e for 2j/e in pairs",
            lambda width: torch.arange(width, dtype=torch.float64) / width,
        ),
        half_exponents=Wrong(
            "exponents are j/e for 2j/e: the frequencies fall half as fast", then(lambda exponents: exponents / 2)
        ),
        exponents_to_one=Wrong(
            "exponents end at 1: 2j/(e − 2) for 2j/e",
            then(lambda exponents, width: exponents * width / max(1, width - 2)),
        ),
    ),
    angles=rows(
        fixed_base=Wrong("the base is 10,000 whatever was asked", given(base=lambda base: 10000.0)),
        inverted_frequencies=Wrong(
            "angles are multiplied by the frequencies' inverse",
            lambda positions, exponents, base: positions * base**exponents,
        ),
        full_turns=Wrong("angles are full turns", given(positions=lambda positions: 2 * math.pi * positions)),
        float32_angles=Wrong(
            "angles are computed in float32 for float64, by powers",
            lambda positions, exponents, base: positions.float() / base ** exponents.float(),
            "documents, 11.6",
            ("float64",),
        ),
        float32_angles_by_logarithm=Wrong(
            "angles are computed in float32 for float64, by exponentials of logarithms",
            by_logarithm,
            "PyTorch's tutorial",
            ("float64",),
        ),
        half_angles=Wrong("angles are rounded to float16", then(rounded(torch.float16)), "", ("float32", "float16")),
    ),
    interleave=rows(
        cosines_first=Wrong("cosines come first, sines second", cosines_first, "documents, E32"),
        in_halves=Wrong(
            "sines fill the first half and cosines the second",
            lambda angles: torch.cat([angles[:, ::2].sin(), angles[:, 1::2].cos()], -1),
        ),
        sines_only=Wrong("there are only sines", torch.sin),
        odd_ends_with_cosine=Wrong("an odd width ends with a cosine", then(odd_ends_with_cosine)),
    ),
    add=rows(
        scales_x=Wrong("x is multiplied by √e first", given(x=lambda x: x * math.sqrt(x.shape[-1])), "documents, E32"),
        encoding_alone=Wrong("the encoding alone is returned", lambda x, encoding: encoding.expand_as(x).clone()),
        transposed_encoding=Wrong("positions and features are swapped where there are as many", given(encoding=turned)),
        counts_items=Wrong(
            "items are counted instead of positions where there are as many",
            given(encoding=lambda encoding, x: encoding[:, None] if x.shape[0] == x.shape[1] else encoding),
        ),
    ),
)
