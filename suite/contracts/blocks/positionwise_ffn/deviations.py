"""Feed-forward networks with exactly one named mistake each."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from attnsuite.cases.computations import Axes, Steps, usual_mutants
from attnsuite.cases.mutants import (
    Wrong,
    first_for_all,
    formula,
    given,
    mutants,
    only_first,
    repeated_beyond,
    rows,
    then,
    turned,
)


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
    relu = formula(lambda hidden: hidden.relu())
    gelu = formula(gelu)
    second = formula(lambda hidden, w2, b2: hidden @ w2 + b2)


CONTROLS = {"correct": Network()}
OTHERS = usual_mutants(Network)
MISTAKES = mutants(
    Network,
    whole=rows(
        swapped_biases=Wrong(
            "the biases are swapped where they have one width",
            given(
                b1=lambda b1, b2: b2 if b1.shape == b2.shape else b1,
                b2=lambda b2, b1: b1 if b1.shape == b2.shape else b2,
            ),
        ),
        swapped_maps=Wrong(
            "the weights are swapped where they have one shape",
            given(
                w1=lambda w1, w2: w2 if w1.shape == w2.shape else w1,
                w2=lambda w2, w1: w1 if w1.shape == w2.shape else w2,
            ),
        ),
        tied_maps=Wrong(
            "the second weights are the first, transposed, where their shapes allow it",
            given(w2=lambda w2, w1: w1.mT if w1.mT.shape == w2.shape else w2),
        ),
        broadcasts_bias=Wrong(
            "a bias of one number is broadcast",
            given(b1=lambda b1, w1: b1.expand(w1.shape[1]) if b1.numel() == 1 else b1),
        ),
        accepts_any_activation=Wrong(
            "an unknown activation is taken for GELU",
            given(activation=lambda activation: activation if activation == "relu" else "gelu"),
        ),
    ),
    first=rows(
        swapped_positions_and_features=Wrong(
            "positions and features of x are swapped where there are as many", given(x=turned)
        ),
        no_first_bias=Wrong("the first bias is left out", lambda x, w1, b1: x @ w1),
        double_first_bias=Wrong("the first bias is added twice", given(b1=lambda b1: 2 * b1)),
        transposed_first=Wrong("the first weights are transposed where they are square", given(w1=turned)),
        positions_of_first_item=Wrong(
            "the positions of the first item serve all items", given(x=first_for_all(from_rank=3))
        ),
        repeats_position_beyond_128=Wrong(
            "positions beyond the 128th are answered like the 128th", then(repeated_beyond(128, -2))
        ),
    ),
    relu=rows(
        gelu_for_relu=Wrong("GELU is taken for ReLU", gelu),
        linear=Wrong("there is no activation", torch.clone, "documents, E5"),
        leaky=Wrong("ReLU leaks a hundredth of what is negative", lambda x: torch.where(x > 0, x, x / 100)),
        cut_at_six=Wrong("ReLU is cut off at 6", lambda x: x.clamp(0, 6)),
    ),
    gelu=rows(
        tanh_gelu=Wrong(
            "GELU is taken in its tanh form",
            lambda x: gelu(x, approximate="tanh"),
            "documents, E45",
            ("float32", "float64"),
        ),
        gelu_without_root=Wrong("GELU is x(1 + erf(x))/2: x is not divided by √2", lambda x: x * (1 + x.erf()) / 2),
        quick_gelu=Wrong("GELU is taken as x·sigmoid(1.702 x)", lambda x: x * (1.702 * x).sigmoid()),
        silu_for_gelu=Wrong("SiLU is taken for GELU", silu),
        relu_for_gelu=Wrong("ReLU is taken for GELU", torch.relu),
    ),
    second=rows(
        no_second_bias=Wrong("the second bias is left out", lambda x, w2, b2: x @ w2),
        rectified_output=Wrong("the output is rectified too", then(torch.relu)),
        transposed_second=Wrong("the second weights are transposed where they are square", given(w2=turned)),
        drops_hidden_beyond_256=Wrong(
            "hidden numbers beyond the 256th are left out", given(hidden=only_first(256, -1), w2=only_first(256, 0))
        ),
    ),
)
