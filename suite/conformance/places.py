"""Which elements of wrong results are wrong: the same items, heads, rows or columns in each, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attnsuite.judging.compare import Array

AXES = ("item", "head", "row", "column")
"""The axes of a result of rank 4. One of rank 3 has matrices in place of items and heads."""
MIN_RESULTS = 2
"""Results that a sentence needs: a single one shows many patterns."""
PLURALS = {"matrix": "matrices"}
ORDINALS = {0: "first", 1: "second", 2: "third"}

Wrong = Mapping[str, tuple[Array, Array]]
"""The wrong tensors of a result by name: where they are wrong, and their numbers."""


def wrong_places(results: Sequence[Wrong]) -> str:
    """`only every second item of the output is wrong, and 0`; empty where no axis shows the same pattern in all."""
    names = [name for name in (results[0] if results else ()) if all(name in result for result in results)]
    if len(results) < MIN_RESULTS or not names:
        return ""
    name = names[0]
    pairs = [result[name] for result in results]
    parts = [part for axis in (-4, -3, -2, -1) if (part := _pattern([wrong for wrong, _ in pairs], axis))]
    if not parts:
        return ""
    numbers = np.concatenate([actual[wrong].ravel() for wrong, actual in pairs])
    value = "0" if not numbers.any() else "NaN" if np.isnan(numbers).all() else ""
    return f"only {' in '.join(reversed(parts))} of the {name} is wrong{value and f', and {value}'}"


def _pattern(arrays: Sequence[Array], axis: int) -> str:
    """What the wrong places along an axis have in common: `every second item`; empty without a pattern."""
    if any(array.ndim < -axis or array.shape[axis] < 2 for array in arrays):
        return ""
    wrong = [
        np.flatnonzero(array.any(tuple(a for a in range(array.ndim) if a != array.ndim + axis))) for array in arrays
    ]
    sizes = [array.shape[axis] for array in arrays]
    noun = AXES[axis] if all(array.ndim == 4 for array in arrays) or axis > -3 else "matrix"
    if any(len(places) == size for places, size in zip(wrong, sizes, strict=True)):
        return ""
    if all([*places] == [size - 1] for places, size in zip(wrong, sizes, strict=True)):
        return f"the second of two {PLURALS.get(noun, f'{noun}s')}" if {*sizes} == {2} else f"the last {noun}"
    if all([*places] == [*range(1, size, 2)] for places, size in zip(wrong, sizes, strict=True)):
        return f"every second {noun}"
    firsts = {int(places[0]) for places in wrong}
    if len(firsts) > 1:
        return ""
    (first,) = firsts
    if all([*places] == [first] for places in wrong):
        return f"the {ORDINALS.get(first, f'{first + 1}th')} {noun}"
    whole = all([*places] == [*range(first, size)] for places, size in zip(wrong, sizes, strict=True))
    return f"each {noun} from the {ORDINALS.get(first, f'{first + 1}th')} on" if whole and first else ""
