"""The contract `add_norm`: a residual connection, then a normalisation.

    add_norm(x, y, weight, bias, *, norm="layer", eps=1e-5) -> output

    sum    = x + y
    output = (sum − mean) / √(variance + eps) · weight + bias

Axes: `… e` x, y and output, `e` weight and bias. Any rank from 2.

    layer            mean and variance over the features of each position (Ba, Kiros and Hinton, arXiv 1607.06450)
    batch            over all positions for each feature, as batch normalisation does in training (Ioffe and Szegedy,
                     arXiv 1502.03167); it needs at least two positions
    variance         biased: divided by the count
    eps              added inside the root
    y                the sublayer's output after its dropout: dropout is not tested here
    rounding         sums may run in any order; half types accumulate in float32. Sum, mean, differences, variance,
                     root, quotient and product may each be rounded to the dtype, and so may the bias minus the scaled
                     mean. The variance is computed from differences: mean square minus squared mean cancels
    inputs           any strides, weights too; never modified; the output shares no memory with them or later outputs
    output           x's dtype and device
    bad input        raises on an unknown norm, x and y of different shapes, a weight or bias of another width, and
                     batch normalisation of one position
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.changes import repeated_beyond, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants, widened
from attnsuite.cases.documented import CasePair, DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.judging.running_error import WithError

CONTRACT = declare(__name__, features={"batch": "batch normalisation", "eps": "an explicit eps"},
    parameters={"norm": ("batch",), "eps": ("eps",)}, by_value=("norm",))  # fmt: skip


def oracle(
    x: WithError, y: WithError, weight: WithError, bias: WithError, *, norm: str = "layer", eps: float = 1e-5
) -> WithError:
    """x + y, normalised over features or over positions, … e.

    An implementation may fold the mean into the bias, a·sum + (bias − a·mean) with a = weight / √…, which rounds once
    more at the bias's size.
    """
    total, bias = x + y, bias.with_rounding_error()
    if norm == "batch":
        columns = total.each(lambda array: array.reshape(-1, array.shape[-1]).T)  # e n
        return _normalised(columns, eps).each(lambda array: array.T.reshape(total.shape)) * weight + bias
    return _normalised(total, eps) * weight + bias


def _normalised(rows: WithError, eps: float) -> WithError:
    """Normalised over the last axis. The divisor is at least √eps, however uncertain the variance is."""
    centred = rows - rows.mean(keepdims=True)
    root = ((centred * centred).mean(keepdims=True) + eps).sqrt()
    least = np.maximum(root.value.astype(np.float64) - root.bound, np.sqrt(eps))
    value = centred.value / root.value
    bound = (centred.bound + abs(value).astype(np.float64) * root.bound) / least
    return type(rows)(value, bound, rows.precision).with_rounding_error()


def draw(
    random: Generator, *, lead: tuple[int, ...] = (2, 3), width: int = 6, size: float = 1.0, shift: float = 0.0,
    constant: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Inputs of magnitude `size` with a mean that is not 0, by name. `x=(2, 4)` overrides the shape of x."""
    sizes = {"x": (*lead, width), "y": (*lead, width), "weight": (width,), "bias": (width,)}
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    inputs["x"] = size * inputs["x"] + shift
    inputs["y"] = size * inputs["y"] + 0.5 * size
    return inputs | ({"x": np.ones_like(inputs["x"]), "y": np.ones_like(inputs["y"])} if constant else {})


