"""Mistakes that are made in one branch alone: of LSTMs, or of dot products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from suite.asking import Deviation
from suite.asking.staged import collected
from suite.contracts.models.eager import Part
from suite.contracts.models.seq2seq_attention.deviations import attending, states, steps
from suite.contracts.models.seq2seq_attention.deviations.staged import Config, Recurrent

MADE = {
    ("cell", "lstm"): ("ignored_lengths", "ignored_window", "stops_at_lengths", "squeezed_batch"),
    ("score", "dot"): ("ignored_lengths", "squeezed_batch"),
    ("score", "scaled_dot"): ("ignored_lengths", "ignored_window", "nan_for_empty_rows"),
}
"""Mistakes by name that are made in one branch as well."""


def _in_branch(mistake: Deviation, key: str, value: str) -> Deviation:
    def factory(config: Config, weights: Part) -> Callable[..., Tensor]:
        made: Callable[..., Any] = mistake.function if config[key] == value else Recurrent()
        model: Callable[..., Tensor] = made(config, weights)
        return model

    return replace(mistake, name=f"{mistake.name}_of_{value}", says=f"{mistake.says}, where {value} is the {key}",
                   function=factory)  # fmt: skip


_BY_NAME = {each.name: each for room in (attending, states, steps) for each in collected(vars(room).values())}
IN_BRANCHES = [_in_branch(_BY_NAME[name], *branch) for branch, names in MADE.items() for name in names]
