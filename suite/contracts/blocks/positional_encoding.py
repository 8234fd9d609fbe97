"""The contract `positional_encoding`: sines and cosines of its position, added to each vector.

    positional_encoding(x, *, offset=0, base=10000.0) -> output

    output[b, i, 2j]     = x[b, i, 2j]     + sin((i + offset) / base^(2j/e))
    output[b, i, 2j + 1] = x[b, i, 2j + 1] + cos((i + offset) / base^(2j/e))

Axes: `b l e` x and output (b batch, l positions, e width). Vaswani et al., "Attention is all you need" (arXiv
1706.03762), section 3.5.

    offset           the position of the first vector, for a decoder that reads one token at a time
    width            an odd width ends with a sine
    positions        unlimited: no table may end
    scaling          none: multiplying an embedding by √e is the model's task
    angles           computed in float64 for float64, else at least in float32. The bound covers rounding of exponent,
                     power and product; it grows with the position and with the logarithm of the base
    rounding         the encoding may be rounded to the dtype before it is added
    inputs           any strides; never modified; the output shares no memory with them or later outputs
    output           x's dtype and device
    bad input        raises on an x that is not of rank 3, a negative offset, and a base that is not above zero
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Case, Reply, Variant, declare
from attnsuite.cases.changes import first_for_all, rounded, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, at_sizes, formula, with_arguments, with_result
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.sources import documents
from attnsuite.judging.running_error import LIBRARY, WithError

CONTRACT = declare(
    __name__,
    features={"offset": "a first position other than 0", "base": "a base other than 10,000"},
    parameters={"offset": ("offset",), "base": ("base",)},
)

EXPONENT_ROUNDINGS = 3.0
"""Roundings of an exponent, or of its product with the base's logarithm, before the power is computed."""


def angles(length: int, offset: int, exponents: Array, base: float, like: WithError) -> tuple[Array, Array]:
    """The angles, l and one for each exponent, and the errors of correct ones.

    Roundings of an exponent c count ln(base) · c times in the power. Then follow the power's own, a reciprocal, a
    position beyond the accumulator's integers, and the product.
    """
    unit = np.ones((), dtype=like.value.dtype)
    angles = unit * np.arange(offset, offset + length)[:, None] / (unit * base) ** (unit * exponents)
    roundings = EXPONENT_ROUNDINGS * abs(np.log(base)) * exponents + LIBRARY + 3.0
    return angles, roundings * like.precision.accumulator * angles.astype(np.float64)


def oracle(x: WithError, *, offset: int = 0, base: float = 10000.0) -> WithError:
    """x plus the sines and cosines of its positions, b l e."""
    _, length, width = x.shape
    turns, error = angles(length, offset, np.ones((), x.value.dtype) * (np.arange(width) // 2 * 2) / width, base, x)
    encoding = np.where(np.arange(width) % 2 == 0, np.sin(turns), np.cos(turns))
    return x + WithError(encoding, error, x.precision).with_rounding_error()


def draw(random: Generator, *, shape: tuple[int, ...] = (2, 5, 8), zeros: bool = False) -> Inputs:
    """Normal numbers, or zeros, which show the encoding alone."""
    return {"x": np.zeros(shape) if zeros else random.normal(size=shape)}


case = Formula(oracle, ("x",), draw, options=("offset", "base"))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "items, positions and features"),
        case("plain/square", "as many items as positions and features", shape=(6, 6, 6)),
        *documented(),
        case("offset/one_token", "the seventh token of a decoder", shape=(2, 1, 8), offset=6),
        case("offset/far", "positions beyond any table", offset=100_003),
        case("base/other", "higher frequencies", base=500.0),
        case("base/large", "lower frequencies", base=1e6),
        case("size/odd", "an odd width ends with a sine", shape=(1, 9, 5)),
        case("size/odd_continued", "an odd width with an offset", shape=(1, 3, 5), offset=4),
        case("size/one", "a single feature", shape=(2, 4, 1)),
        case("size/long", "more positions than usual tables have", shape=(1, 2100, 4)),
        case("size/nothing", "no positions", shape=(2, 0, 8)),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(
            ("rank", "an x without a batch axis", {"shape": (5, 8)}),
            ("offset", "an offset of −1", {"offset": -1}),
            ("base", "a base of 0", {"base": 0.0}),
            ("negative_base", "a base of −10", {"base": -10.0}),
        ),
    ]


def documented() -> Iterator[Case]:
    """The documents' examples: rows and columns of the encoding of zeros."""
    for example in documents.examples_of("positional_encoding"):
        if example.kind == "shape":
            zeros = case(*example.named(), shape=tuple(example.inputs["x_shape"]), zeros=True)
            yield DocumentedShape(zeros, example.at(), example.output_shape)
        elif example.kind == "values":
            inputs, width = example.inputs, example.inputs["encoding_dim"]
            pair = [2 * inputs["j"], 2 * inputs["j"] + 1] if "j" in inputs else range(width)
            rows, columns = inputs.get("positions", range(inputs.get("num_positions", 0))), inputs.get("columns", pair)
            select = partial(lambda places, output: output[0][places], np.ix_(rows, columns))
            quantities = [name for name in ("values", "pairs", "shifted_pairs") if name in example.expected]
            for quantity in quantities:
                options = {"offset": inputs["offset"]} if quantity == "shifted_pairs" else {}
                options |= {"base": float(example.parameters["base"])}
                zeros = case(*example.named(quantity), shape=(1, max(rows) + 1, width), zeros=True, **options)
                yield DocumentedNumbers(zeros, example.gives(quantity), select)