case = Formula(oracle, ("x", "y", "weight", "bias"), draw, options=("norm", "eps"))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "several items and positions"),
        case("plain/square", "as many items as positions and features", lead=(4, 4), width=4),
        case("plain/constant", "equal features: only the bias is left", constant=True),
        *documented(),
        case("batch/usual", "the positions of all items together", norm="batch"),
        case("batch/matrix", "no batch axis", norm="batch", lead=(5,)),
        case("batch/positions", "129 positions: one more than a tile of 128", norm="batch", lead=(129,)),
        case("batch/far_mean", "a mean of 300 standard deviations", PRECISE, norm="batch", shift=300.0),
        case("eps/large", "an eps of 0.5", eps=0.5),
        case("eps/batch", "an eps of 0.5 in batch normalisation", norm="batch", eps=0.5),
        case("eps/tiny", "features of 0.01 with an eps of 10⁻¹²", PRECISE, eps=1e-12, size=0.01),
        case("size/wide", "1025 features: sums in float16 and bfloat16 would show", lead=(3,), width=1025),
        case("size/positions", "129 positions: one more than a tile of 128", lead=(129,)),
        case("size/nothing", "no positions", lead=(2, 0)),
        case("numerics/far_mean", "a mean of 300 standard deviations, which E[x²] − E[x]² loses", PRECISE, shift=300.0),
        case("numerics/large", "squares that overflow float16", size=900.0),
        *case.layouts(("batch", "the same for batch normalisation", {"norm": "batch"})),
        *case.repeated(),
        *case.bad_input(
            ("shapes", "x has 3 positions, y has 4", {"y": (2, 4, 6)}),
            ("broadcast", "y has 1 position and would broadcast", {"y": (2, 1, 6)}),
            ("one_item", "y has 1 item and would broadcast", {"y": (1, 3, 6)}),
            ("rank", "y has no batch axis and would broadcast", {"y": (3, 6)}),
            ("weight", "a weight of 5 for 6 features", {"weight": (5,)}),
            ("bias", "a bias of 7 for 6 features", {"bias": (7,)}),
            ("one_weight", "a weight of 1, which would broadcast", {"weight": (1,)}),
            ("norm", "an unknown norm", {"norm": "group"}),
            ("batch_of_one", "batch normalisation of a single position", {"lead": (1,), "norm": "batch"}),
            ("one_of_one_item", "batch normalisation of one position of one item", {"lead": (1, 1), "norm": "batch"}),
        ),
    ]


def documented() -> Iterator[Case]:
    """The documents' examples: a normalisation is a residual connection to zeros."""
    for example in documents.examples_of("normalization", "add_norm"):
        inputs = example.inputs
        x = numbers(inputs["x"]) if "x" in inputs else np.ones(inputs["x_shape"])
        y = numbers(inputs["y"]) if "y" in inputs else x * (example.kind == "shape")
        if "keep" in inputs:
            y = y * numbers(inputs["keep"]) / (1 - example.parameters["dropout"])
        options = {"norm": "batch"} if example.parameters.get("type") == "batch" else {}
        quantity, width = "output" if example.kind == "values" else "", x.shape[-1]
        arrays = {"x": x, "y": y, "weight": np.ones(width), "bias": np.zeros(width)}
        plain = case.with_inputs(*example.named(quantity), arrays, **options)
        if quantity:
            yield DocumentedNumbers(plain, example.gives(quantity))
        else:  # normalised ones are 0, random numbers are not
            random = case(*example.named(), lead=x.shape[:-1], width=width)
            yield CasePair(DocumentedShape(plain, example.at(), example.output_shape), random)


