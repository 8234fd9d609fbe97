"""Which elements of wrong results are wrong: the same items, heads, rows or columns in each, in a sentence."""

from __future__ import annotations

from collections import Counter
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

    `only every second item of the output is wrong, and 0`; `only the gradient of key is wrong, and 2 × the expected`;
    `only gradients are wrong: that of key in 9 of 9, that of query in 2 of 9`
    """
    wrong = [{name: judged for name, judged in result.items() if judged[0].any()} for result in results]
    counts = Counter(name for tensors in wrong for name in tensors)
    if len(results) < MIN_RESULTS or 0 < counts["output"] < len(results):
        return ""
    name, *others = ["output"] if counts["output"] else [name for name, _ in counts.most_common()]
    first = [tensors[name] for tensors in wrong if name in tensors]
    where = " in ".join(filter(None, (_pattern([places for places, *_ in first], axis) for axis in (-1, -2, -3, -4))))
    differ = any({*tensors} != {*counts} & {*result} for tensors, result in zip(wrong, results, strict=True))
    if name == "output" or (where and not differ):
        value = _value(first)
        subject = f"only {where} of the {name} is wrong" if where else f"the {name} is wrong" if value else ""
        return f"{subject}{value and f', and {value}'}"
    if differ:
        value = _value(first) if len(first) >= MIN_RESULTS else ""
        says = [f"that of {input_of(other)} in {counts[other]} of {len(results)}" for other in (name, *others)]
        says[0] += value and f" ({value})"
        return f"only gradients are wrong: {', '.join(says)}"
    value = _value([judged for tensors in wrong for judged in tensors.values()])
    *before, last = map(input_of, counts)
    inputs = f"{', '.join(before)} and {last}" if before else last
    gradients = f"gradient{'s' * bool(before)} of {inputs} {'are' if before else 'is'}"
    return f"only the {gradients} wrong{value and f', and {value}'}"


def are_gradients(results: Sequence[Wrong]) -> bool:
    """Whether gradients are wrong, and no output."""
    return bool(results) and not any(result["output"][0].any() for result in results)


def input_of(gradient: str) -> str:
    """The input that a gradient is of."""
    return gradient.removeprefix("gradient of ")


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
