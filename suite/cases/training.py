"""Training steps: their losses, and the loss and gradients that an honest computation has.

Expected values come from the eager model in float64, the computation of the contract's mutants. The allowed error of
a row is twice that of the eager model's worst row in the dtype of the workload, plus the cost of rounding the sums of a
step: see `_allowed`. The loss counts as a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.call import Call, Reply
from attnsuite.cases.expected import Form, NearInNorm
from attnsuite.cases.model import TIMES_EAGER, norms
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

if TYPE_CHECKING:
    from attnsuite.judging.compare import Array

Loss = Callable[[Tensor, Mapping[str, Tensor]], Tensor]
"""The loss of an output and all inputs by name, a number without axes."""
Computation = Callable[[Call], Tensor]
"""An honest computation of a call, in the dtype of its numbers and weights."""

LOSS = "loss"
"""The name of the loss among those of the weights."""
PADDING = 0
"""The token that stands for no word, and has no part in a loss."""
ROWS = 32
"""The number of rows of each gradient that are compared, at most."""


@dataclass(frozen=True)
class ExpectedStep:
    """The expected loss and gradients of one step by name, as two axes, and the allowed error of each row."""

    dtype: str
    values: Mapping[str, Array]
    allowed: Mapping[str, Array]

    def verdict(self, rows: Mapping[str, Sequence[int]], actual: Mapping[str, Tensor]) -> Verdict:
        """Compare rows of the loss and of gradients: the first that is wrong, or the largest error."""
        largest = 0.0
        for name, places in rows.items():
            if name not in actual:
                return Verdict(Status.FAILED, f"no {described(name)} was returned", math.inf)
            value, allowed = self.values[name][list(places)], self.allowed[name][list(places)]
            expected = NearInNorm(Form(value.shape, getattr(torch, self.dtype)), value, allowed)
            verdict = expected.verdict(Reply(actual[name]))
            if verdict.status != Status.PASSED:
                return replace(verdict, detail=f"{described(name)}: {verdict.detail}")
            largest = max(largest, verdict.error_ratio or 0.0)
        return Verdict(Status.PASSED, "", largest)


def expected_step(compute: Computation, loss: Loss, call: Call, dtype: str) -> ExpectedStep:
    """The expected result of the step that a call requests, in the rounding of this dtype."""
    exact, eager = (_step(compute, loss, call, precision) for precision in ("float64", dtype))
    sums = _sums(call)
    allowed = {name: _allowed(value, eager[name], sums, dtype) for name, value in exact.items()}
    return ExpectedStep(dtype, exact, allowed)


def sampled_rows(call: Call, random: Random) -> dict[str, Sequence[int]]:
    """The loss, and some rows of the gradient of each trained weight."""
    rows: dict[str, Sequence[int]] = {LOSS: (0,)}
    for name in call.gradient_of:
        height = _two_axes(_trained(call, name)).shape[0]
        rows[name] = sorted(random.sample(range(height), min(ROWS, height)))
    return rows


def next_token_loss(logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of logits b t v of each position for the next token of `target`, unless that is padding."""
    return functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), inputs["target"][:, 1:].flatten(), ignore_index=PADDING
    )


def class_loss(logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of logits b k: the i-th image of the batch is of class i, counted around."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device) % logits.shape[1])


def repetition_loss(output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """The mean square of the difference between the output, b l o, and the query."""
    return functional.mse_loss(output, inputs["query"])


def described(name: str) -> str:
    """The loss, or the gradient of a weight, in words."""
    return name if name == LOSS else f"gradient of {name}"


def _step(compute: Computation, loss: Loss, call: Call, dtype: str) -> dict[str, Array]:
    """The loss and the gradients in a dtype, each as two axes."""

    def leaf(name: str, tensor: Tensor) -> Tensor:
        if not tensor.dtype.is_floating_point:
            return tensor
        return tensor.detach().to(getattr(torch, dtype), copy=True).requires_grad_(name in call.gradient_of)

    tensors, weights = (
        {name: leaf(name, tensor) for name, tensor in named.items()} for named in (call.tensors, call.weights)
    )
    in_dtype = replace(call, tensors=tensors, weights=weights)
    with torch.enable_grad():
        value = loss(compute(in_dtype), tensors)
    gradients = torch.autograd.grad(value, [_trained(in_dtype, name) for name in call.gradient_of])
    named = {LOSS: value, **dict(zip(call.gradient_of, gradients, strict=True))}
    return {name: compare.numbers(_two_axes(tensor.detach())) for name, tensor in named.items()}


def _trained(call: Call, name: str) -> Tensor:
    return call.weights[name] if name in call.weights else call.tensors[name]


def _two_axes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)


def _sums(call: Call) -> float:
    """The sum of the roots of the lengths of all sums in a step.

    A product with a matrix is computed forward and, for the gradient of its input, backward; the gradient of every
    weight is a sum over the positions of the batch.
    """
    heights = [len(w) for w in (_trained(call, name) for name in call.gradient_of) if w.dim() == 2]
    tensors = call.tensors.values()
    positions = max(tensor[..., 0].numel() if tensor.dtype.is_floating_point else tensor.numel() for tensor in tensors)
    return 2 * sum(math.sqrt(height) for height in heights) + math.sqrt(positions)


def _allowed(exact: Array, eager: Array, sums: float, dtype: str) -> Array:
    """The allowed error of each row: twice the eager model's worst, plus (Σ√k · a + u) · size.

    `a` is the unit roundoff of the accumulator, `u` that of the dtype. The size is the row's norm, or the root mean
    square of all rows' norms where that is larger: a row whose terms cancel is rounded as the others are.
    """
    lengths, precision = norms(exact), PRECISIONS[dtype]
    size = lengths.clip(min=math.sqrt(float((lengths**2).mean())))
    worst = norms(eager - exact).max(initial=0.0)
    allowed: Array = TIMES_EAGER * worst + (sums * precision.accumulator + precision.unit) * size
    return allowed
