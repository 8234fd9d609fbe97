"""The contract `kernel_pooling`: Nadaraya–Watson regression, a mean of values weighted by a kernel of distance.

    kernel_pooling(query, key, value, *, kernel="gaussian", width=1.0) -> output

    u_ij   = (query_i − key_j) / width
    output = Σ_j K(u_ij) value_j / Σ_j K(u_ij)

    gaussian       exp(−u²/2)
    boxcar         1 where |u| < 1, strictly, else 0
    constant       1
    triangular     max(0, 1 − |u|); a document calls it Epanechikov
    epanechikov    max(0, 1 − u²): its factor 3/4 cancels

Axes: `l` query, `s` key, `s v` value, `l v` output (l queries, s keys, v value width). Nadaraya (1964), Watson (1964).

    no support       a query for which every kernel is zero gives exact zeros; so do no keys. An implementation that
                     divides zero by zero there declares {"empty_row": "nan"}: NaN is expected where there are keys
    edge             a key that is one width away is outside the box, wherever the division by the width is exact
    far away         a Gaussian is never zero: far from all keys its nearest decide, though every exponential underflows
    rounding         sums may run in any order, in half types in float32; the difference comes before the division by
                     the width, and kernels are divided by their sum before the mean or after it. Each step may be
                     rounded
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device
    bad input        raises: an unknown kernel, a width that is not above zero, ranks other than 1, 1 and 2, keys and
                     values of different lengths

Not tested:

    gradients        the width is a number, not a parameter that is trained
    several axes     of positions: the documents' keys are numbers
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import filled_beyond, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.documented import CasePair, DocumentedNumbers
from attnsuite.cases.expected import Expected
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.shared import shares, unguarded
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.running_error import WithError, whichever
from attnsuite.model import Figures, Source

POSITIONAL = ("query", "key", "value")
KERNELS = ("gaussian", "boxcar", "constant", "triangular", "epanechikov")
CONTRACT = declare(
    __name__,
    {**{kernel: f"the {kernel} kernel" for kernel in KERNELS[1:]}, "width": "a width other than 1"},
    {"kernel": KERNELS[1:], "width": ("width",)},
    by_value=("kernel",),
    conventions={"empty_row": ("zeros", "nan")},
)


def oracle(
    query: WithError, key: WithError, value: WithError, *, kernel: str = "gaussian", width: float = 1.0,
    empty_row: str = "zeros",
) -> WithError:  # fmt: skip
    """The mean of the values by the kernel of the distances, l v; without support as the convention says."""
    distance = (query[:, None] - key[None]) / width  # l s
    if kernel == "gaussian":
        return (distance * distance * -0.5).attend(value)
    weights = _kernel(kernel, distance)
    total = weights.sum(keepdims=True)  # l 1
    mean = whichever((weights @ value) / total, (weights / total) @ value)
    alone = np.broadcast_to(total.value == 0, mean.shape)
    nothing = np.nan if empty_row == "nan" and key.shape[0] else 0
    return WithError(np.where(alone, nothing, mean.value), np.where(alone, 0, mean.bound), query.precision)


def _kernel(name: str, distance: WithError) -> WithError:
    size = WithError(abs(distance.value), distance.bound, distance.precision)
    if name == "triangular":
        return (size * -1.0 + 1.0).relu()
    if name == "epanechikov":
        return (distance * distance * -1.0 + 1.0).relu()
    ones = np.ones_like(distance.value)
    if name == "constant":
        return WithError(ones, 0.0, distance.precision)
    # A difference that is the width has that very value in every dtype: no rounding takes it across the edge.
    at_the_edge = (abs(size.size - 1.0) < size.bound) & (size.value != 1)
    return WithError(np.where(size.value < 1, ones, 0), np.where(at_the_edge, 1.0, 0.0), distance.precision)


GRID = 16
"""Keys lie on a grid of sixteenths, which every dtype holds; queries lie halfway, at no edge unless `on_grid`."""


def draw(
    random: Generator, *, queries: int = 5, keys: int = 9, value_width: int = 3, reach: float = 2.0, away: float = 0.0,
    on_grid: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Points within ± reach, queries `away` from them, values with a mean; a tensor's name gives it another shape."""
    steps = int(reach * GRID)
    inputs: dict[str, Array] = {
        "query": (random.integers(-steps, steps, size=queries) + (0.0 if on_grid else 0.5)) / GRID + away,
        "key": random.integers(-steps, steps, size=keys) / GRID,
        "value": random.normal(size=(keys, value_width)) + 0.5,
    }
    return inputs | {name: random.normal(size=shape) for name, shape in shapes.items()}


