"""Positional encodings with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import Mutation, formula, mutants, rounded, turned, with_arguments, with_result


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
GENERAL_MUTANTS = usual_mutants(Encoding)
MUTANTS = mutants(
    Encoding,
    check={"accepts_negative_offset": Mutation("a negative offset is accepted", with_arguments(given=without_sign))},
    positions={
        "counts_from_one": Mutation("positions count from 1", with_result(lambda positions: positions + 1)),
        "ignores_offset": Mutation(
            "the offset is ignored: every token of a decoder is its first",
            with_arguments(offset=lambda offset: 0),
            "documents, E36",
        ),
        "ends_at_1000": Mutation(
            "positions beyond the 1,000th are taken for the 1,000th",
            with_result(lambda positions: positions.clamp_max(999)),
            "documents, E33",
        ),
        "wraps_at_5000": Mutation(
            "positions are taken modulo 5,000, the length of a table",
            with_result(lambda positions: positions % 5000),
            "PyTorch's tutorial",
        ),
    },
    exponents={
        "a_frequency_each": Mutation(
            "each feature has a frequency of its own: j/e for 2j/e in pairs",
            lambda width: torch.arange(width, dtype=torch.float64) / width,
        ),
        "half_exponents": Mutation(
            "exponents are j/e for 2j/e: the frequencies fall half as fast",
            with_result(lambda exponents: exponents / 2),
        ),
        "exponents_to_one": Mutation(
            "exponents end at 1: 2j/(e − 2) for 2j/e",
            with_result(lambda exponents, width: exponents * width / max(1, width - 2)),
        ),
    },
    angles={
        "fixed_base": Mutation("the base is 10,000 whatever was asked", with_arguments(base=lambda base: 10000.0)),
        "inverted_frequencies": Mutation(
            "angles are multiplied by the frequencies' inverse",
            lambda positions, exponents, base: positions * base**exponents,
        ),
        "full_turns": Mutation(
            "angles are full turns", with_arguments(positions=lambda positions: 2 * math.pi * positions)
        ),
        "float32_angles": Mutation(
            "angles are computed in float32 for float64, by powers",
            lambda positions, exponents, base: positions.float() / base ** exponents.float(),
            "documents, 11.6",
            ("float64",),
        ),
        "float32_angles_by_logarithm": Mutation(
            "angles are computed in float32 for float64, by exponentials of logarithms",
            by_logarithm,
            "PyTorch's tutorial",
            ("float64",),
        ),
        "half_angles": Mutation(
            "angles are rounded to float16", with_result(rounded(torch.float16)), "", ("float32", "float16")
        ),
    },
    interleave={
        "cosines_first": Mutation("cosines come first, sines second", cosines_first, "documents, E32"),
        "in_halves": Mutation(
            "sines fill the first half and cosines the second",
            lambda angles: torch.cat([angles[:, ::2].sin(), angles[:, 1::2].cos()], -1),
        ),
        "sines_only": Mutation("there are only sines", torch.sin),
        "odd_ends_with_cosine": Mutation("an odd width ends with a cosine", with_result(odd_ends_with_cosine)),
    },
    add={
        "scales_x": Mutation(
            "x is multiplied by √e first", with_arguments(x=lambda x: x * math.sqrt(x.shape[-1])), "documents, E32"
        ),
        "encoding_alone": Mutation("the encoding alone is returned", lambda x, encoding: encoding.expand_as(x).clone()),
        "transposed_encoding": Mutation(
            "positions and features are swapped where there are as many", with_arguments(encoding=turned)
        ),
        "counts_items": Mutation(
            "items are counted instead of positions where there are as many",
            with_arguments(encoding=lambda encoding, x: encoding[:, None] if x.shape[0] == x.shape[1] else encoding),
        ),
    },
)
