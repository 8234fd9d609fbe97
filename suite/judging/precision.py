"""Precision of the dtypes, and the wider arithmetic of the oracle."""

from dataclasses import dataclass

import mpmath
import numpy as np

from attnsuite.judging.compare import Array


@dataclass(frozen=True)
class Precision:
    """The properties of a dtype that error analysis needs."""

    unit: float
    """Unit roundoff of the dtype."""
    accumulator: float
    """Unit roundoff of sums: that of float32 for 16-bit dtypes (float16 and bfloat16)."""
    tiny: float
    """The cost of an underflow: the smallest normal number, because subnormal ones may be flushed to zero; for float16,
    which is computed in float32, the smallest subnormal."""
    half: bool
    large: float
    """A large number of the dtype; a sum of a few does not overflow."""
    normal: float
    """The smallest normal number."""


PRECISIONS = {
    "float64": Precision(2.0**-53, 2.0**-53, 2.0**-1022, half=False, large=1e150, normal=2.0**-1022),
    "float32": Precision(2.0**-24, 2.0**-24, 2.0**-126, half=False, large=1e37, normal=2.0**-126),
    "float16": Precision(2.0**-11, 2.0**-24, 2.0**-24, half=True, large=6e4, normal=2.0**-14),
    "bfloat16": Precision(2.0**-8, 2.0**-24, 2.0**-126, half=True, large=1e37, normal=2.0**-126),
}

QUADRUPLE = mpmath.MPContext()
"""Arithmetic for object arrays, as precise as IEEE binary128. mpmath's own default is no wider than float64."""
QUADRUPLE.prec = 113


@dataclass(frozen=True)
class Bounded:
    """A value and the error bound of a correct computation, element by element."""

    value: Array
    bound: Array


def widest(dtype: str) -> type:
    """The arithmetic of the oracle: for float64 longdouble where that is wider, else mpmath objects."""
    if dtype != "float64":
        return np.float64
    return np.longdouble if np.finfo(np.longdouble).nmant > 52 else np.object_


def widened(array: Array, arithmetic: type) -> Array:
    """The same elements in the judging arithmetic."""
    if arithmetic is np.object_:
        return np.vectorize(QUADRUPLE.mpf, otypes=[object])(array) if array.size else array.astype(object)
    return array.astype(arithmetic)


def product(first: Array, second: Array) -> Array:
    """`first @ second` in the judging arithmetic.

    A sum of n terms is off by n · Σ|a||b| unit roundoffs of that arithmetic at most (Higham, section 3.1).
    """
    # numpy's own loop in extended precision fetches every term from far apart: einsum takes a third of its time
    if first.dtype != np.longdouble or second.dtype != np.longdouble or first.shape[-2] == 1:
        return np.asarray(first @ second)
    terms = np.ascontiguousarray(second.swapaxes(-1, -2))
    return np.asarray(np.einsum("...ij,...kj->...ik", np.ascontiguousarray(first), terms))
