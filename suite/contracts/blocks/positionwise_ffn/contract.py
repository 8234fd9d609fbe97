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

from attnsuite.cases import declare

POSITIONAL = ("x", "w1", "b1", "w2", "b2")

CONTRACT = declare(__package__, {"gelu": "the exact GELU"}, {"activation": ("gelu",)})
