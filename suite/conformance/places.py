"""Which elements of wrong results are wrong: the same items, heads, rows or columns in each, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attnsuite.judging import compare
from attnsuite.judging.compare import Array

AXES = ("item", "head", "row", "column")
"""The axes of a result of rank 4. One of rank 3 has matrices in place of items and heads."""
MIN_RESULTS = 2
"""Results that a sentence needs: a single one shows many patterns."""
RATIO = 1e-3
"""The relative difference up to which numbers count as a multiple of the expected ones, beyond float32's roundings."""

Judged = tuple[Array, Array, Array]
"""Of a tensor: where it is wrong, its numbers, and the expected ones."""
Wrong = Mapping[str, Judged]
"""The judged tensors of a wrong result by name; some may be right."""


def wrong_places(results: Sequence[Wrong]) -> str:
    """Which tensors and elements are wrong in all results, and how; empty where nothing is the same in all.

    `only every second item of the output is wrong, and 0`; `only the gradient of key is wrong, and 2 × the expected`
    """
    wrong = [{name: judged for name, judged in result.items() if judged[0].any()} for result in results]
    names = list(dict.fromkeys(name for tensors in wrong for name in tensors))
    differ = any({*tensors} != {*names} & {*result} for tensors, result in zip(wrong, results, strict=True))
    if len(results) < MIN_RESULTS or (differ and not all("output" in tensors for tensors in wrong)):
        return ""
    first = [tensors[names[0]] for tensors in wrong if names[0] in tensors]
    where = " in ".join(filter(None, (_pattern([places for places, *_ in first], axis) for axis in (-1, -2, -3, -4))))
    gradients_alone = names[0] != "output" and any(len(result) > len(names) for result in results)
    value = _value([judged for test in wrong for judged in test.values()] if gradients_alone and not where else first)
    if where:
        subject = f"only {where} of the {names[0]} is wrong"
    elif gradients_alone:
        inputs = " and ".join(name.removeprefix("gradient of ") for name in names)
        subject = f"only the gradient{'s' * (len(names) > 1)} of {inputs} {'are' if len(names) > 1 else 'is'} wrong"
    else:
        subject = f"the {names[0]} is wrong" if value else ""
    return f"{subject}{value and f', and {value}'}"


def _value(tensors: Sequence[Judged]) -> str:
    """What wrong numbers have in common: `0`, `NaN`, a multiple of the expected ones; or empty."""
    actual = [numbers[places].astype(np.float64) for places, numbers, _ in tensors]
    expected = [np.asarray(numbers[places], dtype=np.float64) for places, _, numbers in tensors]
    everything = np.concatenate(actual)
    if np.isnan(everything).all():
        return "NaN"
    if not everything.any():
        return "0"
    ratios = [_ratio(*pair) for pair in zip(actual, expected, strict=True)]
    if None in ratios:
        return ""
    low, high = min(filter(None, ratios)), max(filter(None, ratios))
    if high - low > RATIO * abs(high):
        return "a multiple of the expected, by a factor that varies from test to test"
    return "the expected with the other sign" if abs(low + 1) < RATIO else f"{low:.3g} × the expected"


def _ratio(actual: Array, expected: Array) -> float | None:
    """The factor between two arrays; None where it is not the same everywhere, or about 1."""
    if len(actual) < MIN_RESULTS or not expected.any() or not np.isfinite(actual).all():
        return None
    ratio = float(actual @ expected / (expected @ expected))
    multiple = ratio * expected
    errors = compare.errors(actual, multiple, RATIO * abs(multiple) + RATIO * RATIO * float(abs(expected).max()))
    return ratio if (errors <= 1).all() and abs(ratio - 1) > RATIO and ratio else None


def _pattern(arrays: Sequence[Array], axis: int) -> str:
    """What the wrong places along an axis have in common: `every second item`; empty without one pattern alone."""
    arrays = [array for array in arrays if array.ndim >= -axis and array.shape[axis] > 1]
    if len(arrays) < MIN_RESULTS:
        return ""
    wrong = [[*np.flatnonzero(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1).any(1))] for array in arrays]
    sizes = [array.shape[axis] for array in arrays]
    noun = AXES[axis] if all(array.ndim == 4 for array in arrays) or axis > -3 else "matrix"
    first = wrong[0][0]
    patterns = {
        f"the second {noun} (of two)": [[1] if size == 2 else [] for size in sizes],
        f"the last {noun}": [[size - 1] for size in sizes],
        f"every second {noun}": [[*range(1, size, 2)] for size in sizes],
        f"{noun} number {first + 1}": [[first] for _ in sizes],
        f"each {noun} from number {first + 1} on": [[*range(first, size)] for size in sizes],
    }
    if any(len(places) == size for places, size in zip(wrong, sizes, strict=True)):
        return ""
    matching = [words for words, places in patterns.items() if places == wrong]
    return matching[0] if len(matching) == 1 or ({*sizes} == {2} and matching) else ""
