"""Mistakes between a forward pass and its backward pass: what is kept there, and for whom."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Whole, correct
from attnsuite.contracts.attention.computation.gradients import Gradients, Memory, Recomputed, tensors


class _Workspace:
    """The memory of the last call, for whoever comes with the same shapes."""

    memory: Memory | None = None


def _shapes(asked: Asked) -> list[Any]:
    return [(name, tensor.shape, tensor.dtype) for name, tensor in tensors(asked).items()]


def in_one_workspace(asked: Asked, state: Tensor) -> Memory:
    last = _Workspace.memory
    if last is None or _shapes(last.asked) != _shapes(asked):
        _Workspace.memory = last = Memory(asked, state)
    last.asked, last.state = asked, state
    return last


class _LastState:
    """The state of the random source before the last call."""

    state = torch.empty(0, dtype=torch.uint8)


class _SharedState(Memory):
    """A memory that looks the state up where the last call has put it."""

    def __getattribute__(self, name: str) -> Any:
        return _LastState.state if name == "state" else super().__getattribute__(name)


def with_one_state_for_all(asked: Asked, state: Tensor) -> Memory:
    _LastState.state = state
    return _SharedState(asked, state)


class _LastScale:
    """The scale of the last call."""

    scale: float | None = None


class _WithLastScale(Memory):
    """A memory that looks the scale up where the last call has put it."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return found.but(scale=_LastScale.scale) if name == "asked" else found


def with_the_last_scale(asked: Asked, state: Tensor) -> Memory:
    _LastScale.scale = asked["scale"]
    return _WithLastScale(asked, state)


class _OfOneThread(Memory):
    """A memory that only the thread finds which has made it."""

    def __init__(self, asked: Asked, state: Tensor) -> None:
        self.thread = threading.get_ident()
        super().__init__(asked, state)

    def __getattribute__(self, name: str) -> Any:
        if name == "asked" and threading.get_ident() != super().__getattribute__("thread"):
            raise RuntimeError("nothing was kept for the backward pass")
        return super().__getattribute__(name)


def keeps_scratch(memory: Memory) -> None:
    """What was kept of the query is scratch space once it has been read."""
    memory.asked = memory.asked.changed(torch.zeros_like, "query")


class _Buffers:
    """Memory for gradients, by what they have to be."""

    buffers: dict[Any, Tensor] = {}  # noqa: RUF012  one for all


def in_reused_buffers(gradients: Gradients, asked: Asked) -> Gradients:
    return {name: None if each is None else _reused(name, each) for name, each in gradients.items()}


def _reused(name: str, gradient: Tensor) -> Tensor:
    as_before = (name, gradient.shape, gradient.dtype, gradient.device)
    return _Buffers.buffers.setdefault(as_before, torch.empty_like(gradient)).copy_(gradient)


def but_once(first: str, second: str) -> Any:
    """Where two inputs are one tensor, only the first of its roles sends a gradient."""

    def delivered(gradients: Gradients, asked: Asked) -> Gradients:
        one, other = (getattr(asked, name) for name in (first, second))
        lost = gradients.get(second)
        if lost is None or one.data_ptr() != other.data_ptr() or one.shape != other.shape:
            return gradients
        return {**gradients, second: torch.zeros_like(lost)}

    return delivered


KEPT = mutants(
    Recomputed,
    keep={
        "shares_workspace_between_calls": Mutation(
            "what is kept for the backward pass lies in a workspace that the next call of these shapes overwrites",
            in_one_workspace,
            "static workspaces of fused kernels",
        ),
        "shares_dropout_state_between_calls": Mutation(
            "the backward pass drops what the last forward pass dropped, not its own", with_one_state_for_all
        ),
        "keeps_memory_in_its_thread": Mutation(
            "what is kept for the backward pass is looked up by thread: another one finds nothing",
            _OfOneThread,
            "on a GPU PyTorch runs backward passes in threads of its own",
        ),
        "goes_back_with_the_last_scale": Mutation(
            "the backward pass has the scale of the last call", with_the_last_scale
        ),
    },
    forget={
        "spoils_memory_in_backward": Mutation(
            "the backward pass writes over what the forward pass kept: a second one through the graph is wrong",
            keeps_scratch,
        )
    },
    restore={
        "leaves_generator_turned_back": Mutation(
            "the backward pass turns the generator back to draw again, and leaves it there", lambda state: None
        )
    },
    deliver={
        "hands_out_gradients_in_reused_buffers": Mutation(
            "gradients lie in buffers that the next backward pass overwrites", in_reused_buffers
        ),
        "loses_key_gradient_of_one_tensor": Mutation(
            "where one tensor is query and key, the key's share of its gradient is lost", but_once("query", "key")
        ),
        "loses_value_gradient_of_one_tensor": Mutation(
            "where one tensor is key and value, the value's share of its gradient is lost", but_once("key", "value")
        ),
    },
)


@Whole.instead("answer", "where a gradient is wanted the generator is not moved on: each step drops the same weights")
def holds_generator_in_training(asked: Asked) -> Any:
    before = torch.get_rng_state()
    output = correct(asked)
    if asked.wants_gradient:
        torch.set_rng_state(before)
    return output


@Whole.instead("answer", "the backward pass turns the generator back to where its forward pass began")
def turns_generator_back_in_backward(asked: Asked) -> Any:
    before = torch.get_rng_state()
    output = correct(asked)
    if output.requires_grad:
        output.register_hook(lambda gradient: torch.set_rng_state(before))
    return output
