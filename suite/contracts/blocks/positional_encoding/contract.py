"""The contract `positional_encoding`: sines and cosines of its position, added to each vector.

    positional_encoding(x, *, offset=0, base=10000.0) -> output

    output[b, i, 2j]     = x[b, i, 2j]     + sin((i + offset) / base^(2j/e))
    output[b, i, 2j + 1] = x[b, i, 2j + 1] + cos((i + offset) / base^(2j/e))

Axes: `b l e` x and output (b batch, l positions, e width). Vaswani and others, "Attention is all you need" (arXiv
1706.03762), section 3.5.

    offset           the position of the first vector: a decoder that gets one token at a time counts on
    width            odd widths end with a sine
    positions        as many as are asked for: there is no table to run out of
    scaling          x is added as it is: multiplying an embedding by √e is the model's
    angles           are computed in float64 for float64, else in float32 at least. What rounding exponent, power and
                     product costs there is allowed: it grows with the position, and with the logarithm of the base
    rounding         the encoding may be rounded to the dtype before it is added
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           x's dtype and device
    bad input        raises: an x that is not of rank 3, a negative offset, a base that is not above zero
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("x",)

CONTRACT = declare(
    __name__,
    {"offset": "a first position other than 0", "base": "a base other than 10,000"},
    {"offset": ("offset",), "base": ("base",)},
)
