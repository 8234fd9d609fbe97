"""The slow, obvious answer: every n-gram is counted in a table, and the score is computed in both honest ways."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.rounded import LIBRARY, Rounded, whichever

Array = np.ndarray[Any, Any]


def bleu(prediction: Array, reference: Array, *, k: int) -> Rounded:
    """The score: a product of powers, or the exponential of a sum of logarithms; the bound is the wider of the two."""
    orders = range(1, min(k, len(prediction)) + 1)
    matches = [_matches(prediction, reference, n) for n in orders]
    if not all(matches) or not orders:
        return _exact(0.0)
    precisions = [_exact(found) / _exact(len(prediction) - n + 1) for n, found in zip(orders, matches, strict=True)]
    brevity = _brevity(len(prediction), len(reference))
    powers = [_root(each, n) for n, each in zip(orders, precisions, strict=True)]
    logs = [each.log() * 0.5**n for n, each in zip(orders, precisions, strict=True)]
    return whichever(reduce(mul, powers, brevity.exp()), reduce(add, logs, brevity).exp())


def _matches(prediction: Array, reference: Array, n: int) -> int:
    return (_grams(prediction, n) & _grams(reference, n)).total()


def _grams(tokens: Array, n: int) -> Counter[tuple[int, ...]]:
    """How often each n-gram stands there."""
    return Counter(tuple(map(int, tokens[start : start + n])) for start in range(len(tokens) - n + 1))


def _brevity(length: int, due: int) -> Rounded:
    """min(0, 1 − r/p)."""
    return _exact(0.0) if length >= due else _exact(1.0) - _exact(due) / _exact(length)


def _root(of: Rounded, n: int) -> Rounded:
    """of^(1/2^n): n square roots, or one power, which a library may be off by more in."""
    for _ in range(n):
        of = of.sqrt()
    return of.rounded(LIBRARY - 1)


def _exact(number: float) -> Rounded:
    return Rounded.exact(np.array(float(number)), PRECISIONS["float32"])
