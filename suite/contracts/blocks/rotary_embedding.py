"""The contract `rotary_embedding`: each pair of features is rotated by an angle that grows with its position.

    rotary_embedding(x, *, offset=0, base=10000.0) -> output

    angle[i, j]             = (i + offset) / base^(2j/e)
    output[…, i, 2j]        = x[…, i, 2j] · cos(angle[i, j]) − x[…, i, 2j + 1] · sin(angle[i, j])
    output[…, i, 2j + 1]    = x[…, i, 2j] · sin(angle[i, j]) + x[…, i, 2j + 1] · cos(angle[i, j])

Axes: `… l e` x and output (l positions, e width, an even number), with any leading axes, as of items and heads. Su and
others, "RoFormer: Enhanced Transformer with Rotary Position Embedding" (arXiv 2104.09864), section 3.2.2.

    pairs            neighbouring features make a pair, as in RoFormer, GPT-J and Meta's Llama. Whether feature j is
                     paired with feature j + e/2 instead, as in GPT-NeoX and Hugging Face's Llama, is a convention:
                     {"pairs": "halves"}
    offset           the position of the first vector, for a decoder that reads one token at a time
    positions        unlimited: no table may end
    angles           computed in float64 for float64, else at least in float32. The bound covers rounding of exponent,
                     power and product; it grows with the position and with the logarithm of the base
    rounding         sines and cosines may be rounded to the dtype, and so may each product
    inputs           any strides; never modified; the output shares no memory with them or later outputs
    output           x's dtype and device
    bad input        raises on an odd width, an x of rank 1, a negative offset, and a base that is not above zero

Not tested:

    scaled angles    linear, NTK-aware and YaRN scaling of longer contexts, which change the frequencies
    partial rotation some models rotate the first features only: a caller slices x
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.changes import repeated_beyond, rounded
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants, widened
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts.blocks.positional_encoding import angles
from attnsuite.judging.running_error import LIBRARY, WithError, concatenated

CONTRACT = declare(
    __name__,
    features={"offset": "a first position other than 0", "base": "a base other than 10,000"},
    parameters={"offset": ("offset",), "base": ("base",)},
    conventions={"pairs": ("interleaved", "halves")},
)


def oracle(x: WithError, *, offset: int = 0, base: float = 10000.0, pairs: str = "interleaved") -> WithError:
    """The rotated pairs, … l e."""
    length, width = x.shape[-2:]
    exponents = np.ones((), x.value.dtype) * np.arange(0, width, 2) / max(width, 1)  # e/2
    turns, error = angles(length, offset, exponents, base, x)  # l e/2
    cosines, sines = (
        WithError(values, error, x.precision).with_rounding_error(LIBRARY) for values in (np.cos(turns), np.sin(turns))
    )
    first, second = (x[..., : width // 2], x[..., width // 2 :]) if pairs == "halves" else (x[..., ::2], x[..., 1::2])
    rotated = [first * cosines - second * sines, first * sines + second * cosines]
    return concatenated(rotated) if pairs == "halves" else _interleaved(*rotated)


def _interleaved(first: WithError, second: WithError) -> WithError:
    stacked = [np.stack(arrays, -1) for arrays in ((first.value, second.value), (first.bound, second.bound))]
    value, bound = (array.reshape(*array.shape[:-2], -1) for array in stacked)
    return WithError(value, bound, first.precision)


def draw(random: Generator, *, shape: tuple[int, ...] = (2, 5, 8)) -> Inputs:
    """Normal numbers."""
    return {"x": random.normal(size=shape)}


case = Formula(oracle, ("x",), draw, options=("offset", "base"), conventions=("pairs",))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "items, positions and features"),
        case("plain/heads", "items and heads of their own", shape=(2, 3, 5, 8)),
        case("offset/one_token", "the seventh token of a decoder", shape=(2, 1, 8), offset=6),
        case("offset/far", "positions beyond any table", offset=100_003),
        case("base/large", "lower frequencies, as of long contexts", base=500_000.0),
        case("size/long", "positions across tiles of 1,024", shape=(2100, 4)),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(
            ("odd_width", "a width of 7", {"shape": (2, 5, 7)}),
            ("rank", "a vector without positions", {"shape": (8,)}),
            ("offset", "an offset of −1", {"offset": -1}),
            ("base", "a base of 0", {"base": 0.0}),
        ),
    ]


class Rotation(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(x="… l e")

    def compute(self, x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
        wide = self.wide(x)
        positions = self.positions(x.shape[-2], offset).to(wide)[:, None]  # l 1
        angles = self.angles(positions, self.exponents(x.shape[-1]).to(wide), base)  # l e/2
        first, second = self.split(x.to(wide))
        return self.join(*self.rotate(first, second, angles)).to(x.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if sizes["e"] % 2 or arguments["offset"] < 0 or not arguments["base"] > 0:
            raise ValueError("an odd width, or a negative offset or base")

    positions = formula(lambda length, offset: torch.arange(offset, offset + length, dtype=torch.float64))
    exponents = formula(lambda width: torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = formula(lambda positions, exponents, base: positions / base**exponents)
    split = staticmethod(lambda x: (x[..., ::2], x[..., 1::2]))
    join = formula(lambda first, second: torch.stack([first, second], -1).flatten(-2))

    @staticmethod
    def rotate(first: Tensor, second: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        cosines, sines = angles.cos(), angles.sin()
        return first * cosines - second * sines, first * sines + second * cosines


HALVES = Rotation(split=lambda x: x.chunk(2, -1), join=lambda first, second: torch.cat([first, second], -1))
"""Pairs feature j with feature j + e/2."""
CONTROLS = {"correct": Rotation()}
MUTANTS = all_mutants(
    Rotation,
    whole={
        "pairs_halves": Mutation(
            "feature j is paired with feature j + e/2 instead of its neighbour; if that is meant, declare "
            'conventions={"pairs": "halves"}', HALVES,
            "transformers and Meta's Llama, whose weights are permuted between the two"),
        "accepts_odd_width": Mutation("the last feature of an odd width is cut off",
            with_arguments(x=lambda x: x[..., : x.shape[-1] // 2 * 2])),
    },
    positions={
        "ignores_offset": Mutation("the offset is ignored", with_arguments(offset=lambda offset: 0)),
        "ends_at_2048": Mutation("positions beyond the 2,048th repeat it, as in a table",
            with_result(lambda x: x.clamp_max(2047))),
    },
    exponents={"half_exponents": Mutation("exponents are j/e instead of 2j/e", with_result(lambda x: x / 2))},
    angles={
        "fixed_base": Mutation("the base is always 10,000", with_arguments(base=lambda base: 10000.0)),
        "half_angles": Mutation("angles are rounded to bfloat16", with_result(rounded(torch.bfloat16)),
            "transformers pull 29285"),
    },
    join={"repeats_position_beyond_1024": Mutation("positions of a call beyond the 1,024th get its result",
        with_result(repeated_beyond(1024, -2)))},
    rotate={"rotates_backwards": Mutation("pairs are rotated backwards", with_arguments(angles=torch.neg))},
)  # fmt: skip


def _complex(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    """Pairs as complex numbers, times points on the unit circle."""
    frequencies = base ** (-torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
    angles = torch.outer(torch.arange(offset, offset + x.shape[-2], dtype=x.dtype), frequencies)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("complex", "complex numbers, as Meta's Llama", widened(Rotation, _complex)),
        Variant("float64", "everything in float64", Rotation(wide=lambda x: torch.float64)),
        Variant("halves", "feature j paired with j + e/2", HALVES, conventions={"pairs": "halves"}),
    ]
