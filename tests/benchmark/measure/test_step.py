"""A training step: what it changes, and that each begins where the first began."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.benchmark.measure.task import EPSILON, LEARNING_RATE, Step


def a_step(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Step]:
    """A step of two weights whose loss is the sum of the squares of their product."""
    a, b = torch.tensor([1.0, 2.0], dtype=dtype), torch.tensor([3.0, -1.0], dtype=dtype)
    return a, b, Step({"a": a, "b": b}, lambda output, inputs: (output**2).sum() * inputs["size"])


def take(a: Tensor, b: Tensor, step: Step, size: float = 1.0) -> tuple[Tensor, tuple[Tensor, ...]]:
    return step.take(lambda: a * b, {"size": torch.tensor(size)})


def test_a_step_returns_the_loss_and_the_gradients_and_changes_the_weights_as_adam_does() -> None:
    a, b, step = a_step()

    loss, gradients = take(a, b, step)

    assert loss.item() == 13.0
    assert not loss.requires_grad
    assert [each.tolist() for each in gradients] == [[18.0, 4.0], [6.0, -8.0]]
    expected = torch.tensor([1.0, 2.0], requires_grad=True)
    adam = torch.optim.Adam([expected], lr=LEARNING_RATE, eps=EPSILON)
    for gradient in ([0.0, 0.0], [18.0, 4.0]):  # the moments are made before any step is timed
        expected.grad = torch.tensor(gradient)
        adam.step()
    assert torch.equal(a, expected)


def test_weights_get_their_first_numbers_back() -> None:
    a, b, step = a_step()
    take(a, b, step)
    assert a.tolist() != [1.0, 2.0]

    step.restore()

    assert (a.tolist(), b.tolist()) == ([1.0, 2.0], [3.0, -1.0])
    assert take(a, b, step)[0].item() == 13.0


def test_a_weight_without_gradient_in_float16_stays_a_number() -> None:
    """ε as torch has it is 0 in float16, so that the update were 0/0."""
    a, b, step = a_step(torch.float16)

    step.take(lambda: a[:1] * b[:1], {"size": torch.tensor(0.0)})

    assert a.isfinite().all()
