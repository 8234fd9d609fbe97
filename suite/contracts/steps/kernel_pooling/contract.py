"""The contract `kernel_pooling`: the mean of the values, weighted by a kernel of how far their keys are.

    kernel_pooling(query, key, value, *, kernel="gaussian", width=1.0) -> output

    u_ij   = (query_i − key_j) / width
    output = Σ_j K(u_ij) value_j / Σ_j K(u_ij)

    gaussian       exp(−u²/2)
    boxcar         1 where |u| < 1, strictly, else 0
    constant       1
    triangular     max(0, 1 − |u|); a document calls it Epanechikov
    epanechikov    max(0, 1 − u²): its factor 3/4 cancels

Axes: `l` query, `s` key, `s v` value, `l v` output (l queries, s keys, v value width). Nadaraya and Watson, both 1964.

    no support       a query for which every kernel is zero gives exact zeros; so do no keys. What divides zero by zero
                     there declares {"empty_row": "nan"}, and NaN is due of such queries where there are keys
    edge             a key that is one width away is outside the box, wherever the division by the width is exact
    far away         a Gaussian is never zero: far from all keys its nearest decide, though every exponential underflows
    rounding         sums may run in any order, in half types in float32; the difference comes before the division by
                     the width, and kernels are divided by their sum before the mean or after it. Each step may be
                     rounded
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device
    bad input        raises: an unknown kernel, a width that is not above zero, ranks other than 1, 1 and 2, keys and
                     values of different lengths
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("query", "key", "value")
KERNELS = ("gaussian", "boxcar", "constant", "triangular", "epanechikov")

CONTRACT = declare(
    __name__,
    {**{kernel: f"the {kernel} kernel" for kernel in KERNELS[1:]}, "width": "a width other than 1"},
    {"kernel": KERNELS[1:], "width": ("width",)},
    by_value=("kernel",),
    conventions={"empty_row": ("zeros", "nan")},
)