class Residual(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(x="… e", y="… e", weight="e", bias="e")
    choices: ClassVar = {"norm": ("layer", "batch")}

    def compute(
        self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5
    ) -> Tensor:
        dtype, wide = x.dtype, self.wide(x)
        total = self.add(x.to(wide), y.to(wide))
        rows = total if norm == "layer" else self.gather(total)  # ... n: normalised over the last axis
        mean = self.mean(rows)
        normalised = (rows - mean) / self.root(self.variance(rows, mean), eps)
        if norm == "batch":
            normalised = normalised.mT.reshape(total.shape)
        return self.finish(normalised, weight.to(wide), bias.to(wide), total).to(dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if arguments["norm"] == "batch" and arguments["x"].shape[:-1].numel() < 2:
            raise ValueError("batch normalisation of one position")

    add = formula(lambda x, y: x + y)
    gather = formula(lambda total: total.flatten(0, -2).mT)  # e n
    mean = formula(lambda rows: rows.mean(-1, keepdim=True))
    variance = formula(lambda rows, mean: (rows - mean).square().mean(-1, keepdim=True))
    root = formula(lambda variance, eps: (variance + eps).sqrt())
    finish = formula(lambda normalised, weight, bias, total: normalised * weight + bias)


def _fixed_eps(only: str) -> Mutation:
    change = with_arguments(eps=lambda eps, norm: 1e-5 if norm == only else eps)
    return Mutation(f"{only} normalisation ignores eps and uses 10⁻⁵", change)


@Residual.validated
def _items_apart(x: Tensor, y: Tensor, *others: Tensor, **options: Any) -> Tensor:
    pairs = [(x, y)] if x.dim() < 3 or not x.numel() else zip(x, y, strict=True)
    return torch.stack([Residual().compute(*pair, *others, **options) for pair in pairs]).view_as(x)


CONTROLS = {"correct": Residual()}
MUTANTS = all_mutants(
    Residual,
    whole={
        "over_positions": Mutation("positions are normalised instead of features where the two axes have one size",
            lambda *given, **options: turned(Residual()(*map(turned, given[:2]), *given[2:], **options))),
        "items_apart": Mutation("batch normalisation handles the positions of each item separately", _items_apart,
            "documents, E38"),
        "always_layer": Mutation("layer normalisation, whatever norm says",
            with_arguments(norm=lambda norm: "layer")),
        "broadcasts": Mutation("y, weight and bias may broadcast",
            with_arguments(y=lambda y, x: y.expand_as(x), weight=lambda weight, x: weight.expand(x.shape[-1]),
            bias=lambda bias, x: bias.expand(x.shape[-1]))),
        "fixed_eps_in_layer": _fixed_eps("layer"),
        "fixed_eps_in_batch": _fixed_eps("batch"),
    },
    add={
        "no_residual": Mutation("the residual is left out: only y is normalised", lambda x, y: y.clone()),
        "repeats_position_beyond_128": Mutation("positions beyond the 128th repeat the 128th",
            with_result(repeated_beyond(128, -2))),
    },
    gather={"rows_of_a_matrix": Mutation("batch normalisation of a matrix normalises its rows",
        lambda total: Residual.gather(total) if total.dim() > 2 else total)},
    mean={"rms_norm": Mutation("root mean square normalisation: no mean is subtracted",
        lambda rows: torch.zeros_like(rows[..., :1]), "arXiv 1910.07467")},
    variance={
        "unbiased_variance": Mutation("the variance is divided by the count minus one",
            lambda rows, mean: (rows - mean).square().sum(-1, keepdim=True) / (rows.shape[-1] - 1)),
        "cancelling_variance": Mutation("the variance is E[x²] − E[x]², which cancels where the mean is large",
            lambda rows, mean: (rows.square().mean(-1, keepdim=True) - mean.square()).clamp_min(0)),
        "overflowing_squares": Mutation("squares are summed in the dtype: float16 overflows", lambda rows, mean:
            (rows - mean).half().square().mean(-1, keepdim=True).to(rows.dtype), dtypes=("float16",)),
    },
    root={
        "eps_of_a_millionth": Mutation("eps is 10⁻⁶ instead of 10⁻⁵",
            with_arguments(eps=lambda eps: 1e-6 if eps == 1e-5 else eps), dtypes=("float32", "float64")),
        "eps_outside": Mutation("eps is added outside the root", lambda variance, eps: variance.sqrt() + eps),
        "fixed_eps": Mutation("eps is ignored: it is always 10⁻⁵", with_arguments(eps=lambda eps: 1e-5)),
        "no_eps": Mutation("there is no eps: equal features give NaN", with_arguments(eps=lambda eps: 0.0)),
    },
    finish={
        "no_weight": Mutation("the weight is left out", lambda normalised, weight, bias, total: normalised + bias),
        "no_bias": Mutation("the bias is left out", lambda normalised, weight, bias, total: normalised * weight),
        "leaves_features_beyond_1024": Mutation("features beyond the 1,024th are not normalised",
            with_result(lambda output, total: torch.cat([output[..., :1024], total[..., 1024:]], -1))),
    },
)  # fmt: skip


def _library(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5) -> Tensor:
    total = x + y
    if norm == "layer":
        return functional.layer_norm(total, weight.shape, weight, bias, eps)
    rows = total.flatten(0, -2)
    return functional.batch_norm(rows, None, None, weight, bias, training=True, eps=eps).view_as(total)


def _folded(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5) -> Tensor:
    """a · sum + (bias − a · mean), with a = weight / √(variance + eps)."""
    total = x + y
    over = (-1,) if norm == "layer" else tuple(range(total.dim() - 1))
    variance, mean = torch.var_mean(total, over, correction=0, keepdim=True)
    slope = weight * torch.rsqrt(variance + eps)
    return torch.addcmul(bias - slope * mean, slope, total)


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("library", "torch's layer_norm and batch_norm in the dtype itself", Residual.validated(_library)),
        Variant("folded", "mean and bias folded into one offset", widened(Residual, _folded)),
        Variant("float64", "everything in float64", Residual(wide=lambda x: torch.float64)),
    ]
