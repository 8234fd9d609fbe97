"""Which elements of wrong results are wrong: the same items, heads, rows or columns in each, in a sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attnsuite.cases.expected import WrongElements
from attnsuite.judging import compare
from attnsuite.judging.compare import Array
from attnsuite.judging.precision import PRECISIONS

AXES = ("item", "head", "row", "column")
"""The axes of a result of rank 4. One of rank 3 has matrices in place of items and heads."""
NOUNS = {noun: f"{noun}s" for noun in AXES} | {"matrix": "matrices"}
MIN_RESULTS = 2
"""Results that a sentence needs: a single one shows many patterns."""
FEW = 4
"""Results whose wrong places must begin at one number, where not all behind it are wrong: fewer may by chance."""
RATIO = 1e-3
"""The relative difference up to which numbers count as a multiple of the expected ones, beyond float32's roundings."""
ROWS = "each row a multiple of the expected, by its own factor"
ROUNDED = "float16", "bfloat16"
"""The dtypes whose roundings wrong numbers of a more precise one may show. Those of TensorFloat-32 are float16's."""

SAME = 5e-3
"""The relative difference of factors that are printed alike: half types round small tensors so much."""
GRADIENT = "gradient of "

Wrong = Mapping[str, WrongElements]
"""The judged tensors of a wrong result by name; some may be right."""


def wrong_places(results: Sequence[Wrong]) -> str:
    """Which tensors and elements are wrong in all results, and how; empty where nothing is the same in all.

    `only every second item of the output is wrong, and 0`; `only the gradient of key is wrong, and 2 × the expected`;
    `only gradients are wrong: that of key in 9 of 9, that of query in 2 of 9`
    """
    with_output = [result for result in results if result["output"].places.any()]
    if 2 * len(with_output) >= len(results):  # a gradient or a second output that is wrong alone says nothing of it
        results = with_output
    wrong = [{name: judged for name, judged in result.items() if judged.places.any()} for result in results]
    counts = Counter(name for tensors in wrong for name in tensors)
    if len(wrong) < MIN_RESULTS or 0 < counts["output"] < len(wrong):
        return ""
    name, *others = ["output"] if counts["output"] else [name for name, _ in counts.most_common()]
    first = [tensors[name] for tensors in wrong if name in tensors]
    if name != "output" and not all(map(_is_gradient, counts)):  # a second output, whose axes are others
        value = _value(first)
        return "" if others else f"only the {name} is wrong{value and f', and {value}'}"
    where = " in ".join(filter(None, (_pattern([places for places, *_ in first], axis) for axis in (-1, -2, -3, -4))))
    differ = any({*tensors} != {*counts} & {*result} for tensors, result in zip(wrong, results, strict=True))
    if name == "output" or (where and not differ):
        value = _value(first)
        verb = "are" if where.removeprefix("some ").startswith((*NOUNS.values(),)) else "is"
        subject = f"only {where} of the {name} {verb} wrong" if where else f"the {name} is wrong" if value else ""
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
    wrong = {name for result in results for name, (places, *_) in result.items() if places.any()}
    return bool(wrong) and all(map(_is_gradient, wrong))


def input_of(gradient: str) -> str:
    """The input that a gradient is of."""
    return gradient.removeprefix(GRADIENT)


def _is_gradient(name: str) -> bool:
    return name.startswith(GRADIENT)


@np.errstate(all="ignore")
def _value(tensors: Sequence[WrongElements]) -> str:
    """What wrong numbers have in common: `0`, `NaN`, a multiple of the expected ones; or empty."""
    everything = np.concatenate([tensor.actual[tensor.places] for tensor in tensors]).astype(np.float64)
    if np.isnan(everything).all():
        return "NaN"
    if everything[0] in (0, math.inf, -math.inf) and (everything == everything[0]).all():
        return f"{everything[0]:g}"
    ratios = [_ratio(tensor) for tensor in tensors]
    if None in ratios:
        wide = any(tensor.expected.shape[-1] >= MIN_RESULTS for tensor in tensors)
        return _rounded(tensors) or (ROWS if wide and all(map(_has_multiples, tensors)) else "")
    low, high = min(filter(None, ratios)), max(filter(None, ratios))
    if high - low > SAME * abs(high):
        return "a multiple of the expected, by a factor that varies from test to test"
    return "the expected with the other sign" if abs(low + 1) < SAME else f"{low:.3g} × the expected"