BAD_INPUT: list[Row] = [
    ("kernel", "a kernel that does not exist", {"kernel": "cosine"}),
    ("zero_width", "a width of 0", {"width": 0.0}),
    ("negative_width", "a width of −1", {"width": -1.0}),
    ("lengths", "9 keys with 8 values", {"value": (8, 3)}),
    ("query_rank", "queries of rank 2", {"query": (5, 1)}),
    ("value_rank", "values of rank 1", {"value": (9,)}),
]

case = Formula(oracle, POSITIONAL, draw, options=("kernel", "width"), conventions=("empty_row",), values="value")


def cases() -> list[Case]:
    """All cases, the plainest first."""
    edge: dict[str, Any] = {"kernel": "boxcar", "width": 0.5, "keys": 40, "reach": 1.0, "on_grid": True}
    barely: dict[str, Any] = {"kernel": "triangular", "width": 1 / 32 + 1e-5, "keys": 40}
    return [
        case("plain/usual", "more keys than queries"),
        case("plain/square", "as many keys as queries and numbers in a value", queries=6, keys=6, value_width=6),
        *documented(),
        *forty_points(),
        *(case(f"kernel/{name}", "near and far keys on both sides", kernel=name, keys=40) for name in KERNELS[1:]),
        case("kernel/narrow_epanechikov", "a parabola of width 1/2", kernel="epanechikov", width=0.5, keys=40),
        case("width/narrow", "a Gaussian of width 0.1", width=0.1),
        case("width/boxcar", "a box of width 3/4", kernel="boxcar", width=0.75, keys=40),
        case("width/triangular", "a triangle of width 2", kernel="triangular", width=2.0),
        case("width/barely", "keys that a triangle barely reaches", PRECISE, **barely),
        case("support/no_boxcar", "no key within reach gives zeros", kernel="boxcar", away=8.0),
        case("support/edge", "keys on the edge of a box, which is outside", **edge),
        case("support/far_gaussian", "every exponential underflows, the nearest keys decide", PRECISE, away=60.0),
        case("support/far_constant", "a constant reaches everywhere", kernel="constant", away=60.0),
        case("size/keys", "129 keys, one more than a tile of 128", keys=129, reach=0.5, queries=3),
        case("size/no_keys", "nothing to attend to gives zeros", keys=0),
        case("size/no_queries", "no queries", queries=0),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]


DATA = Path(documents.__file__).with_name("nadaraya_watson.json")
NO_SUPPORT = "doc-004/11.2-no-support"
"""A query beyond the reach of all keys: the document's code divides zero by zero."""


class Curve(DocumentedNumbers):
    """A kernel's curve: for each query, the weight of the key at 0 divided by that of its own key, the largest."""

    def slack(self, expected: Expected) -> Array:
        """A quotient's error: what both weights may be off by, divided by the denominator."""
        (_, own), (zero_slack, own_slack) = _zero_and_own(expected.numbers), _zero_and_own(expected.slack)
        slack: Array = (zero_slack + self.select(expected.numbers) * own_slack) / (own - own_slack)
        return slack