class Encoding(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(x="b l e")

    def compute(self, x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
        wide = self.wide(x)
        positions = self.positions(x.shape[1], offset).to(wide)[:, None]  # l 1
        angles = self.angles(positions, self.exponents(x.shape[2]).to(wide), base)  # l e
        return self.add(x.to(wide), self.interleave(angles)).to(x.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if arguments["offset"] < 0 or not arguments["base"] > 0:
            raise ValueError("a negative offset or base")

    positions = formula(lambda length, offset: torch.arange(offset, offset + length, dtype=torch.float64))
    exponents = formula(lambda width: (torch.arange(width) // 2 * 2).double() / width)
    angles = formula(lambda positions, exponents, base: positions / base**exponents)
    interleave = formula(lambda angles: _alternating(angles.sin(), angles.cos()))
    add = formula(lambda x, encoding: x + encoding)


def _alternating(even: Tensor, odd: Tensor) -> Tensor:
    """The even columns of one tensor and the odd columns of the other."""
    return torch.where(torch.arange(even.shape[-1]) % 2 == 0, even, odd)


def _written_base(call: Call, reply: Reply) -> list[str]:
    """The base of the frequency of columns 2 and 3, to three digits, read off the second position."""
    x, base, output = call.tensors["x"], call.options.get("base", 10000.0), reply.output
    if output is None or output.shape != x.shape or x.dim() != 3 or x.shape[1] < 2 or x.shape[2] < 3:
        return []
    offset = int(call.options.get("offset") or 0)
    sine = float((output.double() - x.double())[0, 1, 2])
    if not 0 < sine < 1 or not isinstance(base, float) or offset:
        return []
    written = float(f"{(1 / math.asin(sine)) ** (x.shape[2] / 2):.3g}")
    return [] if math.isclose(written**2, base, rel_tol=0.01) else [f"{written:g}"]  # that is half the exponents


CONTROLS = {"correct": Encoding()}
MUTANTS = all_mutants(
    Encoding,
    check={"accepts_negative_offset": Mutation("a negative offset is accepted",
        with_arguments(arguments=lambda arguments: {**arguments, "offset": abs(arguments["offset"])}))},
    positions={
        "counts_from_one": Mutation("positions are counted from 1", with_result(lambda positions: positions + 1)),
        "ignores_offset": Mutation("the offset is ignored", with_arguments(offset=lambda offset: 0),
            "documents, E36"),
        "one_position_for_all": Mutation("all vectors have the first one's position", with_result(first_for_all()),
            "pytorch/examples issue 1178"),
        "ends_at_1000": Mutation("positions beyond the 1,000th repeat the 1,000th",
            with_result(lambda positions: positions.clamp_max(999)), "documents, E33"),
        "wraps_at_5000": Mutation("positions are taken modulo 5,000, the length of a table",
            with_result(lambda positions: positions % 5000), "PyTorch's tutorial"),
    },
    exponents={
        "half_exponents": Mutation("exponents are j/e instead of 2j/e",
            with_result(lambda exponents: exponents / 2)),
        "own_exponents_of_cosines": Mutation("a cosine has the exponent (2j + 1)/e, not that of its sine",
            lambda width: torch.arange(width, dtype=torch.float64) / width),
    },
    angles={
        **at_sizes("fixed_base_{}", "the base is always {}",
            lambda base: with_arguments(base=lambda _: float(base)), "10000", fit=_written_base),
        "float32_angles": Mutation("angles are computed in float32 for float64", lambda positions, exponents, base:
            positions.float() / base ** exponents.float(), "documents, 11.6", ("float64",)),
        "float32_angles_by_logarithm": Mutation(
            "angles are computed in float32 for float64, by exponentials of logarithms",
            lambda positions, exponents, base: positions.float() * (exponents.float() * -math.log(base)).exp(),
            "PyTorch's tutorial", ("float64",)),
        "half_angles": Mutation("angles are rounded to float16", with_result(rounded(torch.float16)),
            dtypes=("float32", "float16")),
    },
    interleave={
        "cosines_first": Mutation("cosines come first, sines second",
            lambda angles: _alternating(angles.cos(), angles.sin()), "documents, E32"),
        "odd_ends_with_cosine": Mutation("an odd width ends with a cosine", with_result(lambda encoding, angles:
            torch.cat([encoding[:, :-1], angles[:, -1:].cos()], 1) if angles.shape[1] % 2 else encoding)),
    },
    add={
        "scales_x": Mutation("x is multiplied by √e", with_arguments(x=lambda x: x * math.sqrt(x.shape[-1])),
            "documents, E32"),
        "encoding_alone": Mutation("x is not added", lambda x, encoding: encoding.expand_as(x).clone()),
        "transposed_encoding": Mutation("positions and features are swapped where the two axes have one size",
            with_arguments(encoding=turned)),
    },
)  # fmt: skip


def _by_logarithms(positions: Tensor, exponents: Tensor, base: float) -> Tensor:
    """Rates are exponentials of logarithms, exp(−ln(base) · 2j/e)."""
    return positions * (exponents * -math.log(base)).exp()


def _table(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    table = Encoding().compute(torch.zeros(1, *x.shape[1:], dtype=torch.float64), offset=offset, base=base)
    return x + table.to(x.dtype)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("exponentials", "rates as exponentials of logarithms", Encoding(angles=_by_logarithms)),
        Variant("table", "a float64 table, rounded before it is added", Encoding.validated(_table)),
        Variant("float64", "everything in float64", Encoding(wide=lambda x: torch.float64)),
    ]
