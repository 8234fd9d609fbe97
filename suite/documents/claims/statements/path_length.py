"""How far apart, in layers or steps, an output is from the inputs that it depends on: by the sparsity of Jacobians."""

from __future__ import annotations

from functools import partial

import torch

from attnsuite.documents.claims.claim import Claim, Measured, exactly, number, power
from attnsuite.documents.claims.counting import layers_until, longest_chain
from attnsuite.documents.claims.layers import LAYERS, Sizes, inputs, recurrence
from attnsuite.model import Evidence
from attnsuite.model.statistics import exponent

LENGTHS = (9, 17, 33, 65)
KERNELS = (3, 5, 9, 17)
"""Kernels that reach 1, 2, 4 and 8 neighbours to either side."""
LONG = 65


def layers(layer: str, of: Sizes) -> int:
    """How many layers it takes until every output depends on every input."""
    x = inputs(of, torch.float64)
    return layers_until(lambda sees: bool(sees.all()), LAYERS[layer](of, torch.float64), x, most=of.length)


def by_length(layer: str) -> Measured:
    """The power of n in the number of layers."""
    found = [layers(layer, Sizes(length, width=2)) for length in LENGTHS]
    return _power(LENGTHS, found, f"{', '.join(map(str, found))} layers at n = {', '.join(map(str, LENGTHS))}")


def by_kernel() -> Measured:
    """The power of k in the number of layers."""
    found = [layers("convolution", Sizes(LONG, width=2, kernel=kernel)) for kernel in KERNELS]
    return _power(
        KERNELS, found, f"{', '.join(map(str, found))} layers at k = {', '.join(map(str, KERNELS))}, n = {LONG}"
    )


def of_recurrence() -> Measured:
    """The power of n in the products between the first input and the last output of one recurrent layer."""
    found = []
    for length in LENGTHS:
        of = Sizes(length, width=2)
        rows = [row.clone().requires_grad_() for row in inputs(of)]
        last = recurrence(of)(torch.stack(rows))[-1]
        found.append(longest_chain(last, rows[0]))
    return _power(LENGTHS, found, f"{', '.join(map(str, found))} products at n = {', '.join(map(str, LENGTHS))}")


def until_the_ends_meet() -> Measured:
    """How many convolutions of kernel 3 it takes until some position depends on both the first and the fifth input."""
    of = Sizes(length=5, width=2)
    layer, x = LAYERS["convolution"](of, torch.float64), inputs(of, torch.float64)
    return number(layers_until(lambda sees: bool((sees[:, 0] & sees[:, 4]).any()), layer, x, most=5))


def _power(sizes: tuple[int, ...], found: list[int], detail: str) -> Measured:
    value = exponent(sizes, found)
    assert value is not None
    return number(value, detail)


CLAIMS = (
    Claim("path_length/convolution_length", "doc-004", "11.6.2", "the longest path of a convolution is O(n/k)",
          "power of n in the layers until all outputs depend on all inputs", power(1), Evidence.EXACT,
          partial(by_length, "convolution")),
    Claim("path_length/convolution_kernel", "doc-004", "11.6.2", "the longest path of a convolution is O(n/k)",
          "power of k in the layers until all outputs depend on all inputs", power(-1), Evidence.EXACT, by_kernel),
    Claim("path_length/recurrence_length", "doc-004", "11.6.2", "the longest path of a recurrent layer is O(n)",
          "power of n in the products between the first input and the last output", power(1), Evidence.EXACT,
          of_recurrence),
    Claim("path_length/self_attention_length", "doc-004", "11.6.2", "the longest path of self-attention is O(1)",
          "power of n in the layers until all outputs depend on all inputs", power(0), Evidence.EXACT,
          partial(by_length, "self_attention")),
    Claim("path_length/two_convolutions", "doc-004", "11.6.2", "two convolutions of kernel 3 connect x1 and x5",
          "layers until a position depends on both", exactly(2), Evidence.EXACT, until_the_ends_meet),
)  # fmt: skip
