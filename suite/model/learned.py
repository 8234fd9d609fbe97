"""What one attention led to in one training: the loss of each epoch, and scores beside those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, field

from attnsuite.model.typed import Amount, Count, Name, Row, Text

Losses: TypeAlias = Annotated[tuple[float, ...], Meta(min_length=1)]
"""A mean loss for each epoch."""


WRONG_GRADIENTS, RIGHT_GRADIENT = "wrong-gradients", "right"
"""The task in which attentions with wrong gradients are trained, and what stands there for the right one."""


class Learned(Row, frozen=True):
    """One training that ended, from one seed."""

    implementation: Name
    """The attention that was plugged in; the model itself where none can be."""
    task: Name
    seed: Count
    device: Name
    curve: Losses
    scores: Mapping[str, float]
    """By name, of what was not trained on."""
    printed: Mapping[str, float] = field(default_factory=dict)
    """The documents' scores, by the same names."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Scores of simpler methods on the same data, by method."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The task's config: sizes, rates, epochs."""
    seconds: Amount | None = None
    """Seconds that the processor spent on its epochs; those before an interruption count too."""
    without: tuple[Text, ...] = ()
    """What the task uses and the attention lacks, so that it was trained without: dropout of weights."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up to see whether this was trained already."""
        return (self.implementation, self.task, str(self.seed), self.device)
