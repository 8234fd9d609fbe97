"""Mistakes that only a signature of the field invites: its axes or its alignment are read as another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Mutant
from attnsuite.registry.signatures.signature import Signature

if TYPE_CHECKING:
    from torch import Tensor

OF_OWN_AXES = frozenset({"attends_over_heads", "returns_heads_last", "reshapes_output_instead_of_transposing"})
"""The contract's mistakes with the order of its own axes. A signature with other axes has those below instead."""


def mutants(of: Signature, contracts: Sequence[Mutant]) -> list[Mutant]:
    """The contract's mistakes as who has this signature can make them, and those in reading its own axes."""
    if not of.heads_inside:
        return list(contracts)
    return [*_of_axes(of), *(each for each in contracts if each.name not in OF_OWN_AXES)]


def _of_axes(of: Signature) -> list[Mutant]:
    """Mistakes with the order of positions and heads."""
    *leading, positions, heads, width = of.axes.split()
    axes, turned = (f"({', '.join([*leading, *each, width])})" for each in ((positions, heads), (heads, positions)))
    said = {
        "reads_positions_as_heads": (
            f"the axes {axes} are read with heads before positions: a position attends to the heads beside it",
            _over_heads,
        ),
        "returns_heads_first": (f"the output has the axes {turned} instead of {axes}", _turned),
        "reshapes_output_instead_of_transposing": (
            f"the output {turned} is reshaped to {axes} instead of transposed",
            _reshaped,
        ),
    }
    return [Mutant(name, says, _Aligned(answer)) for name, (says, answer) in said.items()]


class _Aligned:
    """A mistake in the whole answer, under declared conventions."""

    def __init__(self, answer: Any, conventions: Any = None) -> None:
        self.answer, self.conventions = answer, conventions or {}

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        from attnsuite.contracts.attention.computation.call import as_attention

        return as_attention(self.answer, conventions=self.conventions)(*inputs, **options)

    def under(self, conventions: Any) -> _Aligned:
        return _Aligned(self.answer, conventions)


def _over_heads(asked: Any) -> Any:
    """Attention between the heads of each position; without an axis of heads there is one."""
    if asked.rank < 3:
        return _over_heads(asked.changed(lambda tensor: tensor.unsqueeze(0))).squeeze(0)
    return _in_turn(_correct(asked.changed(_in_turn)))


def _turned(asked: Any) -> Tensor:
    """What lies in the signature's order where the contract's is due."""
    return _in_turn(_correct(asked))


def _reshaped(asked: Any) -> Tensor:
    output: Tensor = _correct(asked)
    return _in_turn(output.reshape(_in_turn(output).shape))


def _correct(asked: Any) -> Any:
    from attnsuite.contracts.attention.computation.call import check
    from attnsuite.contracts.attention.computation.forward import correct

    check(asked)
    return correct(asked)


def _in_turn(tensor: Tensor) -> Tensor:
    """With positions and heads exchanged; one head without an axis is the same either way."""
    return tensor.transpose(-2, -3) if tensor.dim() > 2 else tensor
