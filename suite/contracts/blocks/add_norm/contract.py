"""The contract `add_norm`: a residual connection and the normalisation after it.

    add_norm(x, y, weight, bias, *, norm="layer", eps=1e-5) -> output

    sum    = x + y
    output = (sum − mean) / √(variance + eps) · weight + bias

Axes: `… e` x, y and output, `e` weight and bias. Any rank from 2.

    layer            mean and variance over the features of each position (Ba, Kiros and Hinton, arXiv 1607.06450)
    batch            over all positions for each feature, as batch normalisation does in training (Ioffe and Szegedy,
                     arXiv 1502.03167); it needs two positions or more
    variance         biased: divided by the count
    eps              inside the root
    y                what the sublayer gives, after its dropout: dropping is not asked here
    rounding         sums may run in any order, in half types in float32; sum, mean, differences, variance, root,
                     quotient and product may each be rounded to the dtype, as may the bias less what the mean takes.
                     The variance is of differences: mean square less squared mean, which cancels, is another number
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           x's dtype and device
    bad input        raises: an unknown norm, x and y of different shapes, weight or bias of another width, batch
                     normalisation of one position
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("x", "y", "weight", "bias")

CONTRACT = declare(
    __name__,
    {"batch": "batch normalisation", "eps": "an explicit eps"},
    {"norm": ("batch",), "eps": ("eps",)},
    by_value=("norm",),
)
