"""Mistakes that are made in one branch alone: of LSTMs, or of dot products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from suite.asking import Deviation
from suite.contracts.models.eager import Part
from suite.contracts.models.seq2seq_attention.deviations import attending, states, steps
from suite.contracts.models.seq2seq_attention.deviations.staged import Config, Recurrent

MADE = {
    ("cell", "lstm"): (attending.ignored_lengths, attending.ignored_window, states.stops_at_lengths, steps.squeezed_batch),
    ("score", "dot"): (attending.ignored_lengths, steps.squeezed_batch),
    ("score", "scaled_dot"): (attending.ignored_lengths, attending.ignored_window, attending.nan_for_empty_rows),
}  # fmt: skip


def branches() -> list[Deviation]:
    """The mistakes of `MADE`, each of one branch."""
    return [_in_branch(mistake, *branch) for branch, mistakes in MADE.items() for mistake in mistakes]


def _in_branch(mistake: Deviation, key: str, value: str) -> Deviation:
    def factory(config: Config, weights: Part) -> Callable[..., Tensor]:
        made: Callable[..., Any] = mistake.function if config[key] == value else Recurrent()
        model: Callable[..., Tensor] = made(config, weights)
        return model

    return replace(mistake, name=f"{mistake.name}_of_{value}", says=f"{mistake.says}, where {value} is the {key}",
                   function=factory)  # fmt: skip