def documented() -> Iterator[Case]:
    """The documents' small examples: estimates, weights read through identity values, and the kernels' curves."""
    alone = documents.examples()[NO_SUPPORT]
    for example in (*documents.examples_of("kernel_pooling", kind="values"), alone):
        if "u" in example.inputs:
            yield from (_curve(example, kernel, numbers(example.inputs["u"]), kernel=kernel) for kernel in KERNELS[:4])
            continue
        query, key, value = example.numbers(("x_val", "x_train", "y_train")).values()
        options = _options(example.parameters["kernel"])
        yield _curve(example, "kernel_values", (key[:, None] - query).ravel(), **options)
        for quantity, values in (("y_hat", value[:, None]), ("weights", np.eye(len(key)))):
            name = example.named(quantity)
            inputs = {"query": query, "key": key, "value": values}
            figures = example.gives(quantity, _rows(example.expected[quantity]))
            numeric = DocumentedNumbers(case.with_inputs(*name, inputs, **options), figures)
            near = case.with_inputs(*name, inputs | {"query": key[:1] + 0.5}, kernel="boxcar")
            yield numeric if example is not alone else CasePair(numeric, near)  # zeros alone prove nothing


def forty_points() -> Iterator[DocumentedNumbers]:
    """The run of doc-004, section 11.2: 40 points, 50 estimates by each of seven kernels, corners of the weights."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    query, key, value = (numbers(data[name]) for name in ("x_val", "x_train", "y_train"))
    estimates = {"query": query, "key": key, "value": value[:, None]}
    weights = estimates | {"value": np.eye(len(key))}
    corner = np.ix_(data["corner_cols"], data["corner_rows"])  # rows of the output are queries
    for kernel, printed in data["kernels"].items():
        example = f"{data['document']}/11.2.2-forty-points-{kernel}"
        for quantity, inputs in (("y_hat", estimates), ("attention_weights", weights)):
            digits = {"decimals": 4} if printed[f"{quantity}_format"] == "fixed4" else {"significant": 5}
            source = Source(example, data["document"], data["section"], quantity, "digits")
            why = f"{data['document']}, section {data['section']}: {quantity}"
            numeric = case.with_inputs(f"documents/{example}/{quantity}", why, inputs, **_options(kernel))
            figures = Figures(source, _rows(printed[quantity]), **digits)
            yield DocumentedNumbers(numeric, figures, np.asarray if inputs is estimates else lambda x: x[corner])
    process = documents.examples()["doc-004/11.2-data-process"]
    for quantity, inputs in (("constant_estimate", estimates), ("constant_weight", weights)):
        numeric = case.with_inputs(*process.named(quantity), inputs, kernel="constant")
        shape = (len(query), inputs["value"].shape[1])
        yield DocumentedNumbers(numeric, process.gives(quantity, np.full(shape, process.expected[quantity])))


def _options(kernel: str) -> dict[str, Any]:
    """`gaussian_0.1` as options."""
    name, _, width = kernel.partition("_")
    return {"kernel": name, **({"width": float(width)} if width else {})}


def _rows(values: Any) -> Array:
    """Estimates as a column; weights with a row for each query, where the documents have a column."""
    array = numbers(values)
    return array[:, None] if array.ndim == 1 else array.T


def _curve(example: Excerpt, quantity: str, u: Array, **options: Any) -> Curve:
    """The kernel at each distance u."""
    inputs = {"query": u, "key": np.concatenate([[0.0], u]), "value": np.eye(len(u) + 1)}
    figures = example.gives(quantity, np.ravel(example.expected[quantity]))
    base = case.with_inputs(*example.named(quantity), inputs, **options)
    return Curve(base, figures, lambda output: np.divide(*_zero_and_own(output)))


def _zero_and_own(output: Array) -> tuple[Array, Array]:
    """The weights of the key at 0, and of each query's own key."""
    return output[:, 0], np.diagonal(output, offset=1)


