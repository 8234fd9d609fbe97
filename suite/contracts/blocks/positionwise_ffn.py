"""The contract `positionwise_ffn`: two linear maps with an activation between them, the same for every position.

    positionwise_ffn(x, w1, b1, w2, b2, *, activation="relu") -> output

    output = activation(x w1 + b1) w2 + b2

Axes: `… e` x, `e f` w1, `f` b1, `f v` w2, `v` b2, `… v` output (e width, f hidden width, v output width). Any rank
from 1. Vaswani and others, "Attention is all you need" (arXiv 1706.03762), section 3.3.

    activation       "relu", or "gelu", x·Φ(x) with the error function; its tanh form is another function
    weights          w1 and w2 are (in, out): the transpose of what linear layers store
    rounding         sums may run in any order, the bias first or last, in half types in float32; products, hidden
                     numbers and activations may each be rounded to the dtype
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           x's dtype and device
    bad input        raises: an unknown activation, widths that do not chain
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.changes import first_for_all, only_first, repeated_beyond, turned
from attnsuite.cases.computations import Axes, Steps, all_mutants, backwards, linear
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts.sources import documents
from attnsuite.judging.running_error import WithError

CONTRACT = declare(__name__, {"gelu": "the exact GELU"}, {"activation": ("gelu",)})
POSITIONAL = ("x", "w1", "b1", "w2", "b2")


def oracle(
    x: WithError, w1: WithError, b1: WithError, w2: WithError, b2: WithError, *, activation: str = "relu"
) -> WithError:
    """activation(x w1 + b1) w2 + b2, … v."""
    hidden = x[None].affine(w1, b1)  # 1 … f: numpy multiplies a single vector without a row
    hidden = hidden.relu() if activation == "relu" else hidden.gelu()
    return hidden.affine(w2, b2)[0]


def draw(
    random: Generator, *, lead: tuple[int, ...] = (2, 3), width: int = 5, hidden: int = 9, out: int = 4,
    size: float = 1.0, ones: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Normal inputs; the activation cuts about half of the hidden numbers. A tensor's name gives it another shape."""
    usual = {"x": (*lead, width), "w1": (width, hidden), "b1": (hidden,), "w2": (hidden, out), "b2": (out,)}
    inputs = {name: size * random.normal(size=shape) for name, shape in (usual | shapes).items()}
    return inputs | ({"x": np.ones_like(inputs["x"])} if ones else {})


case = Formula(oracle, POSITIONAL, draw, options=("activation",))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "three different widths"),
        case("plain/square", "square weights and items", lead=(2, 6), width=6, hidden=6, out=6),
        case("plain/small", "numbers of hundredths", size=0.03),
        *documented(),
        case("gelu/usual", "both signs", activation="gelu"),
        case("gelu/large", "numbers where Φ rounds to 0 or 1", activation="gelu", size=5.0),
        case("size/vector", "a single position", lead=()),
        case("size/heads", "three leading axes", lead=(2, 3, 2)),
        case("size/positions", "129 positions, one more than a tile of 128", lead=(129,)),
        case("size/hidden", "301 hidden numbers: sums of float16 and bfloat16 show", hidden=301),
        case("size/nothing", "no positions", lead=(2, 0)),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(
            ("width", "positions of width 6 with weights for 5", {"x": (2, 3, 6)}),
            ("hidden", "a hidden width of 9 and then 8", {"w2": (8, 4)}),
            ("first_bias", "a bias of 8 for a hidden width of 9", {"b1": (8,)}),
            ("second_bias", "a bias of 5 for an output width of 4", {"b2": (5,)}),
            ("one_bias", "a bias of 1, which would broadcast", {"b1": (1,)}),
            ("activation", "an activation that does not exist", {"activation": "swish"}),
        ),
    ]


