"""Correct backpropagation through time in foreign styles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.computations import in_numpy, widened
from attnsuite.contracts.steps.recurrent_gradient.mutants import ThroughTime

Array = np.ndarray[Any, Any]
WEIGHTS = {"d_w_hx": 0, "d_w_hh": 1, "d_w_qh": 2}


def _autograd(*tensors: Tensor, of: str = "d_w_hh") -> Tensor:
    """Torch's own differentiation; each step is one product of both matrices side by side."""
    x, y, h0, w_hx, w_hh, w_qh = tensors
    with torch.enable_grad():
        weights = [each.detach().clone().requires_grad_() for each in (w_hx, w_hh, w_qh)]
        side_by_side = torch.cat(weights[:2], 1).mT
        states = list(accumulate(x, lambda h, row: torch.cat([row, h]) @ side_by_side, initial=h0.detach()))
        output = torch.stack([torch.mv(weights[2], state) for state in states[1:]])
        loss = torch.nn.functional.mse_loss(output, y, reduction="sum") / (2 * len(x))
        if of in WEIGHTS:
            return torch.autograd.grad(loss, weights[WEIGHTS[of]])[0]
        if of in ("d_hidden", "d_output"):
            found = torch.autograd.grad(loss, states[1:] if of == "d_hidden" else output)
            return torch.stack(found) if of == "d_hidden" else found[0]
    return {"hidden": torch.stack(states[1:]), "output": output, "loss": loss}[of].detach()


def _by_hand(*arrays: Array, of: str = "d_w_hh", truncate: int | None = None, keep: float | None = None) -> Array:
    """Forward in time and back again, gradients of weights as sums of outer products."""
    x, y, h0, w_hx, w_hh, w_qh = arrays
    states = list(accumulate(x, lambda h, row: w_hh.dot(h) + w_hx.dot(row), initial=h0))
    output = np.array([w_qh.dot(state) for state in states[1:]])
    d_output = (output - y) / len(x)
    d_hidden = _back(d_output, w_hh, w_qh, truncate or len(x), keep)
    loss = np.square(output - y).sum(1).mean() / 2
    flows = Flows(x, states, output, d_output, d_hidden, loss)
    return np.array(_chosen(of, flows, lambda left, right: sum(map(np.outer, left, right))))


def _back(d_output: Array, w_hh: Array, w_qh: Array, window: int, keep: float | None) -> list[Array]:
    """Each output's error flows back by itself, as far as the window reaches and every draw lets it."""
    length = len(d_output)
    drawn = np.ones(length) if keep is None else (torch.rand(length).numpy() < keep) / keep
    found = [np.zeros(len(w_hh)) for _ in range(length)]
    for last in range(length):
        flowing = d_output[last] @ w_qh
        for step in range(last, max(last - window, -1), -1):
            found[step] = found[step] + flowing
            flowing = drawn[step] * (flowing @ w_hh)
    return found


def _powers(*tensors: Tensor, of: str = "d_w_hh", truncate: int | None = None) -> Tensor:
    """Powers of w_hh, and one sum for all that meets in a step."""
    x, y, h0, w_hx, w_hh, w_qh = tensors
    length = len(x)
    powers = [torch.linalg.matrix_power(w_hh, number) for number in range(length + 1)]
    states = _states_by_powers(powers, x @ w_hx.mT, h0)
    output = states[1:] @ w_qh.mT
    d_output = (output - y) / length
    d_hidden = _gradients_by_powers(powers, d_output @ w_qh, min(truncate or length, length))
    flows = Flows(x, states, output, d_output, d_hidden, torch.dist(output, y).square() / (2 * length))
    found: Tensor = _chosen(of, flows, lambda left, right: torch.einsum("tk,tl->kl", left, right))
    return found


def _states_by_powers(powers: list[Tensor], given: Tensor, h0: Tensor) -> Tensor:
    return torch.stack([
        sum((powers[t - 1 - k] @ given[k] for k in range(t)), power @ h0) for t, power in enumerate(powers)
    ])  # fmt: skip


def _gradients_by_powers(powers: list[Tensor], direct: Tensor, reach: int) -> Tensor:
    length = len(direct)
    return torch.stack([
        sum((direct[k] @ powers[k - t] for k in range(t + 1, min(t + reach, length))), direct[t])
        for t in range(length)
    ])  # fmt: skip


class Flows(NamedTuple):
    """What goes forward and back, a row for each step; the states begin with h0."""

    x: Any
    states: Any
    output: Any
    d_output: Any
    d_hidden: Any
    loss: Any


def _chosen(of: str, flows: Flows, product: Callable[[Any, Any], Any]) -> Any:
    """The quantity that is asked for; `product` sums what left and right give in every step."""
    pairs = {
        "d_w_hh": (flows.d_hidden, flows.states[:-1]),
        "d_w_hx": (flows.d_hidden, flows.x),
        "d_w_qh": (flows.d_output, flows.states[1:]),
    }
    if of in pairs:
        return product(*pairs[of])
    return flows.states[1:] if of == "hidden" else getattr(flows, of)


def variants() -> list[Variant]:
    """One recursion, many ways through it."""
    return [
        Variant("autograd", "torch's own differentiation of fused steps", widened(ThroughTime, _autograd)),
        Variant("by_hand", "numpy in float64, each output's error by itself", in_numpy(ThroughTime, _by_hand)),
        Variant("powers", "powers of w_hh, never a recursion", widened(ThroughTime, _powers)),
    ]
