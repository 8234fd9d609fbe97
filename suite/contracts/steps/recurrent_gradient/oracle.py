"""The slow, obvious answer: sums of powers of w_hh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from attnsuite.judging.precision import widened
from attnsuite.judging.rounded import Rounded, concatenated, whichever

Array = np.ndarray[Any, Any]


def recurrent_gradient(
    x: Rounded,
    y: Rounded,
    h0: Rounded,
    w_hx: Rounded,
    w_hh: Rounded,
    w_qh: Rounded,
    *,
    of: str = "d_w_hh",
    truncate: int | None = None,
    keep: float | None = None,
    factors: Sequence[float] = (),
) -> Rounded:
    """One quantity. Of a randomised gradient, `factors` says which ξ were drawn, from the second step on."""
    length = x.shape[0]
    start = h0[:, None]  # h 1; all that follows has a column for each step
    given = w_hx @ x.T
    given = concatenated([given[:, :1] + w_hh @ start, given[:, 1:]])
    summed = _accumulated(given[:, ::-1], w_hh, length)[:, ::-1]
    hidden = whichever(summed, _step_by_step(x, h0, concatenated([w_hx, w_hh])))
    output = w_qh @ hidden
    error = output - y.T
    d_output = error * (1 / length)
    if of == "loss":
        return ((error * error).sum().sum(keepdims=True) * 0.5 * (1 / length))[0]
    if of == "d_w_qh":
        return d_output @ hidden.T
    if of in ("hidden", "output", "d_output"):
        return {"hidden": hidden, "output": output, "d_output": d_output}[of].T
    drawn = _drawn(factors, x) if factors else None
    d_hidden = _accumulated(w_qh.T @ d_output, w_hh.T, min(truncate or length, length), drawn)
    if of == "d_hidden":
        return d_hidden.T
    return d_hidden @ (x if of == "d_w_hx" else concatenated([start, hidden[:, :-1]]).T)


def _step_by_step(x: Rounded, h0: Rounded, weights: Rounded) -> Rounded:
    """The hidden states, h t, where each step is one product of both matrices side by side with input and state."""
    state, states = h0[:, None], []  # h 1
    for number in range(x.shape[0]):
        state = weights @ concatenated([x[number][:, None], state], 0)
        states.append(state)
    return concatenated(states)


def outcomes(length: int, keep: float) -> Iterator[tuple[float, tuple[float, ...]]]:
    """The probability of each draw of ξ from the second step on, and the draw."""
    for kept in product((False, True), repeat=length - 1):
        probability = float(np.prod([keep if flag else 1 - keep for flag in kept]))
        yield probability, tuple(1 / keep if flag else 0.0 for flag in kept)


def _accumulated(terms: Rounded, matrix: Rounded, window: int, factors: Rounded | None = None) -> Rounded:
    """Σ_k matrixᵏ terms_{t+k} for k below the window; each step from t to t + 1 times its factor.

    An honest computation may go step by step or take powers: the bound is the wider of the two.
    """
    by_steps = by_powers = step = term = terms
    power: Rounded | None = None
    for _ in range(1, window):
        power = matrix if power is None else power @ matrix
        step = _later(matrix @ step, factors)
        term = _later(term, factors)
        by_steps = by_steps + step
        by_powers = by_powers + power @ term
    return whichever(by_powers, by_steps)


def _later(columns: Rounded, factors: Rounded | None) -> Rounded:
    """Each step gets what belongs to the next, the last nothing."""
    moved = columns[:, 1:] if factors is None else columns[:, 1:] * factors
    return moved.each(lambda array: np.concatenate([array, np.zeros_like(array, shape=(len(array), 1))], -1))


def _drawn(factors: Sequence[float], like: Rounded) -> Rounded:
    values = np.array(factors, dtype=np.float64)
    return Rounded(widened(values, like.value.dtype.type), like.precision.unit * values, like.precision)
