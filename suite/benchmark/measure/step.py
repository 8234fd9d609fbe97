"""A training step to be timed: forward, loss, backward, and the optimiser's update of the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.training import Loss

LEARNING_RATE = 1e-3
"""Adam's, as torch.optim has it where none is given: what it is makes no difference to the time of a step."""
EPSILON = 1e-8
"""Adam's ε, as torch.optim has it; in float16 its smallest normal number, for this would be 0 there."""

Result = tuple[Tensor, tuple[Tensor, ...]]
"""The loss and the gradients of the weights, in order."""


class Step:
    """Steps of Adam on some weights. Before each one the weights get the numbers back that they had at first.

    So each step begins where the truth that it is held against begins, however many came before. The optimiser's
    moments are made before any step, as they are there in all steps of a training but the first.
    """

    def __init__(self, trained: Mapping[str, Tensor], loss: Loss) -> None:
        self._weights = {name: weight.requires_grad_(True) for name, weight in trained.items()}
        self._loss = loss
        smallest = max(torch.finfo(weight.dtype).tiny for weight in trained.values())
        self._optimiser = torch.optim.Adam(trained.values(), lr=LEARNING_RATE, eps=max(EPSILON, smallest))
        self._first = [weight.detach().clone() for weight in trained.values()]
        for weight in trained.values():
            weight.grad = torch.zeros_like(weight)
        self._optimiser.step()
        self.restore()

    def restore(self) -> None:
        """Give the weights their first numbers back."""
        with torch.no_grad():
            torch._foreach_copy_(list(self._weights.values()), self._first)

    def take(self, forward: Callable[[], Any], inputs: Mapping[str, Tensor]) -> Result:
        """One step on these inputs, whose answer `forward` gives.

        Raises NotImplementedError where no gradient reaches some weight.
        """
        self._optimiser.zero_grad()
        output = forward()
        self._check(output)
        loss = self._loss(output, inputs)
        loss.backward()
        self._optimiser.step()
        return loss.detach(), tuple(self._gradients())

    def _gradients(self) -> list[Tensor]:
        """All gradients; those that are missing are said."""
        missing = [name for name, weight in self._weights.items() if weight.grad is None]
        if missing:
            others = f" and {len(missing) - 1} more of its weights" if len(missing) > 1 else ""
            raise NotImplementedError(f"no gradient reaches {missing[0]}{others}: it is built for inference")
        return [weight.grad for weight in self._weights.values() if weight.grad is not None]

    @staticmethod
    def _check(output: Any) -> None:
        if isinstance(output, Tensor) and not output.requires_grad:
            raise NotImplementedError("no gradient reaches its weights: it is built for inference")
