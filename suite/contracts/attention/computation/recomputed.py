"""Attention whose backward pass computes the forward pass once more, from what that has kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from attnsuite.contracts.attention.computation.asked import Asked, check
from attnsuite.contracts.attention.computation.backward import Gradients, tensors
from attnsuite.contracts.attention.computation.base import Computation
from attnsuite.contracts.attention.computation.dense import correct
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Memory:
    """What a forward pass keeps for its backward pass."""

    asked: Asked
    state: Tensor
    """That of the random source before the forward pass."""


class Recomputed(Computation):
    """The dense formula, whose backward pass begins with what it has `kept`."""

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        inputs = tensors(asked)
        return _function().apply(self, asked, tuple(inputs), *inputs.values())

    keep = staticmethod(Memory)  # (asked, state) → memory
    restore = staticmethod(lambda state: torch.set_rng_state(state))  # after the backward pass, the state before it
    deliver = staticmethod(lambda gradients, asked: gradients)
    forget = staticmethod(lambda memory: None)  # once the backward pass has run

    def back(self, memory: Memory, gradient: Tensor, wanted: frozenset[str]) -> Gradients:
        """The gradients of the inputs that want one."""
        before = torch.get_rng_state()
        torch.set_rng_state(memory.state)
        with torch.enable_grad():
            asked = renewed(memory.asked, lambda tensor: tensor.detach().requires_grad_(tensor.is_floating_point()))
            again = correct(asked)
        named = tensors(asked)
        found = torch.autograd.grad(again, [named[name] for name in wanted], gradient, allow_unused=True)
        self.restore(before)
        gradients: Gradients = self.deliver(dict(zip(wanted, found, strict=True)), memory.asked)
        self.forget(memory)
        return gradients


def renewed(asked: Asked, change: Callable[[Tensor], Tensor]) -> Asked:
    """The call with all of its tensors changed."""
    options = {name: change(value) for name, value in asked.options.items() if isinstance(value, torch.Tensor)}
    return replace(asked.but(**options), query=change(asked.query), key=change(asked.key), value=change(asked.value))


@cache
def _function() -> Any:
    """The function whose backward pass is a computation's own."""

    class Recomputing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, steps: Recomputed, asked: Asked, names: tuple[str, ...], *inputs: Tensor) -> Tensor:
            ctx.steps, ctx.names = steps, names
            ctx.wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[3:], strict=True) if need)
            ctx.memory = steps.keep(asked, torch.get_rng_state())
            output: Tensor = correct(asked)
            return output

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            found = ctx.steps.back(ctx.memory, gradient, ctx.wanted)
            return (None, None, None, *(found.get(name) for name in ctx.names))

    return Recomputing
