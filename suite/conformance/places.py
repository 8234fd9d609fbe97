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
PLURALS = {"matrix": "matrices"}
ORDINALS = ("first", "second", "third", "fourth")

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
    counts = Counter(name for result in results for name in result)
    names = [name for name, count in counts.items() if 2 * count >= len(results)]
    judged = {name: [result[name] for result in results if name in result] for name in names}
    wrong = {name: [tensor for tensor in tensors if tensor[0].any()] for name, tensors in judged.items()}
    affected = [name for name in names if wrong[name]]
    if len(results) < MIN_RESULTS or not affected:
        return ""
    first = affected[0]
    tensors = wrong[first] if len(wrong[first]) == len(judged[first]) >= MIN_RESULTS else []
    parts = [part for axis in (-4, -3, -2, -1) if (part := _pattern([places for places, *_ in tensors], axis))]
    if parts:
        subject = f"only {' in '.join(reversed(parts))} of the {first} is wrong"
    elif first != "output" and len(affected) < len(names):
        subject = f"only {_joined(affected)} {'is' if len(affected) == 1 else 'are'} wrong"
        tensors = [tensor for name in affected for tensor in wrong[name]]
    else:
        subject = f"the {first} is wrong"
    value = _value(tensors) if tensors else ""
    if not value and subject.startswith("the"):
        return ""
    return f"{subject}{value and f', and {value}'}"


def _joined(names: Sequence[str]) -> str:
    """`the gradients of query and key`."""
    inputs = " and ".join(name.removeprefix("gradient of ") for name in names)
    return f"the gradient{'s' if len(names) > 1 else ''} of {inputs}"


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


def ordinal(number: int) -> str:
    """`first` to `fourth`, then `21st`, `22nd`, `23rd`, `24th`."""
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    suffixes = {1: "st", 2: "nd", 3: "rd"} if number % 100 not in (11, 12, 13) else {}
    return f"{number}{suffixes.get(number % 10, 'th')}"


def _pattern(arrays: Sequence[Array], axis: int) -> str:
    """What the wrong places along an axis have in common: `every second item`; empty without a pattern."""
    arrays = [array for array in arrays if array.ndim >= -axis and array.shape[axis] > 1]
    if len(arrays) < MIN_RESULTS:
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
        return f"the {ordinal(first + 1)} {noun}"
    whole = all([*places] == [*range(first, size)] for places, size in zip(wrong, sizes, strict=True))
    return f"each {noun} from the {ordinal(first + 1)} on" if whole and first else ""
