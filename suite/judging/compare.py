"""The only place where two tensors are compared: error divided by bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.judging.aggregate import AggregateLimits

Array = np.ndarray[Any, Any]

FEW_BOUNDS = 5.0
"""Bounds. A failure in few elements is marginal if its largest error is smaller than this. A mutant explains a failure
only if its own error is at least 10 bounds (`CLEARLY_WRONG`): a result that is less than half as wrong is not its."""
FEW_ELEMENTS, FEW_IN_A_HUNDRED = 4, 1.0
"""Elements, and per cent of all elements; the larger number counts as few. A bound that is too narrow for a correct
computation fails in single elements, where roundings add up by chance; a mistake changes whole rows."""


def numbers(tensor: Tensor) -> Array:
    """The tensor's elements in float64, which holds every value of the four dtypes exactly."""
    return tensor.detach().cpu().double().numpy()


def errors(actual: Array, expected: Array, bound: Array) -> Array:
    """|actual − expected| / bound: 0 where both are equal or NaN; infinite for other NaN and negative bounds."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        distance = np.asarray(np.abs(actual.astype(expected.dtype, copy=False) - expected), dtype=np.float64)
        ratio: Array = distance / bound
        known = ratio >= 0
        if known.all():
            return ratio
        equal = (actual == expected) | (np.isnan(actual) & np.isnan(expected.astype(np.float64, copy=False)))
    return np.where(equal, 0.0, np.where(known, ratio, np.inf))


def nearly_equal(first: Tensor, second: Tensor) -> bool:
    """Whether two results of one call in float32 are equal within 1e-3 of the number plus 1e-4."""
    if first.is_complex():
        return nearly_equal(first.real, second.real) and nearly_equal(first.imag, second.imag)
    expected = numbers(second)
    return error_ratio(numbers(first), expected, np.abs(expected) * 1e-3 + 1e-4) <= 1


def other_bits(actual: Tensor | None, expected: Tensor, name: str) -> str:
    """The first number whose bits differ, or the memory around the numbers; empty where both are equal."""
    if actual is None or _layout(actual) != _layout(expected):
        return f"{name} has another layout in memory than before the call"
    different = (_bits(actual) != _bits(expected)).nonzero()
    if len(different):
        place = tuple(different[0].tolist())
        numbers = (f"{float(tensor[place]):.7g}" for tensor in (actual, expected))
        says = f"{name}[{', '.join(map(str, place))}] is {', should be '.join(numbers)} after the call, in every bit"
        return f"{says} ({len(different)} of {actual.numel()} differ)"
    storages = (torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage()) for tensor in (actual, expected))
    return "" if torch.equal(*storages) else f"the memory around {name} was written"


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(getattr(torch, f"int{8 * tensor.element_size()}"))


def marginal(ratio: Array, accept: float = 1.0) -> bool:
    """Whether errors, in bounds, exceed `accept` by little and in few elements; False where none exceeds it."""
    beyond = int(np.count_nonzero(ratio > accept))
    few = max(FEW_ELEMENTS, FEW_IN_A_HUNDRED / 100 * ratio.size)
    return 0 < beyond <= few and float(ratio.max()) < FEW_BOUNDS


def error_ratio(actual: Array, expected: Array, bound: Array) -> float:
    """The largest error in units of the bound; 0 for empty arrays."""
    return float(errors(actual, expected, bound).max(initial=0.0))


def difference(
    actual: Array, expected: Array, bound: Array, *, name: str = "output", accept: float = 1.0
) -> str | None:
    """Where two arrays differ most; None if every error is within `accept` bounds. expected may exceed float64."""
    if actual.shape != expected.shape:
        return f"{name} has shape {tuple(actual.shape)}, should have {tuple(expected.shape)}"
    return complaint(errors(actual, expected, bound), actual, expected, bound, name, accept)


def complaint(ratio: Array, actual: Array, expected: Array, bound: Array, name: str, accept: float) -> str | None:
    """The same, for known errors in bounds."""
    if not (ratio > accept).any():
        return None
    worst, place = _worst(ratio, name)
    tolerance = float(np.broadcast_to(bound, expected.shape)[worst]) * accept
    count = f"{(ratio > accept).sum()} of {ratio.size} elements"
    return (
        f"{place} is {float(actual[worst]):.7g}, should be {float(expected[worst]):.7g} "
        f"within {tolerance:.1g} (error {ratio[worst] / accept:.2g} × the tolerance; {count})"
    )


def distances(actual: Array, expected: Array, allowed: Array) -> Array:
    """Position by position ‖actual − expected‖ / allowed, the norms taken over the last axis; NaN is infinite."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        lengths = np.sqrt(((actual.astype(expected.dtype) - expected) ** 2).sum(-1)).astype(np.float64)
        ratio = lengths / allowed
    return np.where(lengths == 0, 0.0, np.where(ratio >= 0, ratio, np.inf))


def distance(actual: Array, expected: Array, allowed: Array, *, name: str = "output") -> str | None:
    """The position that is farthest off; None if all distances are allowed. The arrays are … e, … e and …."""
    ratio = distances(actual, expected, allowed)
    if not (ratio > 1).any():
        return None
    worst, place = _worst(ratio, name)
    norm = float(np.linalg.norm(expected[worst].astype(np.float64)))
    off = float(np.linalg.norm((actual[worst].astype(expected.dtype) - expected[worst]).astype(np.float64)))
    return (
        f"{place} lies {off:.3g} from where it should be, a vector of norm {norm:.3g}; allowed is "
        f"{float(allowed[worst]):.1g} ({(ratio > 1).sum()} of {ratio.size} positions)"
    )


def together(actual: Array, expected: Array, limits: AggregateLimits, name: str = "output") -> tuple[str | None, float]:
    """How far the errors of all elements together exceed their limits, or None; and the largest part of a limit.

    A row with an infinity or NaN is skipped: there is no limit for its error.
    """
    with np.errstate(invalid="ignore"):
        difference = actual.astype(np.float64) - expected.astype(np.float64)
    off = difference.reshape(*limits.row_weights.shape, -1)[limits.part]
    row_weights = limits.row_weights[limits.part] * np.isfinite(off).all(-1)
    off = np.where(row_weights[..., None] > 0, off, 0.0).astype(np.float32)  # a few digits will do
    norm = float(np.sqrt((row_weights * (off.astype(np.float64) ** 2).sum(-1)).sum()))
    says, largest = None, norm / limits.norm if norm else 0.0
    if largest > 1:
        says = f"{name} as a whole lies {norm:.3g} from where it should be, {limits.norm:.3g} allowed"
    for direction in limits.directions:
        sums, reach = direction.sums(off), limits.reach(direction)
        ratio = errors(sums, np.zeros_like(sums), reach)
        worst = np.unravel_index(int(ratio.argmax()), ratio.shape)
        if ratio[worst] > max(largest, 1.0):
            says = (
                f"{name} as a whole is off by {abs(float(sums[worst])):.3g} in the direction of "
                f"{direction.says.format(worst[-1])}, {float(reach[worst]):.3g} allowed"
            )
        largest = max(largest, float(ratio[worst]))
    return says, largest


def _worst(ratio: Array, name: str) -> tuple[tuple[Any, ...], str]:
    """The place of the largest error, and its name."""
    place = np.unravel_index(int(ratio.argmax()), ratio.shape)
    return place, f"{name}[{', '.join(map(str, place))}]" if place else name
