"""What is counted instead of timed: FLOPs, products that wait for each other, which output sees which input, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

PRODUCTS = ("MmBackward", "BmmBackward", "AddmmBackward", "MvBackward", "ConvolutionBackward")
"""How the names of the nodes begin that autograd makes of products."""


def flops(call: Callable[[], Any]) -> int:
    """The FLOPs of all matrix products and convolutions of a call, two for each multiplication and addition."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def longest_chain(output: Tensor, leaf: Tensor | None = None) -> int:
    """The most products that wait for each other: the longest path of them from the output to this leaf, or to any."""
    assert output.grad_fn is not None
    longest: dict[Any, float] = {}
    for node in _leaves_first(output.grad_fn):
        before = [longest[each] for each, _ in node.next_functions if each is not None]
        ends = 0.0 if leaf is None or getattr(node, "variable", None) is leaf else -float("inf")
        longest[node] = max([ends, *before]) + type(node).__name__.startswith(PRODUCTS)
    return int(longest[output.grad_fn])


def _leaves_first(root: Any) -> Iterable[Any]:
    """The nodes of a graph, none before one that it is made of."""
    nodes, waiting = {root: None}, [root]
    while waiting:
        new = [each for each, _ in waiting.pop().next_functions if each is not None and each not in nodes]
        nodes |= dict.fromkeys(new)
        waiting += dict.fromkeys(new)
    made_of = {node: {each for each, _ in node.next_functions if each is not None} for node in nodes}
    return TopologicalSorter(made_of).static_order()


def dependence(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Which outputs depend on which inputs: True at i, j where the derivative of output i by input j is not 0, n n.

    `layer` maps n vectors to n vectors.
    """
    jacobian: Tensor = torch.autograd.functional.jacobian(lambda x: layer(x).sum(-1), x)  # n n d
    return jacobian.abs().sum(-1) > 0


def layers_until(sees: Callable[[Tensor], bool], layer: Callable[[Tensor], Tensor], x: Tensor, most: int) -> int:
    """How many times a layer is applied until what depends on what is as wanted; `most` and one if it never is.

    Of a layer that is applied twice, output i depends on input j where it depends on any that depends on j: the
    dependence of one layer is measured, and multiplied.
    """
    once = dependence(layer, x).double()
    reached = once
    for count in range(1, most + 1):
        if sees(reached > 0):
            return count
        reached = ((once @ reached) > 0).double()
    return most + 1


class _Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = operation(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else [made]:
            if isinstance(each, Tensor):
                self.bytes = max(self.bytes, each.numel() * each.element_size())
        return made


def largest_bytes(call: Callable[[], Any]) -> int:
    """The bytes of the largest tensor that a call makes."""
    noted = _Largest()
    with noted:
        call()
    return noted.bytes
