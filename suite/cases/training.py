"""What a training step is held against: the loss and the gradients that an honest computation has.

    loss = loss(answer, inputs), then its gradient with respect to each weight that is trained

The truth is computed in float64 by the eager model, the correct computation that the contract's deviations are made
of. The loss, and each row of a gradient, may lie twice as far from it as the eager model's in the dtype of the workload
does where that is worst of that weight's rows, and farther by what rounding the sums of a step costs: see `_room`.
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
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

if TYPE_CHECKING:
    from attnsuite.judging.compare import Array

Loss = Callable[[Tensor, Mapping[str, Tensor]], Tensor]
"""What a step makes smaller, a number without axes: of the answer and of all inputs by name."""
Answer = Callable[[Call], Tensor]
"""An honest computation, which answers a call in the dtype of its numbers and weights."""

LOSS = "loss"
"""The name of the loss beside those of the weights."""
PADDING = 0
"""The token that stands for no word: no loss is counted where it is due."""
ROWS = 32
"""So many rows of each gradient are looked at, at most."""
TIMES_EAGER = 2.0
"""How much farther from the truth than the eager model's loss and gradients others may be, as for answers of models."""


@dataclass(frozen=True)
class ExpectedStep:
    """The truth of one step: the loss and the gradients by name, as two axes, and how far off each row may be."""

    dtype: str
    values: Mapping[str, Array]
    allowed: Mapping[str, Array]

    def verdict(self, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]) -> Verdict:
        """Hold rows of the loss and of gradients against it: the first that is wrong, or the largest error."""
        largest = 0.0
        for name, places in rows.items():
            if name not in found:
                return Verdict(Status.WRONG, f"no {described(name)} came back", math.inf)
            value, allowed = self.values[name][list(places)], self.allowed[name][list(places)]
            due = NearInNorm(Form(value.shape, getattr(torch, self.dtype)), value, allowed)
            verdict = due.verdict(Reply(found[name]))
            if verdict.status != Status.PASSED:
                return replace(verdict, detail=f"{described(name)}: {verdict.detail}")
            largest = max(largest, verdict.error_ratio or 0.0)
        return Verdict(Status.PASSED, "", largest)


def expected_step(answer: Answer, loss: Loss, call: Call, dtype: str) -> ExpectedStep:
    """The truth of the step that this call asks for, in the rounding of this dtype."""
    truth, eager = (_taken(answer, loss, call, each) for each in ("float64", dtype))
    sums = _sums(call)
    room = {name: _room(value, eager[name], sums, dtype) for name, value in truth.items()}
    return ExpectedStep(dtype, truth, room)


def sampled_rows(call: Call, random: Random) -> dict[str, Sequence[int]]:
    """The loss, and some rows of the gradient of each weight that is trained."""
    found: dict[str, Sequence[int]] = {LOSS: (0,)}
    for name in call.gradient_of:
        height = _two_axes(_trained(call, name)).shape[0]
        found[name] = sorted(random.sample(range(height), min(ROWS, height)))
    return found


def next_token_loss(logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of logits b t v: those of each position are for the next token of `target`, if that is a word."""
    due = inputs["target"][:, 1:]
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), due.flatten(), ignore_index=PADDING)


def class_loss(logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of logits b k: the i-th image of the batch is of class i, counted around."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device) % logits.shape[1])


def repetition_loss(output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """The mean square of what the output, b l o, differs from the query by."""
    return functional.mse_loss(output, inputs["query"])


def described(name: str) -> str:
    """The loss, or the gradient of a weight, in words."""
    return name if name == LOSS else f"gradient of {name}"


def _taken(answer: Answer, loss: Loss, call: Call, dtype: str) -> dict[str, Array]:
    """The loss and the gradients in a dtype, each as two axes."""
    tensors, weights = (
        {name: _leaf(call, name, tensor, dtype) for name, tensor in each.items()}
        for each in (call.tensors, call.weights)
    )
    asked = replace(call, tensors=tensors, weights=weights)
    wanted = [_trained(asked, name) for name in call.gradient_of]
    with torch.enable_grad():
        value = loss(answer(asked), tensors)
    gradients = torch.autograd.grad(value, wanted)
    named = {LOSS: value, **dict(zip(call.gradient_of, gradients, strict=True))}
    return {name: compare.numbers(_two_axes(tensor.detach())) for name, tensor in named.items()}


def _leaf(call: Call, name: str, tensor: Tensor, dtype: str) -> Tensor:
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.detach().to(getattr(torch, dtype), copy=True).requires_grad_(name in call.gradient_of)


def _trained(call: Call, name: str) -> Tensor:
    return call.weights[name] if name in call.weights else call.tensors[name]


def _two_axes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)


def _sums(call: Call) -> float:
    """The roots of the lengths of all sums in a step, added up.

    A product with a matrix is computed forward and, for the gradient of its input, backward; the gradient of every
    weight is a sum over the positions of the batch.
    """
    heights = [len(w) for w in (_trained(call, name) for name in call.gradient_of) if w.dim() == 2]
    positions = max(tensor[..., 0].numel() if tensor.dtype.is_floating_point else tensor.numel()
                    for tensor in call.tensors.values())  # fmt: skip
    return 2 * sum(math.sqrt(height) for height in heights) + math.sqrt(positions)


def _room(truth: Array, eager: Array, sums: float, dtype: str) -> Array:
    """How far each row may be off: twice as far as the eager model's worst, and (Σ√k · a + u) · size farther.

    `a` is the unit roundoff of the accumulator, `u` that of the dtype. The size is the row's norm, or the root mean
    square of all rows' norms where that is larger: a row whose terms cancel is rounded as the others are.
    """
    norms, precision = _norms(truth), PRECISIONS[dtype]
    size = norms.clip(min=math.sqrt(float((norms**2).mean())))
    room: Array = (
        TIMES_EAGER * _norms(eager - truth).max(initial=0.0) + (sums * precision.accumulator + precision.unit) * size
    )
    return room


def _norms(rows: Array) -> Array:
    norms: Array = (rows.astype("float64") ** 2).sum(-1) ** 0.5
    return norms
