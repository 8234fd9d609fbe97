"""What came back from a call beside what may still happen to it: later calls that write to it, a second way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from attnsuite.cases import Reply
from attnsuite.worker.snapshots import overlap, place_of, same_bits


@dataclass(frozen=True)
class Answer:
    """A reply beside the output and the gradients themselves, which a later call may still change."""

    reply: Reply
    output: Tensor | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The attention weights that came with the output."""

    def unlike(self, other: Answer) -> bool:
        """Whether the same call has answered otherwise."""
        one, two = self.reply, other.reply
        if one.output is None or two.output is None:
            return (one.output, one.raised, one.declined) != (two.output, two.raised, two.declined)
        return not same_bits(one.output, two.output)

    def looked_at_again(self) -> Reply:
        """The reply, saying what later calls have changed."""
        reply = self.reply
        changed = tuple(name for name, now in self.gradients.items() if _differs(now, reply.gradients[name]))
        other = tuple(name for name, now in self.weights.items() if _differs(now, reply.attention_weights[name]))
        overwritten = self.output is not None and _differs(self.output, reply.output)
        return replace(reply, overwritten=overwritten, gradients_overwritten=changed, weights_overwritten=other)


def _differs(now: Tensor, snapshot: Tensor | None) -> bool:
    try:
        return snapshot is not None and not same_bits(now, snapshot)
    except Exception:  # it was resized, freed or moved
        return True


def parted(returned: Any) -> tuple[Any, Mapping[str, Any]]:
    """An output and its attention weights by name, of a pair of them; of anything else that itself, and none."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return returned, {}
    output, weights = returned
    return output, {str(name): each for name, each in weights.items()} if isinstance(weights, dict) else {"": weights}


@dataclass(frozen=True)
class Pass:
    """A forward pass: what was given, and what was returned."""

    inputs: dict[str, Tensor]
    output: Any
    weights: Tensor | None = None
    """What was returned beside the output."""
    pair: bool = False
    name: str = ""
    """That of the weights, where they came in a dictionary."""
    attentions: Mapping[str, Any] = field(default_factory=dict)
    """The same by name, where attention weights were asked for."""

    def shared_with(self, output: Tensor) -> tuple[str, ...]:
        """The inputs whose storage an output shares."""
        place = place_of(output)
        return tuple(name for name, tensor in self.inputs.items() if overlap(place, place_of(tensor)))