class Pooling(Steps):
    """The formula, step by step."""

    axes = Axes(query="l", key="s", value="s v")
    choices: ClassVar = {"kernel": KERNELS}

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0
    ) -> Tensor:
        wide = self.wide(query)
        distance = self.scale(query.to(wide)[:, None] - key.to(wide), width)  # l s
        kernels: Tensor = getattr(self, kernel)(distance)
        return self.pool(self.normalise(kernels), value.to(wide)).to(query.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if not arguments["width"] > 0:
            raise ValueError("the width is not above zero")

    @staticmethod
    def gaussian(distance: Tensor) -> Tensor:
        """Up to a factor for each query, which normalising removes: its largest is 1."""
        scores = -distance.square() / 2
        return (scores - scores.amax(-1, keepdim=True)).exp() if scores.shape[-1] else scores

    scale = formula(lambda difference, width: difference / width)
    boxcar = formula(lambda distance: (distance.abs() < 1).to(distance.dtype))
    constant = formula(torch.ones_like)
    triangular = formula(lambda distance: (1 - distance.abs()).clamp_min(0))
    epanechikov = formula(lambda distance: (1 - distance.square()).clamp_min(0))
    normalise = staticmethod(shares)
    pool = formula(lambda weights, value: weights @ value)


CONTROLS = {"correct": Pooling()}
MUTANTS = all_mutants(
    Pooling,
    whole={
        "accepts_negative_width": Mutation("a negative width is taken for its size", with_arguments(width=abs)),
        "accepts_any_kernel": Mutation("an unknown kernel is taken for a Gaussian",
            with_arguments(kernel=lambda kernel: kernel if kernel in KERNELS else "gaussian")),
        "transposed_values": Mutation("values are transposed where they are square", with_arguments(value=turned)),
        **{
            f"{name}_of_width_1": Mutation(f"the width is ignored by the kernel {name}",
                with_arguments(width=partial(lambda name, width, kernel: 1.0 if kernel == name else width, name)))
            for name in KERNELS if name != "constant"
        },
    },
    scale={"ignores_width": Mutation("the width is ignored", lambda difference, width: difference.clone())},
    gaussian={
        "underflowing_gaussian": Mutation("exponentials are taken as they are: far from all keys 0/0",
            lambda x: (-x.square() / 2).exp(), "documents, E27"),
        "gaussian_without_half": Mutation("the Gaussian is exp(−u²)", with_arguments(distance=lambda x: x * 2**0.5)),
    },
    boxcar={
        "half_boxcar": Mutation("the box reaches to |u| < 1/2", lambda x: (x.abs() < 0.5).to(x.dtype)),
        "closed_boxcar": Mutation("the box holds its edge, |u| ≤ 1", lambda x: (x.abs() <= 1).to(x.dtype)),
    },
    constant={"bounded_constant": Mutation("a constant reaches only as far as a box",
        lambda x: Pooling.boxcar(x / 10))},
    triangular={
        "parabola_for_triangle": Mutation("Epanechikov replaces the triangle", Pooling.epanechikov, "documents, E19"),
    },
    epanechikov={"triangle_for_parabola": Mutation("the triangle replaces Epanechikov", Pooling.triangular,
        "documents, E19")},
    normalise={
        "clamped_total": Mutation("the kernels' sum is taken for a thousandth at least",
            lambda kernels: kernels / kernels.sum(-1, keepdim=True).clamp_min(1e-3)),
        "nan_without_support": Mutation("a query without support gives NaN", unguarded, "documents, E27"),
        "unnormalised": Mutation("weights are not divided by their sum", torch.clone),
        "normalised_over_queries": Mutation("weights are divided by sums over the queries", lambda x: shares(x.mT).mT),
        "drops_keys_beyond_128": Mutation("keys beyond 128 are left out", with_arguments(terms=filled_beyond(128, 0))),
    },
    pool={
        "nearest_only": Mutation("the value of the nearest key is returned, not the mean",
            lambda weights, value: value[weights.argmax(-1)] if len(value) else weights @ value),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """Five kernels, several ways to take their mean."""

    def mean(kernels: Tensor, value: Tensor) -> Tensor:
        """The mean is divided last, and the last key comes first."""
        total = kernels.sum(-1, keepdim=True)
        return (kernels.flip(-1) @ value.flip(0)) / total.where(total != 0, 1.0)

    divided_last = Pooling(normalise=lambda kernels: kernels, pool=mean)
    in_float64 = Pooling(wide=lambda query: torch.float64, gaussian=lambda x: torch.softmax(x * x / -2, -1))
    return [
        Variant("own_dtype", "everything in the dtype itself, half types too", Pooling(wide=lambda query: query.dtype)),
        Variant("divided_last", "means are divided by the sum of the kernels", divided_last),
        Variant("float64", "in float64, Gaussians by softmax", in_float64),
    ]