def _ratio(tensor: WrongElements) -> float | None:
    """The factor of all wrong numbers; None where it is not the same everywhere, or about 1."""
    actual, expected, tolerance = _in_float64(tensor, tensor.places)
    if len(actual) < MIN_RESULTS or not expected.any() or not np.isfinite(actual).all():
        return None
    ratio = float(actual @ expected / (expected @ expected))
    slack = RATIO * abs(ratio * expected) + RATIO * RATIO * float(abs(expected).max()) + abs(ratio) * tolerance
    errors = compare.errors(actual, ratio * expected, slack)
    return ratio if (errors <= 1).all() and abs(ratio - 1) > RATIO and ratio else None


def _rounded(tensors: Sequence[WrongElements]) -> str:
    """The dtype whose roundings are as large as the errors, relative to the largest number of a tensor; or empty."""
    errors = []
    for tensor in tensors:
        actual, expected, _ = _in_float64(tensor, tensor.places)
        size = abs(tensor.expected.astype(np.float64)).max()
        errors.append(abs(actual - expected).max() / size if size else math.inf)
    for dtype in ROUNDED:
        unit = PRECISIONS[dtype].unit
        if max(errors) <= 2 * unit and np.median(errors) > unit / 8:
            return f"by no more than roundings to {dtype}"
    return ""


def _has_multiples(tensor: WrongElements) -> bool:
    """Whether each wrong row is a multiple of the expected one, as any row of a single column is."""
    actual, expected, tolerance = _in_float64(tensor, np.asarray(tensor.places.any(-1)))
    size = (expected**2).sum(-1, keepdims=True)
    if not size.all() or not np.isfinite(actual).all():
        return False
    multiple = (actual * expected).sum(-1, keepdims=True) / size * expected
    return bool((abs(actual - multiple) <= RATIO * abs(multiple).max(-1, keepdims=True) + tolerance).all())


def _in_float64(tensor: WrongElements, places: Array) -> Iterator[Array]:
    """The numbers at some places, the expected ones, and the tolerance."""
    return (np.asarray(array[places], dtype=np.float64) for array in (tensor.actual, tensor.expected, tensor.tolerance))


def _pattern(arrays: Sequence[Array], axis: int) -> str:
    """What the wrong places along an axis have in common: `every second item`; empty without one pattern alone."""
    arrays = [array for array in arrays if array.ndim >= -axis and array.shape[axis] > 1]
    if len(arrays) < MIN_RESULTS:
        return ""
    wrong = [[*np.flatnonzero(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1).any(1))] for array in arrays]
    sizes = [array.shape[axis] for array in arrays]
    mostly_of_rank_4 = 2 * sum(array.ndim == 4 for array in arrays) > len(arrays)
    noun = AXES[axis] if mostly_of_rank_4 or axis > -3 else "matrix"
    first = min(places[0] for places in wrong)
    patterns = {
        f"the second {noun} (of two)": [[1] if size == 2 else [] for size in sizes],
        f"the last {noun}": [[size - 1] for size in sizes],
        f"every second {noun}": [[*range(1, size, 2)] for size in sizes],
        f"{noun} number {first + 1}": [[first] for _ in sizes],
    }
    if any(len(places) == size for places, size in zip(wrong, sizes, strict=True)):
        return ""
    matching = [words for words, places in patterns.items() if places == wrong]
    if not matching and first:
        all_behind = wrong == [[*range(first, size)] for size in sizes]
        begin = sum(places[0] == first for places in wrong) >= max(FEW, len(wrong) / 2)
        some = "" if all_behind else "some "
        return f"{some}{NOUNS[noun]} from number {first + 1} on" if all_behind or begin else ""
    return matching[0] if len(matching) == 1 or ({*sizes} == {2} and matching) else ""