def documented() -> Iterator[Case]:
    """The documents' examples: outputs, hidden numbers read through an identity, and shapes of unseeded draws."""
    for example in documents.examples_of("positionwise_ffn"):
        if example.kind == "shape":
            *lead, width = example.inputs["x_shape"]
            hidden, out = example.parameters["ffn_num_hiddens"], example.parameters["ffn_num_outputs"]
            ones = case(*example.named(), lead=tuple(lead), width=width, hidden=hidden, out=out, ones=True)
            yield DocumentedShape(ones, example.at(), example.output_shape)
            continue
        inputs = example.numbers(POSITIONAL)
        options = {} if example.parameters["activation"] == "relu" else {"activation": "gelu"}
        identity = {**inputs, "w2": np.eye(len(inputs["b1"])), "b2": np.zeros(len(inputs["b1"]))}
        for quantity, arrays in (("hidden", identity), ("output", inputs)):
            numeric = case.with_inputs(*example.named(quantity), arrays, **options)
            yield DocumentedNumbers(numeric, example.gives(quantity))


class Network(Steps):
    """The formula, step by step."""

    axes = Axes(x="… e", w1="e f", b1="f", w2="f v", b2="v")
    choices: ClassVar = {"activation": ("relu", "gelu")}

    def compute(self, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu") -> Tensor:
        dtype, wide = x.dtype, self.wide(x)
        x, w1, b1, w2, b2 = (tensor.to(wide) for tensor in (x, w1, b1, w2, b2))
        hidden = self.first(x, w1, b1)
        hidden = self.relu(hidden) if activation == "relu" else self.gelu(hidden)
        return self.second(hidden, w2, b2).to(dtype)

    first = formula(lambda x, w1, b1: x @ w1 + b1)
    relu = formula(torch.relu)
    gelu = formula(gelu)
    second = formula(lambda hidden, w2, b2: hidden @ w2 + b2)


CONTROLS = {"correct": Network()}
MUTANTS = all_mutants(
    Network,
    whole={
        "swapped_biases": Mutation("the biases are swapped where they have one width",
            with_arguments(b1=lambda b1, b2: b2 if b1.shape == b2.shape else b1,
            b2=lambda b2, b1: b1 if b1.shape == b2.shape else b2)),
        "broadcasts_bias": Mutation("a bias of one number is broadcast",
            with_arguments(b1=lambda b1, w1: b1.expand(w1.shape[1]) if b1.numel() == 1 else b1)),
        "accepts_any_activation": Mutation("an unknown activation is taken for GELU",
            with_arguments(activation=lambda activation: activation if activation == "relu" else "gelu")),
    },
    first={
        "no_first_bias": Mutation("the first bias is left out", lambda x, w1, b1: x @ w1),
        "transposed_first": Mutation("w1 is transposed where it is square", with_arguments(w1=turned)),
        "positions_of_first_item": Mutation("the first item serves all items",
            with_arguments(x=first_for_all(from_rank=3))),
        "repeats_position_beyond_128": Mutation("positions beyond the 128th get the result of the 128th",
            with_result(repeated_beyond(128, -2))),
    },
    relu={
        "linear": Mutation("there is no activation", torch.clone, "documents, E5"),
        "cut_at_six": Mutation("ReLU is cut off at 6", lambda x: x.clamp(0, 6)),
    },
    gelu={
        "tanh_gelu": Mutation("GELU is taken in its tanh form", lambda x: gelu(x, approximate="tanh"),
            "documents, E45", ("float32", "float64")),
        "gelu_without_root": Mutation("GELU is x(1 + erf(x))/2, without √2", lambda x: x * (1 + x.erf()) / 2),
        "quick_gelu": Mutation("GELU is taken as x·sigmoid(1.702 x)", lambda x: x * (1.702 * x).sigmoid()),
    },
    second={
        "no_second_bias": Mutation("the second bias is left out", lambda x, w2, b2: x @ w2),
        "rectified_output": Mutation("the output is rectified too", with_result(torch.relu)),
        "transposed_second": Mutation("w2 is transposed where it is square", with_arguments(w2=turned)),
        "drops_hidden_beyond_256": Mutation("hidden numbers beyond the 256th are left out",
            with_arguments(hidden=only_first(256, -1), w2=only_first(256, 0))),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """The formula in other orders, and in other precisions."""
    own_dtype = Network(wide=lambda x: x.dtype, first=linear, second=linear)
    return [
        Variant("linear", "torch's linear in the dtype itself, half types too", own_dtype),
        Variant("backwards", "einsum from the last feature to the first", Network(first=backwards, second=backwards)),
        Variant("float64_inside", "everything is computed in float64", Network(wide=lambda x: torch.float64)),
    ]
